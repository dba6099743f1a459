"""What metrics tell of the jobs: by entrypoint, in segments, not archived yet; and of the commits."""

import asyncio

import pytest

from bucketq import JobStatus, OutcomeUnknownError
from bucketq.broker.metrics import Metrics
from bucketq.figures import Figures
from bucketq.glance import ENTRYPOINTS_MAX, OTHERS
from bucketq.testing.virtual_time import virtual_time
from tests.faults.faulty import FaultyStorage
from tests.faults.test_metrics import brokering, samples, served


def told_of(told, name):
    return {
        labels: value
        for (metric, *labels), value in told.items()
        if metric == name
        for labels in [tuple(labels)]
    }


@virtual_time
async def test_jobs_and_waits_are_told_by_entrypoint():
    async with brokering(FaultyStorage()) as broker:
        await broker.lead(lambda q: q.enqueue("mail"))
        await asyncio.sleep(30)
        await broker.lead(lambda q: q.enqueue("mail"))
        await broker.lead(lambda q: q.enqueue("fax"))
        await broker.lead(lambda q: q.enqueue("fax", delay=3600))
        await asyncio.sleep(10)
        told = samples(Metrics(broker))
        jobs = told_of(told, "bucketq_entrypoint_jobs")
        assert {key: count for key, count in jobs.items() if count} == {
            ("mail", "queued"): 2,
            ("fax", "queued"): 1,
            ("fax", "scheduled"): 1,
        }
        assert sum(jobs.values()) == sum(told_of(told, "bucketq_jobs").values())
        waits = told_of(told, "bucketq_entrypoint_longest_wait_seconds")
        assert waits == {("mail",): pytest.approx(40, abs=1), ("fax",): pytest.approx(10, abs=1)}


@virtual_time
async def test_of_very_many_entrypoints_the_largest_are_told_and_none_is_lost():
    async with brokering(FaultyStorage()) as broker:
        names = [f"made-up-{number}" for number in range(200)] + [OTHERS]
        await asyncio.gather(*(broker.lead(lambda q, name=name: q.enqueue(name)) for name in names))
        for _ in range(3):
            await broker.lead(lambda q: q.enqueue("zebra"))
            await broker.lead(lambda q: q.enqueue(OTHERS))
        told = samples(Metrics(broker))
        jobs = told_of(told, "bucketq_entrypoint_jobs")
        names = {label for labels in jobs for label in labels} - set(JobStatus)
        assert len(names) <= ENTRYPOINTS_MAX + 1
        assert jobs["queued", "zebra"] == 3
        assert sum(jobs.values()) == 207
        assert told["bucketq_entrypoints",] == 202


@virtual_time
async def test_a_deep_backlog_is_told_without_a_request():
    storage = FaultyStorage()
    async with brokering(storage, hot_jobs_max=100, segment_jobs_max=200) as broker:
        await broker.lead(lambda q: q.enqueue_many("mail", range(5000)))
        await asyncio.sleep(600)
        made = broker.spending.requests
        told = samples(Metrics(broker))
        assert broker.spending.requests == made
        assert told["bucketq_entrypoint_jobs", "mail", "queued"] == told["bucketq_jobs", "queued"] == 5000
        assert told["bucketq_backlog_jobs",] > 4000
        assert told["bucketq_backlog_segments",] >= told["bucketq_backlog_jobs",] / 200
        sizes = [len(content) for name, (content, _) in storage.beside.items() if name.startswith("backlog/")]
        assert told["bucketq_backlog_bytes",] == sum(sizes)
        assert told["bucketq_longest_wait_seconds",] == pytest.approx(600, abs=10), "in segments too"


@virtual_time
async def test_what_waits_for_the_archive_is_told():
    storage = FaultyStorage()
    async with brokering(storage, archive_after_s=60) as broker:

        async def do_one():
            job = await broker.lead(lambda q: q.enqueue("mail"))
            await broker.lead(lambda q: q.dequeue("mail"))
            await broker.lead(lambda q: q.ack(job))

        metrics = Metrics(broker)
        assert samples(metrics)["bucketq_archive_lag_seconds",] == 0
        await do_one()
        await asyncio.sleep(30)
        told = samples(metrics)
        assert told["bucketq_unarchived_jobs",] == 1
        assert told["bucketq_archive_lag_seconds",] == pytest.approx(30, abs=1)
        storage.object_faults.extend(["lost request"] * 1000)
        await asyncio.sleep(170)
        assert samples(metrics)["bucketq_archive_lag_seconds",] == pytest.approx(200, abs=1), "sealed too"
        storage.object_faults.clear()
        await asyncio.sleep(120)
        assert samples(metrics)["bucketq_unarchived_jobs",] == 0


@virtual_time
async def test_claims_and_retries_are_counted_once_they_have_landed():
    figures, storage = Figures(), FaultyStorage()
    async with served(storage, figures, stale_after_s=60) as q:
        for _ in range(3):
            await q.enqueue("mail")
        storage.faults.extend(["conflict", "lost answer"])
        first, second = await q.dequeue("mail", batch_size=2)
        assert (figures.claims, figures.retries) == (2, 0)
        await q.nack(first)
        await q.ack(second)
        assert (figures.claims, figures.retries) == (2, 1)
        await q.dequeue("mail")
        await asyncio.sleep(200)
        await q.enqueue("mail")
        assert figures.retries == 2, "one that fell silent is tried again too"


@virtual_time
async def test_lost_answers_are_settled_and_counted():
    figures, storage = Figures(), FaultyStorage()
    async with served(storage, figures, retry_for_s=5) as q:
        await q.enqueue("mail")
        storage.faults.append("lost answer")
        await q.enqueue("mail")
        assert (figures.unknown_landed, figures.unknown_lost, figures.unknown_unsettled) == (1, 0, 0)
        storage.faults.append("conflict")
        await q.enqueue("mail")
        assert (figures.unknown_landed, figures.unknown_lost) == (1, 0), "a conflict is an answer"
        storage.is_down = True
        with pytest.raises(OutcomeUnknownError):
            await q.enqueue("mail")
        assert figures.unknown_unsettled == 1
        storage.is_down = False


@virtual_time
async def test_a_write_that_others_were_faster_than_is_found_to_be_lost():
    figures, storage = Figures(), FaultyStorage()
    async with served(storage, figures) as q, served(FaultyStorage(storage.inner), None) as other:
        await q.enqueue("mail")
        storage.faults.append("lost request")
        storage.latency_s = 0.01
        ours = asyncio.create_task(q.enqueue("mail"))
        await asyncio.sleep(0.005)
        await asyncio.gather(ours, other.enqueue("mail"))
        assert figures.unknown_lost == 1


@virtual_time
async def test_a_commit_is_as_long_as_all_that_was_tried():
    figures, storage = Figures(), FaultyStorage()
    storage.latency_s = 0.1
    async with served(storage, figures) as q:
        await q.enqueue("mail")
        write_s, commit_s = figures.write_s.sum, figures.commit_s.sum
        storage.faults.append("conflict")
        await asyncio.gather(*(q.enqueue("mail") for _ in range(7)))
        assert figures.write_s.sum - write_s == pytest.approx(0.2)
        assert figures.commit_s.sum - commit_s > 0.3, "a look, a pause and the second try"
        assert sum(figures.commit_s.by_bound) == sum(figures.batches.by_bound) == figures.commits == 2
        assert figures.batches.sum == 8
        assert figures.batches.by_bound[3] == 1, "seven are up to ten"


@virtual_time
async def test_a_new_term_is_seen_by_all():
    storage = FaultyStorage()
    async with brokering(storage) as other:
        async with brokering(storage):
            pass
        assert samples(Metrics(other))["bucketq_leader_changes_total",] == 0
    async with brokering(storage) as waiting:
        assert waiting.leader_changes == 0
        async with brokering(storage) as third:
            waiting.stop()
            await asyncio.sleep(5)
            assert third.is_leading
            assert third.leader_changes == 1
