"""One DirectQueue shared by threads, each with its own event loop, as in a threaded web server."""

import asyncio
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from bucketq import (
    BrokerQueue,
    ClaimLostError,
    DirectQueue,
    InMemoryStorage,
    JobNotFoundError,
    LocalFileSystemStorage,
    QueueClosedError,
    StorageError,
)


@pytest.fixture
def _hurried_threads():
    """Threads that take turns as often as they can, so that any gap is found."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before_s)


@pytest.mark.usefixtures("_hurried_threads")
@pytest.mark.parametrize("kind", ["file", "memory"])
def test_threads_may_share_a_direct_queue(tmp_path, kind):
    q = DirectQueue(LocalFileSystemStorage(tmp_path / "queue.json") if kind == "file" else InMemoryStorage())

    def enqueue(number):
        return asyncio.run(q.enqueue("mail", number)).id

    def claim(_):
        return [job.id for job in asyncio.run(q.dequeue("mail"))]

    with ThreadPoolExecutor(8) as threads:
        enqueued = list(threads.map(enqueue, range(100)))
        claimed = [job_id for jobs in threads.map(claim, range(120)) for job_id in jobs]
    assert sorted(claimed) == sorted(enqueued)


def test_a_broker_queue_belongs_to_the_loop_that_opened_it():
    async def main():
        async with BrokerQueue(InMemoryStorage()) as q:
            with pytest.raises(QueueClosedError, match="another event loop"):
                await asyncio.to_thread(asyncio.run, q.enqueue("mail"))

    asyncio.run(main())


@pytest.mark.parametrize(
    "error",
    [JobNotFoundError("a"), ClaimLostError("a", "why"), StorageError("what", OSError("why"))],
    ids=repr,
)
def test_errors_survive_the_way_to_another_process(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (type(error), str(error))
    assert copy.__dict__.keys() == error.__dict__.keys()
