"""The archive, written: every finished job gets there, with all of its history, for few requests."""

import asyncio
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import msgspec
import pytest

from bucketq import (
    DirectQueue,
    InMemoryStorage,
    ObjectNotFoundError,
    OutcomeUnknownError,
    PayloadError,
    Settings,
)
from bucketq.archive import Archive
from bucketq.job import Outcome
from bucketq.testing.virtual_time import Process, VirtualClock, virtual_time
from bucketq.verify import verify
from tests.faults.faulty import FaultyStorage, queues_with

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR_S = 3600


broker = queues_with()


async def finish(q, count, entrypoint="mail"):
    """Let so many jobs be done, acked in one commit; return their ids."""
    await q.enqueue_many(entrypoint, range(count))
    jobs = await q.dequeue(entrypoint, batch_size=count)
    assert await q.ack_many(jobs) == []
    return [job.id for job in jobs]


async def finish_one(q, payload=b"", result=None, **options):
    job = await q.enqueue("mail", payload, **options)
    [claimed] = await q.dequeue("mail")
    await q.ack(claimed, result)
    return job


async def archived(storage):
    return [job async for job in Archive(storage, clock=VirtualClock()).jobs()]


def objects_of(storage):
    """The archive's objects, as the JSON that is in them."""
    return {
        name: json.loads(content)
        for name, (content, _) in storage.beside.items()
        if name.startswith("archive/") and name.endswith(".json")
    }


async def in_a_process(work):
    """Have something done by a process that is killed right after it."""
    process = Process("brief")
    outcome = await process.start(work)
    process.kill()
    asyncio.get_running_loop().call_later(1e6, process.bury)
    return outcome


async def die_after(storage, work):
    async def main():
        q = await broker(storage, archive_jobs_max=3).__aenter__()
        outcome = await work(q)
        await asyncio.sleep(1)
        return outcome

    return await in_a_process(main())


@virtual_time
async def test_a_job_that_is_done_is_archived_with_its_whole_history():
    storage = FaultyStorage()
    async with broker(storage, archive_jobs_max=1) as q:
        q.worker = "web-1"
        job = await q.enqueue("mail", {"to": "alice"}, priority=-3)
        await asyncio.sleep(10)
        [first] = await q.dequeue()
        await asyncio.sleep(10)
        await q.nack(first, ValueError("no such host"))
        q.worker = "web-2"
        await asyncio.sleep(10)
        [second] = await q.dequeue()
        await asyncio.sleep(10)
        await q.ack(second, result={"sent": True})
        await asyncio.sleep(1)
    assert len(objects_of(storage)) == 1
    [found] = await archived(storage)
    seconds = [START + timedelta(seconds=number * 10) for number in range(5)]
    assert (found.id, found.entrypoint, found.priority) == (job.id, "mail", -3)
    assert (found.status, found.error, found.worker) == ("completed", None, "web-2")
    assert found.json() == {"to": "alice"}
    assert found.result == {"sent": True}
    assert [found.created_at, found.first_claimed_at] == seconds[:2]
    assert [found.claimed_at, found.finished_at] == seconds[3:]
    assert found.attempts_total == 2
    failed, done = found.attempts
    assert (failed.outcome, failed.worker) == (Outcome.FAILED, "web-1")
    assert failed.error == "ValueError: no such host"
    assert [failed.claimed_at, failed.ended_at] == seconds[1:3]
    assert (done.outcome, done.worker, done.error) == (Outcome.COMPLETED, "web-2", None)


@virtual_time
async def test_a_job_that_dies_is_archived_too_and_stays_in_the_queue():
    storage = FaultyStorage()
    async with broker(storage, archive_jobs_max=1) as q:
        await q.enqueue("mail", b"\x00\xff binary", max_attempts=1)
        await q.nack((await q.dequeue())[0], "stale lock file")
        await asyncio.sleep(40)
        state = await q.read_state()
        assert len(state.dead_jobs()) == state.stats.dead == state.stats.dead_total == 1
    [found] = await archived(storage)
    assert (found.status, found.error, found.payload) == ("dead", "stale lock file", b"\x00\xff binary")
    assert [attempt.outcome for attempt in found.attempts] == [Outcome.FAILED]


@virtual_time
async def test_a_job_whose_worker_fell_silent_for_good_says_so_in_the_archive():
    storage = FaultyStorage()
    async with broker(storage, stale_after_s=60) as q:
        await q.enqueue("mail", max_crashes=1)
        assert await q.dequeue()
        assert await q.dequeue(wait=100) == []
    [found] = await archived(storage)
    assert (found.status, found.attempts[0].outcome) == ("dead", Outcome.STALE)


@pytest.mark.parametrize(
    "settings", [{"archive_jobs_max": 5}, {"archive_bytes_max": 1000}, {"archive_after_s": 60}]
)
@virtual_time
async def test_a_batch_is_sealed_when_it_is_full_or_its_time_is_up(settings):
    storage = FaultyStorage()
    async with broker(storage, **settings) as q:
        await finish_one(q)
        await asyncio.sleep(50)
        assert objects_of(storage) == {}
        await finish(q, 4)
        await asyncio.sleep(20)
        assert sum(map(len, objects_of(storage).values())) == 5


@virtual_time
async def test_a_busy_queue_makes_one_more_request_for_each_full_batch():
    async def requests(**settings):
        storage = FaultyStorage()
        async with broker(storage, **settings) as q:
            for _ in range(20):
                await finish(q, 50)
                await asyncio.sleep(1)
        return storage

    with_it, without = await requests(archive_jobs_max=100), await requests(archive=False)
    assert len(objects_of(with_it)) == 10
    assert with_it.creates == without.creates + 10
    assert with_it.writes <= without.writes + 1, "the last one is let go of at the end"
    assert (with_it.reads, with_it.object_reads) == (without.reads, without.object_reads)


@virtual_time
async def test_a_quiet_queue_lets_go_of_what_is_archived():
    storage = FaultyStorage()
    async with broker(storage, archive_jobs_max=3) as q:
        await finish(q, 3)
        await asyncio.sleep(60)
    document = await storage.document()
    assert document["archived"] == {"2026-01-01": 3}
    assert not document.keys() & {"sealed", "finished"}


@virtual_time
async def test_jobs_go_to_the_hour_in_which_they_finished():
    storage = FaultyStorage()
    async with broker(storage, archive_after_s=600) as q:
        await asyncio.sleep(HOUR_S - 100)
        before = await finish(q, 2)
        await asyncio.sleep(200)
        after = await finish(q, 2)
        await asyncio.sleep(HOUR_S)
        version = next(iter(objects_of(storage))).split("/")[2]
        assert {name: [line["id"] for line in lines] for name, lines in objects_of(storage).items()} == {
            f"archive/2026-01-01T00/{version}": before,
            f"archive/2026-01-01T01/{version}": after,
        }


@virtual_time
async def test_a_seal_that_is_due_by_time_and_by_number_in_one_commit_keeps_all_jobs():
    storage = FaultyStorage()
    async with broker(storage, commit_interval_s=5, archive_after_s=100, archive_jobs_max=3) as q:
        early = await finish(q, 2)
        finished_s = asyncio.get_running_loop().time()
        await q.enqueue_many("mail", range(3))
        await asyncio.sleep(finished_s + 97 - asyncio.get_running_loop().time())
        late = await q.dequeue(batch_size=3)
        # The time is up while the next commit still waits for its turn, and these join it.
        await asyncio.sleep(finished_s + 101 - asyncio.get_running_loop().time())
        await q.ack_many(late)
        await asyncio.sleep(100)
    assert {job.id for job in await archived(storage)} == {*early, *(job.id for job in late)}


@virtual_time
async def test_a_batch_whose_process_died_before_it_was_created_is_created_by_another():
    storage = FaultyStorage()
    storage.object_latency_s = 5
    await die_after(storage, lambda q: finish(q, 3))
    await asyncio.sleep(60)
    assert objects_of(storage) == {}
    [name] = (await storage.document())["sealed"]
    async with broker(storage) as q:
        for _ in range(4):
            await q.stats()
            await asyncio.sleep(20)
    assert list(objects_of(storage)) == [name]
    assert (await storage.document())["archived"] == {"2026-01-01": 3}


@virtual_time
async def test_a_batch_whose_process_died_before_letting_go_of_it_is_created_again_without_harm():
    storage = FaultyStorage()
    ids = await die_after(storage, lambda q: finish(q, 3))
    before = objects_of(storage)
    assert len(before) == len((await storage.document())["sealed"]) == 1
    assert [job.id for job in await archived(storage)] == ids, "each once"
    async with broker(storage) as q:
        await q.stats()
        await asyncio.sleep(11)
        await q.stats()
        await asyncio.sleep(40)
    assert storage.creates == 2
    assert objects_of(storage) == before
    assert "sealed" not in await storage.document()


@pytest.mark.parametrize("fault", ["lost answer", "lost request", "slow down"])
@virtual_time
async def test_a_create_that_goes_wrong_is_repeated(fault):
    storage = FaultyStorage()
    async with broker(storage, archive_jobs_max=3) as q:
        storage.object_faults.append(fault)
        ids = await finish(q, 3)
        await asyncio.sleep(60)
        assert "sealed" not in await storage.document()
    assert [[line["id"] for line in lines] for lines in objects_of(storage).values()] == [ids]


@pytest.mark.parametrize("meanwhile", ["another process commits", "the same name is sealed", "nothing"])
@virtual_time
async def test_no_object_is_created_for_a_batch_whose_seal_has_not_landed(meanwhile):
    inner = InMemoryStorage()
    slow, quick = FaultyStorage(inner), FaultyStorage(inner)
    slow.object_latency_s = 12
    async with broker(slow, archive_jobs_max=2) as q, broker(quick, archive_jobs_max=2) as other:
        ids = await q.enqueue_many("mail", range(6))
        jobs = await q.dequeue(batch_size=6)
        ids += await other.enqueue_many("other", range(2))
        others = await other.dequeue("other", batch_size=2)
        for batch in (jobs[:2], jobs[2:4]):
            assert await q.ack_many(batch) == []
            await asyncio.sleep(1)
        slow.faults.extend(["lost request"] * 1000)
        acking = asyncio.create_task(q.ack_many(jobs[4:]))
        await asyncio.sleep(18)
        slow.object_latency_s = 1
        await asyncio.sleep(9)
        if meanwhile == "another process commits":
            await other.enqueue("third")
        elif meanwhile == "the same name is sealed":
            assert await other.ack_many(others) == []
        else:
            await asyncio.sleep(8)
        slow.faults.clear()
        [answer] = await asyncio.gather(acking, return_exceptions=True)
        await asyncio.sleep(30)
        if isinstance(answer, OutcomeUnknownError):
            assert await q.ack_many(jobs[4:]) == []
        if meanwhile != "the same name is sealed":
            assert await other.ack_many(others) == []
        for _ in range(10):
            await asyncio.sleep(20)
            await asyncio.gather(q.stats(), other.stats())
    assert sorted(job.id for job in await archived(quick)) == sorted(ids)
    assert (await verify(quick)).problems == []


@virtual_time
async def test_an_outage_of_creates_delays_the_archive_and_nothing_else():
    storage = FaultyStorage()
    ids = []
    async with broker(storage, archive_jobs_max=5) as q:
        storage.object_faults.extend(["lost request"] * 10_000)
        for _ in range(20):
            begun_s = asyncio.get_running_loop().time()
            ids += await finish(q, 3)
            assert asyncio.get_running_loop().time() == begun_s
            await asyncio.sleep(10)
        storage.object_faults.clear()
        assert objects_of(storage) == {}
        assert Counter(job.id for job in await archived(storage)) == Counter(ids)
        for _ in range(20):
            await q.stats()
            await asyncio.sleep(10)
        assert "sealed" not in await storage.document()
    assert Counter(job.id for job in await archived(storage)) == Counter(ids)


@virtual_time
async def test_processes_that_live_for_one_call_only_keep_queue_json_small():
    storage = FaultyStorage()

    async def call(verb, *args):
        q = DirectQueue(storage, Settings(archive_jobs_max=2), clock=VirtualClock())
        return await in_a_process(getattr(q, verb)(*args))

    for _ in range(12):
        await call("enqueue", "mail")
        [job] = await call("dequeue")
        await call("ack", job)
    document = await storage.document()
    assert document["archived"] == {"2026-01-01": 12}
    assert "sealed" not in document


@virtual_time
async def test_processes_that_live_for_one_call_only_archive_what_has_waited_long_enough():
    storage = FaultyStorage()
    q = DirectQueue(storage, Settings(archive_after_s=600), clock=VirtualClock())
    await finish_one(q)
    await asyncio.sleep(500)
    await finish_one(q)
    assert objects_of(storage) == {}
    await asyncio.sleep(101)
    await q.enqueue("mail")
    assert [len(lines) for lines in objects_of(storage).values()] == [2]


@virtual_time
async def test_processes_that_live_for_one_job_only_see_to_what_a_crash_left():
    storage = FaultyStorage()
    await die_after(storage, lambda q: finish(q, 3))
    storage.beside.clear()
    for _ in range(10):
        await in_a_process(finish_one(DirectQueue(storage, clock=VirtualClock())))
    assert "sealed" not in await storage.document()
    assert [len(lines) for lines in objects_of(storage).values()] == [3]


@virtual_time
async def test_one_clock_that_is_ahead_does_not_hold_the_others_up():
    storage = FaultyStorage()
    async with broker(storage, archive_after_s=600) as q:
        await finish_one(DirectQueue(storage, clock=VirtualClock(timedelta(days=30))))
        await finish_one(q)
        await asyncio.sleep(1300)
        assert sum(map(len, objects_of(storage).values())) == 2


@virtual_time
async def test_without_an_archive_finished_jobs_are_only_counted():
    storage, inner = FaultyStorage(), InMemoryStorage()
    two_methods = SimpleNamespace(read=inner.read, write=inner.write)
    for q in (broker(storage, archive=False), broker(two_methods, archive_jobs_max=1)):
        async with q:
            await finish(q, 3)
            await finish_one(q, result={"kept": "nowhere"})
            await asyncio.sleep(HOUR_S)
            stats = (await q.read_state()).stats
            assert (stats.completed_total, stats.enqueued_total) == (4, 4)
    assert storage.beside == {}
    for document in (await storage.document(), json.loads((await two_methods.read())[0])):
        assert not document.keys() & {"finished", "sealed", "archived"}


DEEP = json.loads("[" * 900 + "]" * 900)
BAD_RESULTS = [object(), "x" * 70_000, "\ud800", msgspec.Raw(b"oops"), {"a": msgspec.Raw(b"[1,\n2]")}, DEEP]
BAD_RESULTS += [msgspec.Raw(b"1e999"), msgspec.Raw(b"1" * 5000)]


@pytest.mark.parametrize(
    "result",
    BAD_RESULTS,
    ids=["object", "large", "surrogate", "raw", "lines", "deep", "1e999", "long"],
)
@virtual_time
async def test_a_result_that_cannot_be_kept_is_refused_and_the_job_can_still_be_acked(result):
    storage = FaultyStorage()
    async with broker(storage) as q:
        await q.enqueue("mail")
        [job] = await q.dequeue()
        with pytest.raises(PayloadError, match="the result"):
            await q.ack(job, result=result)
        await q.ack(job, result=[0, "null", None])
    assert [job.result for job in await archived(storage)] == [[0, "null", None]]


@virtual_time
async def test_a_payload_that_looks_like_the_archives_own_words_does_no_harm():
    storage = FaultyStorage()
    async with broker(storage, archive_jobs_max=1) as q:
        payload = {"payload_object": "archive/x", "status": "dead", "v": 9}
        await finish_one(q, payload, result={"payload_object": "archive/y"})
        await asyncio.sleep(1)
        assert len(objects_of(storage)) == 1
    [found] = await archived(storage)
    assert (found.json(), found.status, found.payload_object) == (payload, "completed", None)


@virtual_time
async def test_a_large_payload_is_fetched_while_its_job_is_on_the_way_to_the_archive():
    storage = FaultyStorage()
    async with broker(storage, payload_inline_max=100, archive_payloads=True) as q:
        await finish_one(q, b"x" * 500)
        [found] = await archived(storage)
        assert await Archive(storage, clock=VirtualClock()).fetch_payload(found) == b"x" * 500
        assert (await verify(storage)).problems == []
        storage.beside.clear()
        assert len((await verify(storage)).problems) == 1


@pytest.mark.parametrize("keeps", [True, False])
@virtual_time
async def test_a_large_payload_is_kept_with_the_archived_job_if_that_is_wanted(keeps):
    storage = FaultyStorage()
    async with broker(storage, payload_inline_max=100, archive_payloads=keeps, archive_jobs_max=1) as q:
        await finish_one(q, b"x" * 500)
        await asyncio.sleep(60)
    assert storage.names == set(), "the original"
    [found] = await archived(storage)
    assert (found.payload, found.payload_size) == (b"", 500)
    archive = Archive(storage, clock=VirtualClock())
    if keeps:
        assert found.payload_object.startswith("archive/2026-01-01T00/payloads/")
        assert await archive.fetch_payload(found) == b"x" * 500
    else:
        with pytest.raises(ObjectNotFoundError):
            await archive.fetch_payload(found)
    assert (await verify(storage)).is_sound
