"""Deadlines: a call ends within `retry_for_s`, whatever the storage does and however long it queued."""

import asyncio

import pytest

from bucketq import DirectQueue, StorageError
from bucketq.testing.virtual_time import virtual_time
from tests.faults.faulty import FaultyStorage, queues_with

opened = queues_with(archive=False)
directly = queues_with(DirectQueue, archive=False)


class Hanging(FaultyStorage):
    """Takes requests and, while it hangs, gives an error after 10 s: as a bucket does."""

    hangs_s = 0.0

    async def _reach(self):
        if self.hangs_s:
            await asyncio.sleep(self.hangs_s)
            raise StorageError("injected: timed out")
        await super()._reach()


def now_s():
    return asyncio.get_running_loop().time()


async def error_of(call):
    """The error of a call, and how long it took."""
    began_s = now_s()
    try:
        await call
    except Exception as error:
        return error, now_s() - began_s
    return None, now_s() - began_s


async def calls_every(interval_s, count, call):
    """Begin a call every so often; return their errors and times."""
    calls = []
    for _ in range(count):
        calls.append(asyncio.create_task(error_of(call())))
        await asyncio.sleep(interval_s)
    return await asyncio.gather(*calls)


@pytest.mark.parametrize("hangs_s", [10.0, 1e6])
@pytest.mark.parametrize("limit_s", [5, 30])
@pytest.mark.parametrize("kind", [opened, directly])
@virtual_time
async def test_a_call_ends_within_its_time_however_it_queues(kind, limit_s, hangs_s):
    storage = Hanging()
    async with kind(storage, retry_for_s=limit_s) as q:
        await q.enqueue("mail")
        storage.hangs_s = hangs_s
        ended = await calls_every(1.0, 40, lambda: q.enqueue("mail"))
        for error, took_s in ended:
            assert isinstance(error, StorageError)
            assert took_s == pytest.approx(limit_s, abs=0.2)
            assert f"{took_s:.1f} s" in str(error), "the error states the real time"
        storage.hangs_s = 0.0
        assert (await error_of(q.enqueue("mail")))[0] is None
