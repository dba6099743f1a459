"""One DirectQueue shared by threads, each with its own event loop, as in a threaded web server."""

import asyncio
import pickle
import sys
import threading
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
from bucketq.loop_thread import LoopThread


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


async def test_a_broker_queue_belongs_to_the_loop_that_opened_it():
    async with BrokerQueue(InMemoryStorage()) as q:
        with pytest.raises(QueueClosedError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, q.enqueue("mail"))


@pytest.mark.parametrize(
    "error",
    [JobNotFoundError("a"), ClaimLostError("a", "why"), StorageError("what", OSError("why"))],
    ids=repr,
)
def test_errors_survive_the_way_to_another_process(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (type(error), str(error))
    assert copy.__dict__.keys() == error.__dict__.keys()


def test_a_call_that_comes_while_the_loop_of_others_ends_is_refused_and_does_not_wait_for_ever():
    loop, begun, refused = LoopThread(), threading.Event(), []

    def call():
        with pytest.raises(QueueClosedError):
            loop.run(asyncio.sleep(60))
        refused.append(True)

    late = threading.Thread(target=call, daemon=True)

    async def lingering():
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            late.start()
            await asyncio.to_thread(late.join, 0.5)

    def linger():
        with pytest.raises(QueueClosedError):
            loop.run(lingering())

    earlier = threading.Thread(target=linger, daemon=True)
    earlier.start()
    begun.wait()
    loop.stop()
    late.join(5)
    earlier.join(5)
    assert refused == [True]
    assert not earlier.is_alive()
