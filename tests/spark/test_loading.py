"""Rows that become jobs, without Spark: in order, to the byte, all or none, and none twice."""

import asyncio
import json
from datetime import UTC, datetime, timedelta

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketq import (
    BrokerQueue,
    ClaimLostError,
    ConfigurationError,
    DirectQueue,
    InMemoryStorage,
    Settings,
    StorageError,
)
from bucketq.job import Claim
from bucketq.jobline import decode_job, encode_job, is_json_line
from bucketq.loads import LOADS_MAX, LoadMark, Loads
from bucketq.operation import Ack, Enqueue, Load, Transact
from bucketq.segment import is_plain
from bucketq.segment_claim import given_back
from bucketq.spark import loading
from bucketq.spark.loading import Defaults, TaskLoad, discard, land
from bucketq.spark.pile import payload_fields
from bucketq.verify import verify

MAIL = Defaults("mail", 0, 3)


def rows(payloads, **columns):
    return pa.RecordBatch.from_pydict({"payload": payloads, **columns})


async def loaded(storage, *batches, defaults=MAIL, version=0):
    task = TaskLoad(storage, version, defaults)
    for batch in batches:
        await task.add(batch)
    return await task.finish()


async def drained(storage):
    jobs = []
    async with BrokerQueue(storage) as q:
        while claimed := await q.dequeue(batch_size=500):
            jobs += claimed
            assert await q.ack_many(claimed) == []
    return jobs


async def segments_of(storage):
    return [info.name async for info in storage.objects.list("backlog/")]


async def test_a_few_rows_become_jobs_without_any_object():
    storage = InMemoryStorage()
    task = await loaded(storage, rows(['{"n":1}', '{"n":2}', "text", None]))
    assert await land(storage, [task])
    assert await segments_of(storage) == []
    jobs = await drained(storage)
    assert [job.payload for job in jobs] == [b'{"n":1}', b'{"n":2}', b"text", b""]
    assert {(job.entrypoint, job.priority, job.max_attempts) for job in jobs} == {("mail", 0, 3)}


async def test_the_tasks_rows_come_one_after_the_other_by_priority():
    storage = InMemoryStorage()
    await DirectQueue(storage).enqueue("mail", "before")
    tasks = [
        await loaded(
            storage,
            *(
                rows(
                    [f'"{task}-{number}"' for number in range(start, start + 5000)],
                    priority=[number % 2 for number in range(5000)],
                    max_attempts=[1 + number % 3 for number in range(5000)],
                )
                for start in range(0, 30_000, 5000)
            ),
        )
        for task in range(3)
    ]
    assert await land(storage, tasks)
    assert all(len(task.segments) > 2 for task in tasks)
    assert (await verify(storage)).problems == []
    jobs = await drained(storage)
    assert [job.json() for job in jobs] == [
        "before",
        *(
            f"{task}-{number}"
            for parity in (0, 1)
            for task in range(3)
            for number in range(parity, 30_000, 2)
        ),
    ]
    assert [job.max_attempts for job in jobs[1:4]] == [1, 3, 2]
    assert len({job.id for job in jobs}) == 90_001


async def test_segments_of_rows_can_be_claimed_as_a_whole_unless_there_is_more_to_them():
    storage = InMemoryStorage()
    later = datetime.now(UTC) + timedelta(days=1)
    plain = await loaded(storage, rows([f'{{"n":{number}}}' for number in range(15_000)]))
    large = await loaded(storage, rows(["x" * 70_000, *["1"] * 15_000]), defaults=Defaults("large", 0, 3))
    for_later = await loaded(storage, rows(["1"] * 15_000, run_at=[later] * 15_000))
    once = await loaded(storage, rows(["1"] * 15_000), defaults=Defaults("once", 0, 1))
    assert await land(storage, [plain, large, for_later, once])
    q = DirectQueue(storage)
    claim = await q.dequeue_segment("mail")
    jobs = claim.jobs(await storage.objects.read(claim.segment.name))
    assert [job.json()["n"] for job in jobs] == list(range(10_000))
    assert all(map(is_plain, given_back(jobs)))
    assert await q.dequeue_segment("large") is None
    assert await q.dequeue_segment("once") is None, "such jobs must not share the fate of others"
    assert [segment.plain for segment in for_later.segments] == [False] * len(for_later.segments)


async def test_order_holds_across_entrypoints_whether_they_are_few_or_many():
    storage = InMemoryStorage()
    entrypoints = ["many" if number % 100 else f"few-{number % 700}" for number in range(40_000)]
    tasks = [
        await loaded(
            storage,
            rows([f"{number}" for number in part], entrypoint=[entrypoints[number] for number in part]),
        )
        for part in (range(15_000), range(15_000, 40_000))
    ]
    assert await land(storage, tasks)
    assert (await verify(storage)).problems == []
    assert [job.json() for job in await drained(storage)] == list(range(40_000))


@given(
    st.lists(
        st.binary(max_size=40)
        | st.sampled_from(
            [b"1", b"[1", b"2]", b"3,4", b" 5", b'"', b",", b"{}", b"\n1", b"[" * 65 + b"]" * 65]
        ),
        min_size=1,
    )
)
async def test_any_payload_comes_back_to_the_byte(payloads):
    storage = InMemoryStorage()
    await land(storage, [await loaded(storage, rows(pa.array(payloads, pa.binary())))])
    assert [job.payload for job in await drained(storage)] == payloads
    fields = payload_fields(pa.array(payloads, pa.binary())).to_pylist()
    assert [field.startswith(b',"json":') for field in fields] == [
        is_json_line(payload) for payload in payloads
    ]


async def test_a_line_is_what_the_queue_itself_would_write():
    task = await loaded(
        InMemoryStorage(), rows(['{"a":"%d%s"}', "b"], entrypoint=['m"ail,"seq":1', "100%"], priority=[5, -1])
    )
    for line in task.lines:
        assert json.loads(encode_job(decode_job(line, "a line"))) == json.loads(line)
    assert [decode_job(line, "").entrypoint for line in sorted(task.lines, key=len)] == [
        "100%",
        'm"ail,"seq":1',
    ]


async def test_large_payloads_and_large_rows_go_to_objects_of_bounded_size():
    storage = InMemoryStorage()
    payloads = [
        bytes([65 + number % 26]) * size
        for number, size in enumerate([100_000, 10, 200_000] + [60_000] * 300)
    ]
    task = await loaded(storage, rows(pa.array(payloads, pa.binary())))
    assert max(segment.size for segment in task.segments) < 10 * 2**20
    assert await land(storage, [task])
    verdict = await verify(storage)
    assert (verdict.problems, verdict.payloads) == ([], 2)
    assert [job.payload for job in await drained(storage)] == payloads


async def test_a_load_with_a_name_lands_once():
    storage = InMemoryStorage()
    q = DirectQueue(storage)
    many = rows([f"{number}" for number in range(20_000)])
    one = rows(["1"])
    assert await land(storage, [await loaded(storage, many)], "orders", LoadMark(0, "q"))
    assert not await land(storage, [await loaded(storage, many)], "orders", LoadMark(0, "q"))
    assert await land(storage, [await loaded(storage, one)], "orders", LoadMark(1, "q"))
    assert not await land(storage, [await loaded(storage, one)], "orders", LoadMark(1, "q"))
    for unknown in (LoadMark(0, "q"), LoadMark(1, "another"), LoadMark(0)):
        with pytest.raises(ConfigurationError, match="Which of its rows were enqueued cannot be told"):
            await land(storage, [await loaded(storage, one)], "orders", unknown)
    assert await land(storage, [await loaded(storage, one)], "others")
    assert (await q.stats()).queued == 20_002


async def test_a_load_that_is_undone_leaves_no_mark():
    storage = InMemoryStorage()
    q = DirectQueue(storage)
    job = (await q.enqueue("mail", 1)).id
    load = Load("orders", LoadMark(0), Enqueue((msgspec.structs.replace((await q.find(job)), id="new"),)))
    with pytest.raises(ClaimLostError):
        await q.apply(Transact((load, Ack(Claim(job), datetime.now(UTC)))))
    assert await q.apply(load)
    assert not await q.apply(load)


async def test_what_the_driver_writes_is_fenced_by_what_the_tasks_wrote():
    storage = InMemoryStorage()
    q = DirectQueue(storage, Settings(collect_after_s=0.001))
    await q.enqueue("mail")
    version = (await q.read_state()).version
    # Too little for a segment of its own, but a payload is in an object.
    tasks = [await loaded(storage, rows(["x" * 100_000, *map(str, range(100))]), version=version)]
    tasks += [await loaded(storage, rows(list(map(str, range(100)))), version=version) for _ in range(11)]
    assert not any(task.segments for task in tasks)
    await asyncio.sleep(0.01)
    assert len(await q.collect_garbage()) == 1
    with pytest.raises(StorageError, match="collected as garbage"):
        await land(storage, tasks)
    assert (await q.stats()).queued == 1


async def test_what_did_not_land_is_removed_or_collected():
    storage = InMemoryStorage()
    many = rows([f"{number}" for number in range(20_000)])
    q = DirectQueue(storage, Settings(collect_after_s=0.001))
    await q.enqueue("mail")
    version = (await q.read_state()).version
    task = await loaded(storage, many, version=version)
    await discard(storage, [task])
    assert await segments_of(storage) == []
    task = await loaded(storage, many, version=version)
    await asyncio.sleep(0.01)
    assert len(await q.collect_garbage()) == len(task.segments) == 2
    with pytest.raises(StorageError, match="collected as garbage"):
        await land(storage, [task])
    assert (await q.stats()).queued == 1


async def test_rows_that_cannot_be_jobs_are_refused():
    with pytest.raises(ConfigurationError, match="a row has no entrypoint"):
        await loaded(
            InMemoryStorage(), rows(["1", "2"], entrypoint=["a", None]), defaults=Defaults(None, 0, 3)
        )
    with pytest.raises(ConfigurationError, match="max_attempts is a whole number from 1"):
        await loaded(InMemoryStorage(), rows(["1"], max_attempts=[0]))


async def test_too_many_segments_are_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr(loading, "_SEGMENTS_MAX", 10)
    storage = InMemoryStorage()
    task = await loaded(storage, rows([f"{n}" for n in range(120_000)]))
    with pytest.raises(ConfigurationError, match="repartition"):
        await land(storage, [task])
    assert (await DirectQueue(storage).stats()).queued == 0


def test_the_loads_that_were_silent_longest_are_forgotten():
    loads = Loads()
    for number in range(LOADS_MAX):
        loads = loads.remembered(f"load-{number}", LoadMark(0))
    loads = loads.remembered("load-0", LoadMark(1)).remembered("one more", LoadMark(0))
    assert loads.has("load-0", LoadMark(1))
    assert not loads.has("load-1", LoadMark(0))
    assert len(loads.marks) == LOADS_MAX


async def test_rows_for_later_wait_for_their_time(monkeypatch):
    monkeypatch.setattr(loading, "_LEFT_OVER_BYTES_MAX", 0)
    storage, now = InMemoryStorage(), datetime.now(UTC)
    times = [now + timedelta(hours=number % 7) - timedelta(hours=1) for number in range(40)]
    columns = {"run_at": pa.array([*times, None], pa.timestamp("us", "UTC"))}
    columns["priority"] = [number % 2 for number in range(41)]
    task = await loaded(storage, rows([f'{{"n":{number}}}' for number in range(41)], **columns))
    lines = {(segment.status, segment.count) for segment in task.segments}
    assert lines == {("queued", 13), ("scheduled", 28)}
    await land(storage, [task])
    state = await DirectQueue(storage).read_state()
    later = {job.json()["n"]: job.run_at for job in state.jobs if job.status == "scheduled"}
    assert later == {number: at for number, at in enumerate(times) if at > now}
    assert state.next_due() == min(later.values())
    in_line = [job.json()["n"] for job in await drained(storage)]
    due = [number for number in range(41) if number not in later]
    assert in_line == sorted(due, key=lambda number: (number % 2, number))
    assert (await verify(storage)).problems == []
