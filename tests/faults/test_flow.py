"""Jobs that wait for others, batches, results and progress: with segments, an archive, and lost answers."""

import asyncio

import pytest

from bucketq import (
    ConfigurationError,
    DirectQueue,
    HeartbeatManager,
    JobFailedError,
    JobNotDoneError,
    JobNotFoundError,
    JobStatus,
    QueueState,
)
from bucketq.segment_lines import SegmentLines
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from bucketq.verify import verify
from tests.faults.faulty import FaultyStorage, queues_with

SMALL = {"hot_jobs_max": 40, "segment_jobs_max": 100}


broker = queues_with(**SMALL)


async def finish_all(q, entrypoint, fail=()):
    """Serve an entrypoint to its end; return the payloads served."""
    served = []
    while jobs := await q.dequeue(entrypoint, batch_size=50):
        for job in jobs:
            served.append(job.json())
            if job.json() in fail:
                await q.nack(job, "boom")
            else:
                await q.ack(job)
    return served


@virtual_time
async def test_a_parent_in_a_segment_is_found_there_and_told_from_one_that_is_finished():
    storage = FaultyStorage()
    async with broker(storage, archive_jobs_max=20) as q:
        ids = await q.enqueue_many("first", range(500), max_attempts=1)
        assert len((await storage.document())["jobs"]) < 100
        last = await q.enqueue("second", "last", after=[ids[499], ids[250]])
        assert last.after == (ids[499], ids[250])
        assert await finish_all(q, "first", fail={0, 1}) == list(range(500))
        assert [job.id for job in await q.dequeue("second")] == [last.id]
        # Meanwhile those are in the archive, and the dead in the queue.
        await asyncio.sleep(100)
        await q.enqueue("tick")
        assert not (await storage.document()).get("sealed"), "they have arrived there"
        child = await q.enqueue("second", "child", after=[ids[300]])
        assert child.status is JobStatus.QUEUED
        assert (await q.enqueue("second", after=[ids[300], ids[1]])).is_cancelled
        with pytest.raises(JobNotFoundError, match="nobody"):
            await q.enqueue("second", after=[ids[300], "nobody"])


@virtual_time
async def test_dead_and_scheduled_parents_in_segments():
    storage = FaultyStorage()
    async with broker(storage, archive_jobs_max=20) as q:
        dead = await q.enqueue_many("first", range(200), max_attempts=1)
        await finish_all(q, "first", fail=set(range(200)))
        scheduled = [await q.enqueue("later", number, delay=3600) for number in range(200)]
        await asyncio.sleep(100)
        await q.enqueue("tick")
        document = await storage.document()
        assert {"dead", "scheduled"} <= {one.get("status") for one in document["segments"]}
        in_file = {job["id"] for job in document["jobs"]}
        assert dead[100] not in in_file
        [later, *_] = [job for job in scheduled if job.id not in in_file]
        assert (await q.enqueue("second", after=[dead[100]])).is_cancelled
        assert (await q.enqueue("second", after=[dead[100]], if_dead="run")).status is JobStatus.QUEUED
        child = await q.enqueue("third", after=[later])
        assert child.status is JobStatus.BLOCKED
        await asyncio.sleep(4000)
        await finish_all(q, "later")
        assert [job.id for job in await q.dequeue("third")] == [child.id]


@virtual_time
async def test_blocked_jobs_stay_when_others_overflow():
    storage = FaultyStorage()
    async with broker(storage) as q:
        parent = await q.enqueue("first")
        await q.enqueue_many("second", range(300), after=[parent])
        await q.enqueue_many("other", range(1000))
        assert (await q.stats()).blocked == 300
        await q.ack_many(await q.dequeue("first"))
        assert await finish_all(q, "second") == list(range(300))
        with pytest.raises(ConfigurationError, match="at once"):
            await q.enqueue_many("second", range(20_000), after=[parent])


@virtual_time
async def test_a_batch_of_many_lands_in_one_commit_and_its_last_job_brings_the_follower():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue("other")
        writes = storage.writes
        then = ("publish", {"large": "x" * 100_000})
        batch = await q.enqueue_batch("resize", iter(range(3000)), then=then, max_attempts=1)
        assert storage.writes - writes == 1
        assert len((await storage.document())["jobs"]) == 1
        assert await q.batch(batch.id) == (3000, 3000, 0)
        await finish_all(q, "resize", fail={5, 2999})
        assert await q.batch(batch.id) == (3000, 0, 2)
        [job] = await q.dequeue("publish")
        assert (job.id, job.json()) == (batch.id, then[1])
        await q.ack(job)
        assert "batches" not in await storage.document()


@virtual_time
async def test_the_large_payload_of_a_follower_is_not_collected_while_its_batch_runs():
    storage = FaultyStorage()
    async with broker(storage, collect_after_s=1.0, payload_inline_max=10) as q:
        batch = await q.enqueue_batch("resize", range(3), then=("publish", {"large": "x" * 100}))
        for _ in range(5):
            await asyncio.sleep(10)
            await q.enqueue("tick")
            await q.collect_garbage()
        await finish_all(q, "resize")
        [job] = await q.dequeue("publish")
        assert (job.id, job.json()) == (batch.id, {"large": "x" * 100})


@pytest.mark.parametrize("fault", ["lost answer", "lost, retried", "late", "conflict", "lost request"])
@virtual_time
async def test_a_batch_counts_down_once_whatever_becomes_of_the_answers(fault):
    storage = FaultyStorage()
    async with broker(storage) as q:
        storage.faults += [fault]
        batch = await q.enqueue_batch("resize", range(4), then=("publish", b""))
        for left in (3, 2, 1, 0):
            [job] = await q.dequeue("resize")
            storage.faults += [fault]
            await q.ack(job)
            assert await q.batch(batch.id) == (4, left, 0)
        storage.faults += [fault]
        [job] = await q.dequeue("publish")
        assert await q.dequeue("publish") == []
        assert (await q.stats()).enqueued_total == 5


@virtual_time
async def test_a_result_comes_with_the_commit_that_finished_the_job_and_later_from_the_archive():
    storage = FaultyStorage()
    clock = VirtualClock()
    async with broker(storage, archive_after_s=5) as q, broker(storage) as other:
        job = await q.enqueue("sum", max_attempts=1)
        waiting = [asyncio.create_task(one.result(job)) for one in (q, other)]
        await asyncio.sleep(60)
        [claimed] = await q.dequeue()
        began_s = clock.monotonic_s()
        await q.ack(claimed, [3])
        assert await waiting[0] == [3]
        assert clock.monotonic_s() == began_s, "it was woken, not found by looking"
        assert await waiting[1] == [3]
        assert clock.monotonic_s() <= began_s + 1.1
        await asyncio.sleep(60)
        await q.enqueue("tick")
        assert "finished" not in await storage.document()
        for one in (q, other, DirectQueue(storage, clock=clock)):
            assert await one.result(job.id, timeout=5) == [3]


@virtual_time
async def test_whoever_waits_for_a_result_asks_gently_and_two_do_not_keep_each_other_awake():
    storage = FaultyStorage()
    async with broker(storage) as q:
        ids = await q.enqueue_many("first", range(300))
        waiting = [asyncio.create_task(q.result(job_id)) for job_id in (ids[0], ids[250], ids[251])]
        await asyncio.sleep(5)
        reads = storage.reads
        await asyncio.sleep(100)
        assert storage.reads - reads <= 3 * 100
        await finish_all(q, "first")
        assert await asyncio.gather(*waiting) == [None] * 3


@virtual_time
async def test_waiting_for_the_result_of_a_job_in_a_segment_costs_other_commits_nothing():
    async with broker(FaultyStorage(), segment_jobs_max=5000) as q:
        ids = await q.enqueue_many("first", range(1000))
        waiting = [asyncio.create_task(q.result(job_id)) for job_id in ids[-11:]]
        await asyncio.sleep(20)
        looks = []
        find = SegmentLines.find
        SegmentLines.find = lambda *args: looks.append(args) or find(*args)
        try:
            for number in range(100):
                await q.enqueue("second", number)
            assert not looks
        finally:
            SegmentLines.find = find
        # Whoever leaves the segment is seen at once.
        began_s = asyncio.get_running_loop().time()
        await q.cancel(ids[-11])
        with pytest.raises(JobNotDoneError):
            await waiting[0]
        assert asyncio.get_running_loop().time() == began_s
        await finish_all(q, "first")
        assert await asyncio.gather(*waiting[1:]) == [None] * 10
        assert asyncio.get_running_loop().time() == began_s


@virtual_time
async def test_whoever_waits_for_a_batch_that_runs_is_not_woken_by_every_commit():
    async with broker(FaultyStorage()) as q:
        batch = await q.enqueue_batch("resize", [1], then=("publish", {}))
        waiting = asyncio.create_task(q.result(batch.id))
        await asyncio.sleep(20)
        looks = []
        look_up = QueueState.look_up
        QueueState.look_up = lambda *args: looks.append(args) or look_up(*args)
        try:
            for number in range(100):
                await q.enqueue("other", number)
        finally:
            QueueState.look_up = look_up
        assert not looks
        await finish_all(q, "resize")
        await finish_all(q, "publish")
        assert await waiting is None


@virtual_time
async def test_the_result_of_a_job_that_fails_or_is_cancelled_or_takes_too_long():
    async with broker(FaultyStorage(), archive_after_s=5) as q:
        job = await q.enqueue("sum", max_attempts=1)
        child = await q.enqueue("sum", after=[job])
        with pytest.raises(TimeoutError, match="not finished after 3 s"):
            await q.result(job, timeout=3)
        waiting = [asyncio.create_task(q.result(one)) for one in (job, child)]
        await asyncio.sleep(1)
        [claimed] = await q.dequeue()
        await q.nack(claimed, ValueError("bad"))
        failed, cancelled = await asyncio.gather(*waiting, return_exceptions=True)
        assert (type(failed), failed.error) == (JobFailedError, "ValueError: bad")
        assert type(cancelled) is JobNotDoneError
        assert job.id in str(cancelled)
        await asyncio.sleep(60)
        await q.enqueue("tick")
        for one, kind in ((job, JobFailedError), (child, JobNotDoneError)):
            with pytest.raises(kind):
                await q.result(one)


@virtual_time
async def test_without_an_archive_a_result_cannot_be_told_and_that_is_said():
    async with broker(FaultyStorage(), archive=False) as q:
        job = await q.enqueue("sum")
        await q.ack_many(await q.dequeue())
        with pytest.raises(JobNotFoundError, match="no archive"):
            await q.result(job)
        assert (await q.enqueue("next", after=[job])).status is JobStatus.QUEUED


@virtual_time
async def test_progress_rides_with_a_later_write_and_a_plain_heartbeat_does_not_wipe_it_out():
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=300) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        writes = storage.writes
        await q.heartbeat(job, progress=0.4, note="page 4")
        await q.heartbeat(job)
        assert storage.writes == writes
        await q.enqueue("other")
        found = await q.find(job)
        assert (found.progress, found.note) == (0.4, "page 4")
        await q.heartbeat(job, progress=1)
        await asyncio.sleep(101)
        assert (await q.find(job)).progress == 1, "within a third of the stale timeout, by itself"


@virtual_time
async def test_a_heartbeat_manager_reports_with_its_next_beat():
    q = DirectQueue(FaultyStorage(), clock=VirtualClock())
    await q.enqueue("mail")
    [job] = await q.dequeue()
    async with HeartbeatManager(q, job, interval=10) as beat:
        beat.report(0.25, "a quarter")
        assert (await q.find(job)).progress is None
        await asyncio.sleep(11)
        found = await q.find(job)
        assert (found.progress, found.note) == (0.25, "a quarter")
        beat.report(0.5)
        await asyncio.sleep(10)
        found = await q.find(job)
        assert (found.progress, found.note) == (0.5, "a quarter")
        with pytest.raises(ConfigurationError):
            beat.report(50)


@virtual_time
async def test_verify_counts_the_jobs_of_a_batch_and_looks_for_its_followers_payload():
    storage = FaultyStorage()
    async with broker(storage) as q:
        batch = await q.enqueue_batch("resize", range(300), then=("publish", {"large": "x" * 100_000}))
        await q.ack_many(await q.dequeue("resize", batch_size=10))
    assert (await verify(storage)).problems == []
    content, etag = await storage.inner.read()
    await storage.inner.write(content.replace(b'"left":290', b'"left":289'), etag)
    [problem] = (await verify(storage)).problems
    assert batch.id in problem
    assert "289" in problem
    content, etag = await storage.inner.read()
    await storage.inner.write(content.replace(b'"left":289', b'"left":290'), etag)
    [name] = [name for name in storage.names if name.startswith("payloads/")]
    del storage.beside[name]
    [problem] = (await verify(storage)).problems
    assert name in problem


@virtual_time
async def test_many_jobs_that_wait_for_one_in_a_segment_do_not_look_for_it_again_and_again():
    async with broker(FaultyStorage(), segment_jobs_max=5000) as q:
        ids = await q.enqueue_many("first", range(5000))
        looks = []
        find = SegmentLines.find
        SegmentLines.find = lambda *args: looks.append(args) or find(*args)
        try:
            await q.enqueue_many("second", range(1000), after=[ids[4999]])
        finally:
            SegmentLines.find = find
        assert len(looks) <= 2
        assert (await q.stats()).blocked == 1000
