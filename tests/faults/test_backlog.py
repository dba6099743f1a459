"""A backlog that outgrows queue.json: what its users see of the segments, which is nothing but the pace."""

import asyncio
import json
from datetime import UTC, datetime, timedelta, timezone

import pytest

from bucketq import (
    BrokerQueue,
    ClaimLostError,
    ConfigurationError,
    JobNotFoundError,
    PayloadError,
    Settings,
)
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage, queues_with

SMALL = {"hot_jobs_max": 100, "segment_jobs_max": 400}


broker = queues_with(**SMALL)


async def drain(q, entrypoint=None, batch_size=50, work_s=0.0):
    """Serve and finish everything; return the payloads in the order served."""
    served = []
    while jobs := await q.dequeue(entrypoint, batch_size=batch_size):
        served += [job.json() for job in jobs]
        await asyncio.sleep(work_s)
        assert await q.ack_many(jobs) == []
    return served


@virtual_time
async def test_a_long_line_of_single_enqueues_overflows_and_is_served_in_order_to_the_last():
    storage = FaultyStorage()
    async with broker(storage) as q:
        jobs = [await q.enqueue("mail", number) for number in range(3000)]
        longest = max(len(json.loads(content)["jobs"]) for content in storage.versions)
        assert longest <= 110, "queue.json stays as short as it may be, at every moment"
        assert (await q.stats()).queued == 3000
        state = await q.read_state()
        assert [job.json() for job in state.queued_jobs("mail")] == list(range(3000))
        assert state.find(jobs[2000].id) == await q.find(jobs[2000].id) == jobs[2000]
        assert await drain(q) == list(range(3000))
    assert storage.names == set(), "nothing is left beside a queue without a backlog"
    assert (await q.read_state()).stats.completed_total == 3000


@virtual_time
async def test_a_late_job_of_higher_priority_overtakes_the_backlog_and_one_of_lower_waits_behind_it():
    async with broker(FaultyStorage()) as q:
        await q.enqueue_many("mail", range(1000))
        await q.enqueue("mail", "low", priority=1)
        await q.enqueue("mail", "high", priority=-1)
        assert await drain(q, batch_size=1) == ["high", *range(1000), "low"]


@virtual_time
async def test_the_next_job_of_an_entrypoint_is_found_in_a_segment_behind_those_of_others():
    async with broker(FaultyStorage()) as q:
        await q.enqueue_many("first", range(500))
        await q.enqueue_many("second", range(500))
        for number in range(500):
            await q.enqueue("third", number)
        for entrypoint in ("third", "second", "first"):
            assert await drain(q, entrypoint) == list(range(500))


@virtual_time
async def test_enqueue_many_of_a_long_generator_lands_in_one_commit_and_returns_the_ids_in_order():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue("mail", -1)
        writes = storage.writes
        ids = await q.enqueue_many("mail", (number for number in range(5000)))
        assert storage.writes - writes == 1
        jobs = (await q.read_state()).queued_jobs()
        assert [job.json() for job in jobs] == list(range(-1, 5000))
        assert [job.id for job in jobs[1:]] == list(ids)


@virtual_time
async def test_a_long_generator_is_asked_for_no_more_than_is_stored_soon():
    storage = FaultyStorage()
    storage.object_latency_s = 0.1
    ahead = []

    def payloads():
        for number in range(5000):
            ahead.append(number - SMALL["segment_jobs_max"] * len(storage.names))
            yield number

    async with broker(storage) as q:
        await q.enqueue_many("mail", payloads())
    assert max(ahead) <= SMALL["segment_jobs_max"]


@virtual_time
async def test_a_bad_payload_at_the_end_of_a_long_generator_leaves_nothing_behind():
    storage = FaultyStorage()
    async with broker(storage) as q:
        with pytest.raises(PayloadError):
            await q.enqueue_many("mail", (n if n < 1999 else object() for n in range(2000)))
        assert storage.creates > 0
        assert (await q.stats()).enqueued_total == 0
    assert storage.names == set()


@virtual_time
async def test_commits_go_on_while_a_segment_is_being_read():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue_many("mail", range(1000))
    async with broker(storage) as q:
        storage.object_latency_s = 60
        waiting = asyncio.create_task(q.dequeue("mail"))
        await asyncio.sleep(1)
        await q.enqueue("other", 1)
        [job] = await q.dequeue("other")
        await q.ack(job)
        assert asyncio.get_running_loop().time() < 2
        assert not waiting.done()
        assert [job.json() for job in await waiting] == [0]
        storage.object_latency_s = 0


@virtual_time
async def test_a_segment_that_is_read_slowly_keeps_nobody_who_needs_another_one_waiting():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue_many("slow", range(1000))
        await q.enqueue_many("fast", range(1000))
    read = storage.objects.read

    async def read_slowly(name):
        await asyncio.sleep(60 if b'"slow"' in storage.beside[name][0][:40] else 1)
        return await read(name)

    storage.objects.read = read_slowly
    async with broker(storage) as q:
        waiting = [asyncio.create_task(q.dequeue(entrypoint)) for entrypoint in ("slow", "fast")]
        await asyncio.sleep(5)
        assert [task.done() for task in waiting] == [False, True]
        await asyncio.gather(*waiting)


@virtual_time
async def test_nobody_waits_for_a_spill():
    storage = FaultyStorage()
    storage.latency_s, storage.object_latency_s = 0.01, 10
    async with broker(storage) as q:
        for number in range(300):
            await q.enqueue("mail", number)
        assert storage.creates > 0, "a spill is under way"
        assert asyncio.get_running_loop().time() < 300 * 0.011 + 0.1, "each took one commit's time"
        await asyncio.sleep(60)
        assert len((await storage.document())["jobs"]) <= 100
        storage.object_latency_s = 0
        assert await drain(q) == list(range(300))


@virtual_time
async def test_a_job_that_stands_in_a_segment_is_in_nobodys_hands():
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=10) as q:
        await q.enqueue("mail", -1)
        [silent] = await q.dequeue("mail")
        await asyncio.sleep(60)
        for number in range(300):
            await q.enqueue("mail", number, priority=-1)
        assert silent.id not in {job["id"] for job in (await storage.document())["jobs"]}
        for claim in (silent, silent.id):
            for refused in (q.ack(claim), q.nack(claim), q.heartbeat(claim)):
                with pytest.raises(ClaimLostError):
                    await refused
            [error] = await q.ack_many([claim])
            assert isinstance(error, ClaimLostError)
        for refused in (q.ack("nobody"), q.nack("nobody"), q.heartbeat("nobody")):
            with pytest.raises(JobNotFoundError) as caught:
                await refused
            assert not isinstance(caught.value, ClaimLostError)
        assert (await drain(q))[-1] == -1


@virtual_time
async def test_a_commit_sends_no_more_when_fifty_thousand_jobs_wait_than_when_a_thousand_do():
    async def spent(waiting):
        storage = FaultyStorage()
        async with BrokerQueue(storage, settings=Settings(archive=False), clock=VirtualClock()) as q:
            await q.enqueue_many("mail", range(waiting))
            for number in range(200):
                await q.enqueue("mail", number)
                assert await q.ack_many(await q.dequeue("mail")) == []
            assert (await q.stats()).queued == waiting
        sent = [len(content) for content in storage.versions]
        return sum(sent) / len(sent), max(sent), storage.writes + storage.creates + storage.object_reads

    shallow, deep = await spent(1_000), await spent(50_000)
    for few, many in zip(shallow, deep, strict=True):
        assert many <= 1.5 * few, (shallow, deep)


@virtual_time
async def test_looking_into_a_deep_backlog_reads_a_few_segments_at_most():
    storage = FaultyStorage()
    storage.object_latency_s = 0.01
    async with broker(storage, segment_jobs_max=2500) as q:
        ids = await q.enqueue_many("mail", range(50_000))
    assert len(storage.names) == 20
    storage.reads = 0
    async with broker(storage) as q:
        assert (await q.stats()).queued == 50_000
        assert (storage.reads, storage.object_reads) == (1, 0)
        assert (await q.find(ids[12_345])).json() == 12_345
        assert await q.find("nobody") is None
        assert storage.object_reads <= 3


@virtual_time
async def test_the_first_job_of_a_deep_backlog_costs_queue_json_and_a_few_segments():
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue_many("mail", range(20_000))
    storage.reads = storage.object_reads = 0
    async with broker(storage) as q:
        assert [job.json() for job in await q.dequeue("mail")] == [0]
        assert storage.reads == 1
        assert storage.object_reads <= 8


@virtual_time
async def test_two_processes_drain_one_backlog_without_losing_or_doubling():
    storage = FaultyStorage()
    storage.latency_s = storage.object_latency_s = 0.01
    async with broker(storage) as ours, broker(storage) as theirs:
        await asyncio.gather(*(ours.enqueue("mail", number) for number in range(1000)))
        await theirs.enqueue_many("mail", range(1000, 3000))
        served = await asyncio.gather(
            drain(ours, batch_size=70, work_s=0.5), drain(theirs, "mail", batch_size=90, work_s=0.5)
        )
        assert sorted(served[0] + served[1]) == list(range(3000))
        assert min(map(len, served)) > 100, "both took part"
        for part in served:
            assert part == sorted(part), "each was served in order"
    assert storage.names == set()


@virtual_time
async def test_a_segment_that_another_process_used_up_is_not_missed():
    storage = FaultyStorage()
    async with broker(storage) as ours, broker(storage) as theirs:
        await ours.enqueue_many("mail", range(1000))
        assert await drain(theirs) == list(range(1000))
        assert await ours.dequeue("mail") == [], "although it knew of segments"
        await theirs.enqueue_many("mail", range(1000))
        assert await drain(ours) == list(range(1000))
    assert storage.names == set()


@virtual_time
async def test_upkeep_costs_busy_callers_no_commit_of_its_own():
    storage = FaultyStorage()
    storage.latency_s = 0.1
    async with BrokerQueue(storage, settings=Settings(hot_jobs_max=100), clock=VirtualClock()) as q:
        await q.enqueue("warm up")
        writes = storage.writes

        async def produce():
            for number in range(20):
                await q.enqueue("mail", number)

        await asyncio.gather(*(produce() for _ in range(100)))
        # Swaps go along with the callers' own writes.
        assert storage.writes - writes == 20
        assert storage.creates > 5


@virtual_time
async def test_a_queue_that_has_names_of_entrypoints_beyond_the_limit_is_served_as_ever(monkeypatch):
    storage, name = FaultyStorage(), "m" * 1000
    # As an earlier bucketq wrote it.
    monkeypatch.setattr("bucketq.new_job.NAME_MAX", 1000)
    async with broker(storage) as q:
        await q.enqueue_many(name, range(300), max_attempts=1)
        await q.schedule("often", name, every=3600)
        assert storage.names, "some are in segments"
    monkeypatch.undo()
    async with broker(storage) as q:
        assert [job.json() async for job in q.jobs(entrypoint=name)] == list(range(300))
        first, *others = [job for _ in range(3) for job in await q.dequeue(name, batch_size=100)]
        assert await q.ack_many(others) == []
        await q.nack(first, "boom")
        await q.redrive(first.id)
        await asyncio.sleep(3700)
        assert len(await q.dequeue(name, batch_size=9)) == 2, "redriven, and fired by the schedule"


@virtual_time
async def test_times_whose_zone_has_seconds_come_back_from_segments_as_they_were():
    zone = timezone(timedelta(hours=5, seconds=17))
    storage, clock = FaultyStorage(), VirtualClock()
    async with broker(storage) as q:
        due = [clock.now() + timedelta(seconds=600 + number) for number in range(300)]
        for moment in due:
            await q.enqueue(
                "mail", run_at=moment.astimezone(zone), expires_at=datetime.max.replace(tzinfo=UTC)
            )
        assert storage.names, "some are in segments"
    async with broker(storage) as q:
        await asyncio.sleep(1200)
        jobs = [job for _ in range(6) for job in await q.dequeue("mail", batch_size=50)]
        assert [job.run_at for job in jobs] == due
        assert {job.run_at.tzinfo for job in jobs} == {UTC}
        beyond = (
            datetime.min.replace(tzinfo=zone),
            datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))),
        )
        for moment in beyond:
            with pytest.raises(ConfigurationError, match="beyond the years that a time can have"):
                await q.enqueue("mail", run_at=moment)
