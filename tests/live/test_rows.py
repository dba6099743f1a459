"""What the tables hold."""

import pytest

from bucketq.job import JobStatus
from bucketq.live.rows import EntrypointRow, Filter, WorkerRow, entrypoint_rows, job_rows, worker_rows
from tests.live.watched import WatchedQueue


@pytest.fixture
async def queue():
    async with WatchedQueue() as queue:
        yield queue


async def look(queue):
    return await queue.looker().look()


async def test_entrypoints_with_all_their_jobs_wherever_these_are(queue):
    await queue.enqueue_many("resize", range(5000))
    await queue.enqueue("report", delay=60)
    queue.wait(30)
    await queue.enqueue("mail")
    await queue.enqueue("mail")
    await queue.kill("mail")
    await queue.dequeue("resize", batch_size=3)
    await queue.pause("report")
    queue.wait(10)
    seen = await look(queue)
    assert len(seen.state.jobs) < 5000
    assert entrypoint_rows(seen) == [
        EntrypointRow("mail", 1, 0, 1, 10.0, is_paused=False),
        EntrypointRow("resize", 4997, 3, 0, 40.0, is_paused=False),
        EntrypointRow("report", 0, 0, 0, None, is_paused=True, scheduled=1),
    ]


async def test_the_oldest_wait_is_known_of_jobs_in_segments_alone(queue):
    await queue.enqueue_many("resize", range(5000))
    queue.wait(90)
    seen = await look(queue)
    assert not seen.state.jobs
    assert [row.oldest_wait_s for row in entrypoint_rows(seen)] == [90]


async def test_a_pause_without_jobs_is_seen(queue):
    await queue.pause("mail")
    assert entrypoint_rows(await look(queue)) == [EntrypointRow("mail", 0, 0, 0, None, is_paused=True)]


async def test_a_limit_is_seen_with_its_entrypoint(queue):
    await queue.limit("mail", max_running=4)
    first = await queue.enqueue("fax")
    await queue.enqueue("fax", after=[first])
    fax, mail = entrypoint_rows(await look(queue))
    assert (mail.name, mail.limit.max_running) == ("mail", 4)
    assert (fax.queued, fax.blocked, fax.limit) == (1, 1, None)


async def test_workers_with_their_jobs_and_last_heartbeat(queue):
    await queue.enqueue_many("mail", range(3))
    await queue.enqueue_many("resize", range(5000))
    queue.worker = "web-1:7"
    [first, _] = await queue.dequeue("mail", batch_size=2)
    queue.worker = "web-2:9"
    await queue.dequeue("mail")
    while await queue.dequeue("resize", batch_size=1000, at_hand=True):
        pass
    queue.worker = "spark-3:1"
    claim = await queue.dequeue_segment("resize")
    queue.wait(20)
    await queue.heartbeat(first)
    await queue.heartbeat_segment(claim)
    queue.wait(5)
    rows = {row.name: row for row in worker_rows(await look(queue))}
    assert rows["web-1:7"] == WorkerRow("web-1:7", 2, 5.0)
    assert rows["spark-3:1"] == WorkerRow("spark-3:1", claim.segment.count, 5.0)
    assert rows["web-2:9"].silent_s == 25.0


async def test_jobs_that_run_come_first_then_the_newest_dead_then_those_that_are_next(queue):
    await queue.enqueue("c", priority=5)
    for name in ("d1", "d2"):
        await queue.enqueue(name)
        await queue.kill(name)
        queue.wait(1)
    await queue.enqueue("b", priority=-1)
    await queue.enqueue("later", delay=10)
    for name in ("run1", "run2"):
        await queue.enqueue(name)
        await queue.dequeue(name)
        queue.wait(1)
    names = [job.entrypoint for job in job_rows(await look(queue), Filter())]
    assert names == ["run1", "run2", "d2", "d1", "b", "c", "later"]


@pytest.mark.parametrize(
    "text", ["Mail", "ANN@example", "order-17", "acme", "host-9", "PAGE 4", "{id}"], ids=lambda text: text
)
async def test_a_text_finds_jobs_by_all_that_they_tell(queue, text):
    job = await queue.enqueue("mail", {"to": "ann@example.com"}, key="order-17", tenant="acme")
    queue.worker = "host-9"
    [held] = await queue.dequeue("mail")
    await queue.heartbeat(held, note="page 4 of 10")
    await queue.enqueue("other", {"to": "bob"})
    found = job_rows(await look(queue), Filter(text.format(id=job.id)))
    assert [job.entrypoint for job in found] == ["mail"]


async def test_a_status_and_a_text_both_have_to_fit(queue):
    for name in ("mail", "page"):
        await queue.enqueue(name)
        await queue.enqueue(name)
        await queue.kill(name, error="ConnectionError: refused by " + name)
    seen = await look(queue)
    assert len(job_rows(seen, Filter(status=JobStatus.DEAD))) == 2
    [dead] = job_rows(seen, Filter("by mail", JobStatus.DEAD))
    assert (dead.entrypoint, dead.status) == ("mail", JobStatus.DEAD)
