"""How fast, and how long: from the differences of looks."""

import pytest

from bucketq import InMemoryStorage
from bucketq.live.trend import Times, Trend
from tests.live.watched import WatchedQueue


@pytest.fixture
async def queue():
    async with WatchedQueue() as queue:
        yield queue


async def work(queue, run_s, number=1):
    for _ in range(number):
        [job] = await queue.dequeue()
        queue.wait(run_s)
        await queue.ack(job)


async def test_rates_are_those_of_the_counters(queue):
    trend, looker = Trend(), queue.looker()
    await queue.enqueue_many("mail", range(20))
    trend.add(await looker.look())
    assert (trend.completed_per_s, trend.enqueued_per_s) == (0, 0)
    for _ in range(2):
        await work(queue, 0.5, number=4)
        await queue.enqueue("mail")
        trend.add(await looker.look())
    assert (trend.completed_per_s, trend.enqueued_per_s) == (2, 0.5)
    assert trend.completed_line(4) == [0, 0, 2, 2]
    assert trend.completed_line(1) == [2]


async def test_waits_and_runs_are_those_of_the_jobs(queue):
    trend, looker = Trend(), queue.looker()
    trend.add(await looker.look())
    await queue.enqueue_many("mail", range(3))
    queue.wait(10)
    await work(queue, 2)
    await work(queue, 4)
    trend.add(await looker.look())
    assert trend.waits == Times(10, 12)
    assert trend.runs == Times(2, 4)
    assert trend.waits_line(2) == [0, 10]
    assert trend.runs_line(2) == [0, 2]


async def test_a_line_that_a_newer_version_has_written_is_passed_over(queue):
    await queue.enqueue_many("mail", range(2))
    await work(queue, 2)
    await work(queue, 3)
    content, etag = await queue.storage.read()
    await queue.storage.write(content.replace(b'"v":1', b'"v":99', 1), etag)
    trend = Trend()
    trend.add(await queue.looker().look())
    assert trend.runs == Times(3, 3)


async def test_what_finished_before_the_first_look_tells_how_long_it_takes(queue):
    await queue.enqueue("mail")
    queue.wait(3)
    await work(queue, 2)
    trend = Trend()
    trend.add(await queue.looker().look())
    assert (trend.waits, trend.runs) == (Times(3, 3), Times(2, 2))
    assert trend.completed_per_s == 0


async def test_a_job_is_counted_once_however_often_it_is_seen(queue):
    trend, looker = Trend(), queue.looker()
    trend.add(await looker.look())
    await queue.enqueue("mail")
    queue.wait(5)
    [job] = await queue.dequeue()
    for _ in range(3):
        trend.add(await looker.look())
        queue.wait(1)
    await queue.ack(job)
    for _ in range(3):
        trend.add(await looker.look())
    assert trend.waits_line(7) == [0, 5, 0, 0, 0, 0, 0]
    assert trend.runs_line(7) == [0, 0, 0, 0, 3, 0, 0]


async def test_a_retried_job_waits_from_when_it_was_due_again(queue):
    trend, looker = Trend(), queue.looker()
    job = await queue.enqueue("mail")
    [job] = await queue.dequeue()
    queue.wait(100)
    await queue.nack(job, "refused", retry_in=50)
    trend.add(await looker.look())
    queue.wait(57)
    await work(queue, 1)
    trend.add(await looker.look())
    assert trend.waits == Times(7, 7)
    assert trend.runs == Times(1, 1)


async def test_an_idle_queue_has_no_times_and_no_rates(queue):
    trend, looker = Trend(), queue.looker()
    for _ in range(3):
        trend.add(await looker.look())
        queue.wait(1)
    assert (trend.waits, trend.runs, trend.completed_per_s) == (None, None, 0)


async def test_a_queue_that_was_replaced_has_done_nothing_yet(queue):
    trend, looker = Trend(), queue.looker()
    await queue.enqueue_many("mail", range(5))
    trend.add(await looker.look())
    queue.wait(1)
    async with WatchedQueue(InMemoryStorage()) as other:
        other.wait(5)
        trend.add(await other.looker().look())
    assert trend.enqueued_per_s == 0
