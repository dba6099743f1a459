"""A client that reads the whole queue through a broker while others use its segments up."""

import pytest

from bucketq import CorruptStateError, DirectQueue, ObjectNotFoundError, Settings
from bucketq.remote.queue import RemoteQueue
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage


class Brokers:
    """Shows one version of a queue after the other; only the last one has its segments still."""

    def __init__(self, versions, beside):
        self._versions = versions
        self._beside = beside
        self._shown = 0

    async def read_object(self, address, name):
        if not name:
            self._shown += 1
            return self._versions[min(self._shown, len(self._versions)) - 1]
        if self._shown < len(self._versions) or name not in self._beside:
            raise ObjectNotFoundError(name)
        return self._beside[name][0]

    async def close(self):
        pass


async def three_versions():
    """Versions of a queue, each with segments of its own, and the objects that are there with the last."""
    storage, versions = FaultyStorage(), []
    settings = Settings(hot_jobs_max=4, segment_jobs_max=10)
    q = DirectQueue(storage, settings=settings, clock=VirtualClock())
    for _ in range(3):
        while jobs := await q.dequeue(batch_size=50):
            await q.ack_many(jobs)
        await q.enqueue_many("mail", range(30))
        versions.append(storage.versions[-1])
    return versions, dict(storage.beside)


async def read(versions, beside):
    q = RemoteQueue(lambda: Brokers(versions, beside), ["b:1"], clock=VirtualClock())
    async with q:
        return await q.read_state()


@virtual_time
async def test_segments_that_are_used_up_meanwhile_are_looked_for_anew_as_often_as_it_takes():
    state = await read(*await three_versions())
    assert len(state.jobs) == 30


@virtual_time
async def test_a_segment_that_is_gone_from_a_queue_that_stands_still_is_told():
    versions, _ = await three_versions()
    with pytest.raises(CorruptStateError):
        await read(versions[-1:], {})
