"""A backlog that is larger than the segment cache: every call is answered, and queue.json stays small."""

import asyncio
import json
from itertools import chain

import pytest

from bucketq import BrokerQueue, DirectQueue, Settings
from bucketq.operation import Batch, Dequeue, Enqueue, LookUp
from bucketq.operation.settlements import Cancel
from bucketq.segment import key_of
from bucketq.segment_lines import SegmentLines
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage

# A segment has 20 jobs of about 300 bytes: two of them fit into the cache.
SMALL = {
    "hot_jobs_max": 40,
    "hot_bytes_max": 16_000,
    "segment_jobs_max": 20,
    "segment_cache_bytes": 14_000,
    "payload_inline_max": 4_000,
    # Finished jobs on their way to the archive are in queue.json too.
    "archive": False,
}
ANSWERED_WITHIN_S = 600


def opened(kind, storage, **settings):
    return kind(storage, settings=Settings(**SMALL | settings), clock=VirtualClock())


both_kinds = pytest.mark.parametrize("kind", [BrokerQueue, DirectQueue])


async def within(call):
    """A call that hangs fails; the time is virtual."""
    async with asyncio.timeout(ANSWERED_WITHIN_S):
        return await call


async def drain(q, entrypoint=None, batch_size=10):
    served = []
    while jobs := await within(q.dequeue(entrypoint, batch_size=batch_size)):
        served += jobs
        assert await q.ack_many(jobs) == []
    return served


def largest(storage):
    return max(map(len, storage.versions))


@both_kinds
@virtual_time
async def test_due_jobs_of_many_entrypoints_are_served_though_they_do_not_fit_into_the_cache(kind):
    storage = FaultyStorage()
    async with opened(kind, storage) as q:
        for number in range(9):
            await q.enqueue_many(f"e{number}", ["x" * 100] * 60, delay=10, tenant="acme")
        await asyncio.sleep(11)
        del storage.versions[:]
        assert len(await drain(q)) == 9 * 60
    assert largest(storage) < 3 * SMALL["hot_bytes_max"]


@both_kinds
@virtual_time
async def test_large_due_jobs_of_one_entrypoint_do_not_make_the_file_large(kind):
    storage = FaultyStorage()
    async with opened(kind, storage) as q:
        for priority in (2, 1, 0):
            await q.enqueue_many("mail", ["x" * 3000] * 60, delay=10, priority=priority)
        await asyncio.sleep(11)
        del storage.versions[:]
        jobs = await within(q.dequeue("mail"))
        assert largest(storage) < 2 * SMALL["hot_bytes_max"], "one dequeue brought in what fits"
        await q.ack_many(jobs)
        served = [*jobs, *await drain(q, "mail", batch_size=2)]
    assert [job.priority for job in served] == [0] * 60 + [1] * 60 + [2] * 60
    assert largest(storage) < 2 * SMALL["hot_bytes_max"]


@both_kinds
@pytest.mark.parametrize("cache_bytes", [SMALL["segment_cache_bytes"], 10**6])
@virtual_time
async def test_a_dequeue_is_answered_while_more_jobs_come_due_in_every_segment(kind, cache_bytes):
    loop, storage = asyncio.get_running_loop(), FaultyStorage()
    async with opened(kind, storage, segment_cache_bytes=cache_bytes) as q:
        for number in range(6 * 200):
            # About one of each entrypoint comes due with every request.
            delay = 1000 + number // 6 * 0.1
            await q.enqueue(f"e{number % 6}", "x" * 100, priority=number % 7, delay=delay)
        storage.latency_s = storage.object_latency_s = 0.05
        await asyncio.sleep(1001 - loop.time())
        asked_s = loop.time()
        assert await within(q.dequeue())
        assert loop.time() - asked_s < 5, "the last job is due after 20 seconds"


@virtual_time
async def test_a_client_that_also_enqueues_with_every_batch_dequeues_from_segments():
    storage = FaultyStorage()
    async with opened(BrokerQueue, storage) as q:
        other = [*await q.enqueue_many("other", ["x" * 100] * 80)]
        await q.enqueue_many("mail", ["x" * 100] * 80)
        while jobs := await q.dequeue("mail", batch_size=10, at_hand=True):
            await q.ack_many(jobs)
        for number in range(1, 20):
            await asyncio.gather(*map(q.find, other[::20]))
            for job_id in other[::20]:
                await q._submit(Enqueue((q._new_job("other", b"", 0, {"after": [job_id]}),)))
            enqueue = Enqueue((q._new_job("other", b"", 0, {}),))
            now = q._clock.now()
            batch = Batch("client", number, 0, (enqueue, Dequeue("mail", 1, f"t{number}", now)), now)
            if (await within(q._submit(batch))).answers[1]:
                return
        raise AssertionError("every batch was answered without a job")


@virtual_time
async def test_due_jobs_of_a_paused_queue_stay_where_they_are():
    storage = FaultyStorage()
    async with opened(BrokerQueue, storage) as q:
        for number in range(5):
            await q.enqueue_many(f"e{number}", range(100), delay=10)
        await q.pause()
        await asyncio.sleep(11)
        reads = storage.object_reads
        assert await within(q.dequeue(batch_size=10)) == []
        assert storage.object_reads == reads
        assert (await q.stats()).scheduled == 500
        await q.resume()
        assert len(await drain(q)) == 500


@both_kinds
@pytest.mark.parametrize("is_alike", [True, False])
@virtual_time
async def test_the_most_urgent_due_job_is_next_however_many_are_due(kind, is_alike):
    storage = FaultyStorage()
    async with opened(kind, storage) as q:
        delays = [10] * 200 if is_alike else [10 + (7 * number) % 20 for number in range(200)]
        jobs = [
            await q.enqueue("mail", number, priority=5 if is_alike else number % 3 + 1, delay=delay)
            for number, delay in enumerate(delays)
        ]
        urgent = await q.enqueue("mail", "urgent", priority=0, delay=31)
        await asyncio.sleep(40)
        served = await drain(q, "mail", batch_size=1)
    expected = [urgent, *sorted(jobs, key=lambda job: (job.priority, job.json()))]
    assert [job.json() for job in served] == [job.json() for job in expected]


@virtual_time
async def test_a_dequeue_is_answered_while_jobs_of_the_segment_that_it_needs_are_cancelled():
    loop, storage = asyncio.get_running_loop(), FaultyStorage()
    async with opened(BrokerQueue, storage, segment_jobs_max=5000, segment_cache_bytes=10**6) as q:
        jobs = [
            q._new_job("mail", "x" * 50, number % 7, {"delay": 10 + number % 5}) for number in range(1000)
        ]
        await q._submit(Enqueue(tuple(jobs)))
        await asyncio.sleep(5)
        [segment] = (await q.read_file()).backlog
        await asyncio.sleep(20)
        storage.latency_s, storage.object_latency_s = 0.02, 0.2
        in_it = [job.id for job in jobs if segment.still_holds(key_of(job))]
        is_answered, cancelled = False, set()

        async def cancel():
            while not is_answered:
                job_id = in_it.pop()
                if isinstance(await q._submit(Cancel(job_id, q._clock.now(), segment.name)), list):
                    return  # it is in another segment by now
                cancelled.add(job_id)
                await asyncio.sleep(0.05)

        cancelling, asked_s, created = asyncio.create_task(cancel()), loop.time(), storage.creates
        # As many as are in the file already, and some more.
        served = await within(q.dequeue("mail", batch_size=50))
        is_answered = True
        await cancelling
        assert cancelled
        assert loop.time() - asked_s < 3
        assert storage.creates - created <= 4
        served += await drain(q, "mail", batch_size=50)
    left = [job for job in jobs if job.id not in cancelled]
    assert [job.id for job in served] == [job.id for job in sorted(left, key=lambda job: job.priority)]


@pytest.mark.parametrize("delay", [0, 200])
@virtual_time
async def test_jobs_of_limit_keys_without_room_stay_in_segments_and_one_with_room_is_found_behind_them(delay):
    keys, jobs_total = 60, 600
    storage = FaultyStorage()
    async with opened(BrokerQueue, storage) as q:
        await q.limit(limit_key="k*", max_running=1)
        held = [await q.enqueue("mail", limit_key=f"k{number}", priority=-1) for number in range(keys)]
        held = await within(q.dequeue("mail", batch_size=keys))
        at_first = len(storage.versions[-1])
        fields = {"delay": delay} if delay else {}
        jobs = [
            q._new_job("mail", "x" * 100, number % 3, {"limit_key": f"k{number % keys}", **fields})
            for number in range(jobs_total)
        ]
        free = q._new_job("mail", "x", 3, {"limit_key": "free", **fields})
        for start in range(0, jobs_total, 20):
            await q._submit(Enqueue(tuple(jobs[start : start + 20])))
            await asyncio.sleep(0.1)
        await q._submit(Enqueue((free,)))
        await asyncio.sleep(delay + 10)
        await q.heartbeat_many(held)
        del storage.versions[:]
        [found] = await within(q.dequeue("mail", batch_size=3))
        assert found.id == free.id
        # Due jobs are sorted once, into segments.
        assert len(storage.versions) < jobs_total // 4
        assert largest(storage) < at_first + 2 * SMALL["hot_bytes_max"]
        await asyncio.sleep(10)
        writes, reads, created = storage.writes, storage.object_reads, storage.creates
        for _ in range(10):
            assert await within(q.dequeue("mail", batch_size=3)) == []
        assert (storage.writes, storage.object_reads, storage.creates) == (writes, reads, created)
        # Of each key one job may begin, in their order.
        assert await q.ack_many(held) == []
        served = []
        while claimed := await within(q.dequeue("mail", batch_size=keys)):
            assert len({job.limit_key for job in claimed}) == len(claimed)
            served += claimed
            assert await q.ack_many(claimed) == []
    for key in {job.limit_key for job in jobs}:
        of_key = [job for job in jobs if job.limit_key == key]
        in_order = [job.id for job in sorted(of_key, key=lambda job: job.priority)]
        assert [job.id for job in served if job.limit_key == key] == in_order
    assert len(served) == jobs_total
    assert largest(storage) < at_first + 2 * SMALL["hot_bytes_max"]


@virtual_time
async def test_jobs_that_come_due_one_by_one_are_not_sorted_again_and_again_while_others_wait_for_room():
    storage = FaultyStorage()
    async with opened(BrokerQueue, storage, segment_jobs_max=1000, segment_cache_bytes=10**6) as q:
        await q.limit(limit_key="k*", max_running=1)
        gpu = [q._new_job("gpu", "x" * 100, 0, {"limit_key": f"k{number % 20}"}) for number in range(180)]
        for start in range(0, 180, 20):
            await q._submit(Enqueue(tuple(gpu[start : start + 20])))
            await within(q.dequeue("gpu", batch_size=50))
            await asyncio.sleep(0.3)
        later = [q._new_job("mail", "x" * 100, number % 3, {"delay": 200 + number}) for number in range(300)]
        await q._submit(Enqueue(tuple(later)))
        await asyncio.sleep(200)
        created, served = storage.creates, 0
        for _ in range(60):
            await asyncio.sleep(1)
            jobs = await within(q.dequeue("mail", batch_size=5))
            served += len(jobs)
            await q.ack_many(jobs)
        assert served >= 58
        assert storage.creates - created <= 2


@virtual_time
async def test_jobs_that_wait_for_room_in_segments_leave_no_more_room_for_due_ones_in_the_file():
    storage = FaultyStorage()
    async with opened(
        BrokerQueue, storage, hot_bytes_max=400_000, segment_jobs_max=1000, segment_cache_bytes=10**6
    ) as q:
        await q.limit(limit_key="k*", max_running=1)
        gpu = [q._new_job("gpu", "x" * 100, 0, {"limit_key": f"k{number % 20}"}) for number in range(180)]
        await q._submit(Enqueue(tuple(gpu)))
        await within(q.dequeue("gpu", batch_size=50))
        later = [
            q._new_job("mail", "x" * 100, number % 3, {"delay": 200 + number % 7}) for number in range(300)
        ]
        await q._submit(Enqueue(tuple(later)))
        await asyncio.sleep(250)
        del storage.versions[:]
        await within(q.dequeue("mail"))
        hot = [len(json.loads(version)["jobs"]) for version in storage.versions]
        assert max(hot) <= 20 + SMALL["hot_jobs_max"] * 5 // 4


@virtual_time
async def test_tenants_take_turns_among_jobs_that_come_due_together():
    async with opened(BrokerQueue, FaultyStorage()) as q:
        for number in range(150):
            await q.enqueue("mail", number, tenant="flood", delay=10)
        for number in range(3):
            await q.enqueue("mail", number, tenant="small", delay=10)
        await q.enqueue("mail", "urgent", tenant="flood", priority=-1, delay=11)
        await asyncio.sleep(20)
        served = [(job.tenant, job.json()) for job in await drain(q, "mail", batch_size=1)]
    assert served[0] == ("flood", "urgent")
    assert {one for one in served[1:30] if one[0] == "small"} == {
        ("small", 0),
        ("small", 1),
        ("small", 2),
    }
    assert [number for tenant, number in served[1:] if tenant == "flood"] == list(range(150))


@virtual_time
async def test_due_jobs_of_a_tenant_get_turns_behind_those_that_it_has_in_line():
    async with opened(BrokerQueue, FaultyStorage()) as q:
        for number in range(100):
            # Their order by time is not that of the queue, so they have to be sorted.
            await q.enqueue("mail", 60 + number, tenant="flood", delay=10 + (100 - number) * 0.01)
        for number in range(60):
            await q.enqueue("mail", number, tenant="flood")
        for number in range(3):
            await q.enqueue("mail", number, tenant="small")
        await asyncio.sleep(20)
        served = [(job.tenant, job.json()) for job in await drain(q, "mail", batch_size=1)]
    assert sum(tenant == "small" for tenant, _ in served[:6]) == 3
    assert [number for tenant, number in served if tenant == "flood"][:60] == list(range(60))


@both_kinds
@virtual_time
async def test_a_job_waits_for_parents_all_over_the_backlog(kind):
    storage = FaultyStorage()
    async with opened(kind, storage) as q:
        ids = [*await q.enqueue_many("parent", ["x" * 100] * 400)]
        reads = storage.object_reads
        child = await within(q.enqueue("child", after=ids[::20]))
        assert len(child.after) == 20
        assert storage.object_reads - reads <= 25, "each segment is read once"
        await drain(q, "parent")
        assert [job.id for job in await drain(q, "child")] == [child.id]


@virtual_time
async def test_a_segment_is_searched_once_for_all_parents_of_a_job(monkeypatch):
    searches = []
    search = SegmentLines.search
    monkeypatch.setattr(
        SegmentLines, "search", lambda self, questions: searches.append(1) or search(self, questions)
    )
    async with opened(BrokerQueue, FaultyStorage(), segment_cache_bytes=10**6) as q:
        ids = [*await q.enqueue_many("parent", ["x" * 100] * 400)]
        for start in range(3):
            del searches[:]
            await q.enqueue("child", after=ids[start::4])
            assert len(searches) <= 22, "20 segments, all of which are in memory the second time"


@virtual_time
async def test_a_client_batch_finds_jobs_all_over_the_backlog():
    storage = FaultyStorage()
    async with opened(BrokerQueue, storage) as q:
        ids = [*await q.enqueue_many("mail", ["x" * 100] * 400)]
        keyed = [await q.enqueue("keyed", "x" * 100, key=f"key-{number}") for number in range(200)]
        doubles = tuple(Enqueue((q._new_job("keyed", b"", 0, {"key": job.key}),)) for job in keyed[::10])
        lookups = tuple(map(LookUp, ids[::20]))
        batch = Batch("client", 1, 0, (*lookups, *doubles), q._clock.now())
        reads = storage.object_reads
        answers = (await within(q._submit(batch))).answers
        assert [job.id for job in answers[: len(lookups)]] == ids[::20]
        returned = chain.from_iterable(answers[len(lookups) :])
        assert [job.id for job in returned] == [job.id for job in keyed[::10]]
        assert storage.object_reads - reads <= 80


@virtual_time
async def test_many_callers_who_need_different_segments_take_turns():
    storage = FaultyStorage()
    storage.object_latency_s = 0.05
    async with opened(BrokerQueue, storage) as q:
        for number in range(30):
            await q.enqueue_many(f"e{number}", ["x" * 100] * 40)
        claimed = await asyncio.gather(
            *(within(q.dequeue(f"e{number}", batch_size=5)) for number in range(30))
        )
        assert all(claimed)
        cache = q._group._committer.shelf
        assert cache._size <= 2 * SMALL["segment_cache_bytes"]
        assert cache._pinned == {}


@virtual_time
async def test_no_more_is_read_ahead_at_once_than_fits_into_the_cache():
    storage = FaultyStorage()
    async with opened(BrokerQueue, storage) as q:
        for number in range(40):
            await q.enqueue_many(f"e{number}", ["x" * 100] * 60)
            await q.dequeue(f"e{number}", at_hand=True)
        await asyncio.sleep(5)
        q._group._committer.shelf.keep_only([], [])
        storage.object_latency_s, reads, most, under_way = 0.5, storage.objects.read, 0, 0

        async def read(name):
            nonlocal most, under_way
            content = await reads(name)
            under_way += len(content)
            most = max(most, under_way)
            await asyncio.sleep(0.1)
            under_way -= len(content)
            return content

        storage.objects.read = read
        await q.enqueue("other")
        await asyncio.sleep(3)
        assert 0 < most <= SMALL["segment_cache_bytes"]


@virtual_time
async def test_a_commit_that_ends_with_its_event_loop_leaves_no_segment_pinned():
    storage = FaultyStorage()
    q = opened(DirectQueue, storage)
    await q.enqueue_many("mail", ["x" * 100] * 60)
    storage.latency_s = 1
    call = asyncio.create_task(q.dequeue("mail", batch_size=60))
    shelf = q._writer().committer.shelf
    async with asyncio.timeout(ANSWERED_WITHIN_S):
        while not shelf._pinned or not q._writer().committer.is_busy:
            await asyncio.sleep(0.1)
    # As asyncio.run does at its end. The next loop of the thread goes on with the same cache.
    commits = [task for task in asyncio.all_tasks() if task.get_name() == "bucketq commit"]
    for task in (call, *commits):
        task.cancel()
    await asyncio.wait([call, *commits])
    assert shelf._pinned == {}


@virtual_time
async def test_a_segment_that_many_jobs_have_left_is_written_again_and_does_not_come_into_the_file():
    storage = FaultyStorage()
    async with opened(BrokerQueue, storage, segment_jobs_max=1000, segment_cache_bytes=10**6) as q:
        ids = [*await q.enqueue_many("mail", ["x" * 100] * 1000)]
        for job_id in ids[100:900:2]:
            await q.cancel(job_id)
        await asyncio.sleep(60)
        await q.enqueue("other")
        await asyncio.sleep(60)
        segments = json.loads(storage.versions[-1])["segments"]
        assert all(len(segment.get("holes", [])) <= 250 for segment in segments)
        assert largest(storage) < 2 * SMALL["hot_bytes_max"]
        left = [*ids[:100], *ids[101:900:2], *ids[900:]]
        assert [job.id for job in await drain(q, "mail")] == left
