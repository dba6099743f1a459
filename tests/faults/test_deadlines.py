"""Deadlines: a call ends within `retry_for_s`, whatever the storage does and however long it queued."""

import asyncio
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketq import DirectQueue, OutcomeUnknownError, StorageError
from bucketq.testing.virtual_time import run, virtual_time
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
            assert took_s == pytest.approx(limit_s, abs=0.6)
            assert f"{took_s:.1f} s" in str(error), "the error states the real time"
        storage.hangs_s = 0.0
        assert (await error_of(q.enqueue("mail")))[0] is None


FAULTS = st.sampled_from(
    ["no answer", "full", "full", "lost request", "lost answer", "late", "conflict", "slow down", None]
)


@pytest.mark.parametrize("kind", [opened, directly])
@given(
    st.lists(st.tuples(st.floats(0.0, 3.0), st.lists(FAULTS, max_size=12)), min_size=1, max_size=12),
    st.sampled_from([0.0, 1.0, 6.0]),
)
@settings(max_examples=60)
def test_every_call_ends_in_time_and_its_error_is_true(kind, calls, limit_s):
    run(check_calls(kind, calls, limit_s))


async def check_calls(kind, calls, limit_s):
    storage = FaultyStorage()
    storage.latency_s = 0.05
    async with kind(storage, retry_for_s=limit_s) as q:
        await q.enqueue("first")
        tasks = []
        for number, (later_s, faults) in enumerate(calls):
            await asyncio.sleep(later_s)
            storage.faults = deque(faults)
            tasks.append(asyncio.create_task(error_of(q.enqueue(f"mail-{number}"))))
        ended = await asyncio.gather(*tasks)
        storage.faults.clear()
        # Whatever was, the next call succeeds.
        assert (await error_of(q.enqueue("last")))[0] is None
        found = [job["entrypoint"] for job in (await storage.document())["jobs"]]
    assert len(found) == len(set(found)), "nothing is done twice"
    for number, (error, took_s) in enumerate(ended):
        # One try is had even behind another one that takes all of its time.
        assert took_s <= 2 * max(limit_s, 5.0) + 0.5
        if error is None:
            assert f"mail-{number}" in found
        elif not isinstance(error, OutcomeUnknownError):
            assert f"mail-{number}" not in found, f"nothing was changed, says {error!r}"
