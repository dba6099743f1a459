"""bucketq.sync, as programs without async use it: from threads, with interrupts, and after its end."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import bucketq.sync
from bucketq import ClaimLostError, QueueClosedError, Settings

URL = "memory://"


def test_threads_share_one_queue_and_its_writes(tmp_path):
    with bucketq.sync.connect(f"file://{tmp_path}/queue.json") as q, ThreadPoolExecutor(20) as threads:
        jobs = list(threads.map(lambda n: q.enqueue("mail", n), range(200)))
        assert len({job.id for job in jobs}) == 200
        claimed = [job for jobs in threads.map(lambda _: q.dequeue(), range(200)) for job in jobs]
        assert {job.id for job in claimed} == {job.id for job in jobs}
        list(threads.map(q.ack, claimed))
        assert q.stats().completed_total == 200
        assert q.read_state().version < 600, "callers that come together share a write"


class Interrupted(BaseException):
    pass


@pytest.fixture
def interrupt():
    """Interrupts the main thread in a moment, as Ctrl-C would."""

    def raise_interrupted(number, frame):
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, raise_interrupted)
    yield threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR1)).start
    signal.signal(signal.SIGUSR1, before)


def test_a_call_that_is_interrupted_keeps_no_job(interrupt):
    with bucketq.sync.connect(URL) as q:
        interrupt()
        with pytest.raises(Interrupted):
            q.dequeue(wait=60)
        q.enqueue("mail")
        assert len(q.dequeue(wait=10)) == 1


def test_a_lost_claim_is_told_to_the_work_and_at_its_end():
    with bucketq.sync.connect(URL) as q:
        q.enqueue("mail")
        [job] = q.dequeue()
        with pytest.raises(ClaimLostError), q.kept_alive(job, interval=0.05) as lost:
            q.nack(job.id, "taken away")
            assert lost.wait(10)


def test_a_claim_that_is_kept_alive_outlives_the_stale_timeout():
    with bucketq.sync.connect(URL, settings=Settings(stale_after_s=0.2, poll_interval_s=0.05)) as q:
        q.enqueue("mail")
        [job] = q.dequeue()
        with q.kept_alive(job, interval=0.05):
            assert q.dequeue(wait=1) == []
        q.ack(job)


def test_errors_inside_a_transaction_leave_nothing():
    with bucketq.sync.connect(URL) as q:
        with pytest.raises(ZeroDivisionError), q.transaction() as t:
            t.enqueue("mail")
            _ = 1 / 0
        assert q.stats().enqueued_total == 0


def test_a_queue_that_is_not_open_says_so():
    others = threading.enumerate()
    q = bucketq.sync.connect(URL)
    with pytest.raises(QueueClosedError):
        q.enqueue("mail")
    with q:
        q.enqueue("mail")
        with pytest.raises(QueueClosedError):
            q.__enter__()
    with pytest.raises(QueueClosedError):
        q.stats()
    left = (thread for thread in threading.enumerate() if thread not in others)
    assert not any(thread.name == "bucketq" for thread in left)


@pytest.mark.parametrize("seconds", [60, None])
def test_threads_that_still_wait_when_the_queue_is_closed_are_told(seconds):
    outcomes = []

    def wait(q):
        try:
            q.dequeue(wait=seconds) if seconds else q.enqueue_many("mail", endless())
        except QueueClosedError as error:
            outcomes.append(error)

    started = threading.Event()

    def endless():
        while True:
            started.set()
            yield b"x"

    with bucketq.sync.connect(URL) as q:
        thread = threading.Thread(target=wait, args=(q,))
        thread.start()
        if seconds is None:
            assert started.wait(10)
    thread.join(10)
    assert not thread.is_alive()
    assert len(outcomes) <= 1
