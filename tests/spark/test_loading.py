"""Rows that become jobs, without Spark: in order, to the byte, all or none, and none twice."""

import asyncio
import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bucketq import BrokerQueue, ConfigurationError, DirectQueue, InMemoryStorage, Settings
from bucketq.jobline import decode_job, encode_job, is_json_line
from bucketq.loads import LOADS_MAX, Loads
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


async def drained(storage, entrypoint=None):
    jobs = []
    async with BrokerQueue(storage) as q:
        while claimed := await q.dequeue(entrypoint, batch_size=500):
            jobs += claimed
            assert await q.ack_many(claimed) == []
    return jobs


async def segments_of(storage):
    return [info.name async for info in storage.objects.list("backlog/")]


async def test_a_few_rows_become_jobs_without_any_object():
    storage = InMemoryStorage()
    task = await loaded(storage, rows(['{"n":1}', '{"n":2}', "text", None]))
    assert await land(storage, [task], None)
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
    assert await land(storage, tasks, None)
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
    assert await land(storage, tasks, None)
    assert (await verify(storage)).problems == []
    assert [job.json() for job in await drained(storage)] == list(range(40_000))


@settings(deadline=None)
@given(
    st.lists(
        st.binary(max_size=40)
        | st.sampled_from(
            [b"1", b"[1", b"2]", b"3,4", b" 5", b'"', b",", b"{}", b"\n1", b"[" * 65 + b"]" * 65]
        ),
        min_size=1,
    )
)
def test_any_payload_comes_back_to_the_byte(payloads):
    async def main():
        storage = InMemoryStorage()
        await land(storage, [await loaded(storage, rows(pa.array(payloads, pa.binary())))], None)
        assert [job.payload for job in await drained(storage)] == payloads

    asyncio.run(main())
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
    assert await land(storage, [task], None)
    verdict = await verify(storage)
    assert (verdict.problems, verdict.payloads) == ([], 2)
    assert [job.payload for job in await drained(storage)] == payloads


async def test_a_load_with_a_name_lands_once():
    storage = InMemoryStorage()
    q = DirectQueue(storage)
    many = rows([f"{number}" for number in range(20_000)])
    assert await land(storage, [await loaded(storage, many)], ("orders", 0))
    assert not await land(storage, [await loaded(storage, many)], ("orders", 0))
    assert await land(storage, [await loaded(storage, rows(["1"]))], ("orders", 1))
    assert not await land(storage, [await loaded(storage, rows(["1"]))], ("orders", 1))
    assert not await land(storage, [await loaded(storage, many)], ("orders", 0)), "an older one, come late"
    assert await land(storage, [await loaded(storage, rows(["1"]))], ("others", 0))
    assert (await q.stats()).queued == 20_002


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
    with pytest.raises(Exception, match="collected as garbage"):
        await land(storage, [task], None)
    assert (await q.stats()).queued == 1


async def test_rows_that_cannot_be_jobs_are_refused():
    with pytest.raises(ConfigurationError, match="entrypoint is a non-empty string, not None"):
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
        await land(storage, [task], None)
    assert (await DirectQueue(storage).stats()).queued == 0


def test_the_loads_that_were_silent_longest_are_forgotten():
    loads = Loads()
    for number in range(LOADS_MAX):
        loads.remember(f"load-{number}", 0)
    loads.remember("load-0", 1)
    loads.remember("one more", 0)
    assert loads.has("load-0", 1)
    assert not loads.has("load-1", 0)
    assert len(loads.marks) == LOADS_MAX
