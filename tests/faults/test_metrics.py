"""What the commit engine counts, and what a broker tells Prometheus of it."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bucketq import AccessDeniedError, ConfigurationError, Settings, ThrottledStorage
from bucketq.broker.broker import Beats, Broker
from bucketq.broker.metrics import CONTENT_TYPE, Metrics
from bucketq.broker.served import ServedQueue
from bucketq.figures import Figures
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage

LISTED = Path(__file__).parents[2] / "docs" / "metrics.md"


@asynccontextmanager
async def brokering(storage, beats=None, **settings):
    """A broker that has begun to lead, or to wait."""
    broker = Broker(storage, Settings(**settings), beats, VirtualClock())
    broker.address = "here:1"
    running = asyncio.create_task(broker.run())
    # Longer than an election takes.
    await asyncio.sleep(0.5)
    try:
        yield broker
    finally:
        broker.stop()
        await running


def served(storage, figures, **settings):
    return ServedQueue(storage, Settings(**settings), VirtualClock(), figures=figures)


def samples(metrics):
    families = text_string_to_metric_families(metrics.text().decode())
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


@virtual_time
async def test_commits_and_the_operations_in_them_are_counted():
    figures, storage = Figures(), FaultyStorage()
    storage.latency_s = 0.02
    async with served(storage, figures) as q:
        await q.enqueue("mail")
        await asyncio.gather(*(q.enqueue("mail", number) for number in range(10)))
        assert (figures.commits, figures.operations) == (2, 11)
        assert figures.queue_bytes == len(storage.versions[-1])
        assert figures.write_s.sum == pytest.approx(0.04)
        assert figures.write_s.by_bound[4] == 2, "within 25 ms"
        assert await q.dequeue("other") == []
        assert figures.commits == 2, "what changes nothing is no commit"
    async with served(storage, figures) as q:
        await q.enqueue("mail")
    assert figures.commits == 3, "a later term counts on"


@virtual_time
async def test_each_kind_of_trouble_has_its_count():
    figures, storage = Figures(), FaultyStorage()
    async with served(storage, figures) as q:
        storage.faults.extend(["conflict", "slow down", "slow down", "lost request", "lost answer"])
        await q.enqueue("mail")
        assert (figures.conflicts, figures.slow_downs, figures.failures) == (1, 2, 2)
        assert (figures.commits, figures.operations) == (1, 1)
        assert sum(figures.write_s.by_bound) == 5
        storage.is_down = True
        asyncio.get_running_loop().call_later(1, setattr, storage, "is_down", False)
        failures = figures.failures
        assert await q.dequeue("other") == []
        assert figures.failures > failures, "reads fail too"


@virtual_time
async def test_a_storage_that_cannot_be_used_is_counted():
    class Denied(FaultyStorage):
        async def write(self, content, if_match=None):
            raise AccessDeniedError("injected: 403")

    figures = Figures()
    async with served(Denied(), figures) as q:
        with pytest.raises(AccessDeniedError):
            await q.enqueue("mail")
    assert figures.failures == 1


@virtual_time
async def test_a_leader_tells_how_the_queue_stands_without_asking_the_storage():
    storage = FaultyStorage()
    async with brokering(storage) as broker:
        metrics = Metrics(broker)
        await broker.lead(lambda q: q.enqueue("mail"))
        await broker.lead(lambda q: q.enqueue("mail"))
        await broker.lead(lambda q: q.enqueue("later", delay=3600))
        [job] = await broker.lead(lambda q: q.dequeue("mail"))
        await asyncio.sleep(30)
        requests = storage.reads, storage.writes
        told = samples(metrics)
        assert (storage.reads, storage.writes) == requests
        assert told["bucketq_leading",] == told["bucketq_terms_total",] == told["bucketq_epoch",] == 1
        jobs = {key[1]: value for key, value in told.items() if key[0] == "bucketq_jobs"}
        assert jobs == {"queued": 1, "in_progress": 1, "scheduled": 1, "blocked": 0, "dead": 0}
        assert told["bucketq_jobs_enqueued_total",] == 3
        assert told["bucketq_longest_wait_seconds",] == pytest.approx(30, abs=1)
        assert told["bucketq_commits_total",] == broker.figures.commits > 4
        assert told["bucketq_write_seconds_count",] == storage.writes
        await broker.lead(lambda q: q.ack(job))
        assert samples(metrics)["bucketq_jobs_completed_total",] == 1


@virtual_time
async def test_totals_never_go_back():
    storage = FaultyStorage()
    storage.latency_s = 0.1
    async with brokering(storage) as broker:
        metrics = Metrics(broker)
        await broker.lead(lambda q: q.enqueue("mail"))
        storage.faults.extend(["lost request"] * 3)
        enqueueing = asyncio.create_task(broker.lead(lambda q: q.enqueue("mail")))
        while storage.faults:
            assert samples(metrics)["bucketq_jobs_enqueued_total",] == 1, "not before it has landed"
            await asyncio.sleep(0.01)
        await enqueueing
        assert samples(metrics)["bucketq_jobs_enqueued_total",] == 2


@virtual_time
async def test_one_that_has_led_tells_no_more_how_large_the_queue_was():
    storage = FaultyStorage()
    async with brokering(storage) as broker, brokering(FaultyStorage(storage.inner)) as other:
        metrics = Metrics(broker)
        await broker.lead(lambda q: q.enqueue("mail"))
        assert samples(metrics)["bucketq_queue_bytes",] == len(storage.versions[-1])
        storage.is_down = True
        while not other.is_leading:
            await asyncio.sleep(1)
        assert ("bucketq_queue_bytes",) not in samples(metrics)
        assert samples(Metrics(other))["bucketq_queue_bytes",] > 0
        storage.is_down = False


@virtual_time
async def test_one_that_waits_tells_of_no_jobs():
    storage = FaultyStorage()
    async with brokering(storage), brokering(storage) as other:
        told = samples(Metrics(other))
        assert told["bucketq_leading",] == told["bucketq_terms_total",] == 0
        assert told["bucketq_epoch",] == 1
        assert not any(name.startswith("bucketq_jobs") for name, *_ in told)


@virtual_time
async def test_the_pace_and_the_throttle_are_told():
    inner = FaultyStorage()
    storage = ThrottledStorage(inner, writes_per_s=2, clock=VirtualClock())
    async with brokering(storage, commit_interval_s=0.05) as broker:
        metrics = Metrics(broker)
        inner.faults.extend(["slow down"] * 3)
        await broker.lead(lambda q: q.enqueue("mail"))
        told = samples(metrics)
        assert told["bucketq_commit_interval_wanted_seconds",] == 0.05
        assert told["bucketq_commit_interval_seconds",] > 0.3
        assert told["bucketq_slow_downs_total",] == 3
        assert told["bucketq_storage_requests_refused_total", "write"] == 3
        assert told["bucketq_storage_requests_total", "queue", "write"] == inner.writes
        assert told["bucketq_storage_limit_per_second", "write"] == 2
        assert told["bucketq_storage_wait_seconds_total", "write"] > 0
        assert ("bucketq_storage_limit_per_second", "read") not in told, "there is none"


@virtual_time
async def test_requests_are_counted_by_how_they_were_answered():
    async with brokering(FaultyStorage()) as broker:
        metrics = Metrics(broker)
        for outcome in ("ok", "ok", "KeyTakenError"):
            metrics.answered("http", "enqueue", outcome, 0.02)
        metrics.connections("ws").inc()
        with metrics.waiting.track_inprogress():
            told = samples(metrics)
        assert told["bucketq_requests_total", "enqueue", "http", "ok"] == 2
        assert told["bucketq_requests_total", "KeyTakenError", "enqueue", "http"] == 1
        assert told["bucketq_request_seconds_count", "enqueue", "http"] == 3
        assert told["bucketq_request_seconds_bucket", "0.01", "enqueue", "http"] == 0
        assert told["bucketq_request_seconds_bucket", "0.025", "enqueue", "http"] == 3
        assert told["bucketq_connections", "ws"] == told["bucketq_waiting_calls",] == 1
        assert samples(Metrics(broker)).keys().isdisjoint({("bucketq_connections", "ws")}), "its own"


@virtual_time
async def test_names_that_somebody_makes_up_do_not_fill_the_memory():
    async with brokering(FaultyStorage()) as broker:
        metrics = Metrics(broker)
        for number in range(5000):
            metrics.answered("http", f"no-such-{number}", "ok", 0.01)
        told = samples(metrics)
        assert len([key for key in told if key[0] == "bucketq_requests_total"]) <= 2001
        assert sum(value for key, value in told.items() if key[0] == "bucketq_requests_total") == 5000


@virtual_time
async def test_the_documented_list_is_what_is_told():
    async with brokering(ThrottledStorage(FaultyStorage(), writes_per_s=5, clock=VirtualClock())) as broker:
        metrics = Metrics(broker)
        metrics.answered("http", "enqueue", "ok", 0.01)
        metrics.connections("http").inc()
        await broker.lead(lambda q: q.enqueue("mail"))
        text = metrics.text().decode()
    rows = set()
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        named = ", ".join(f"`{label}`" for label in sorted(labels))
        rows.add(f"| `{name}` | {family.type} | {named} | {family.documentation} |")
    listed = {line for line in LISTED.read_text().splitlines() if line.startswith("| `")}
    assert "\n".join(sorted(listed)) == "\n".join(sorted(rows))
    assert CONTENT_TYPE.startswith("text/plain")


def test_a_limit_that_would_starve_the_heartbeat_is_refused():
    storage = ThrottledStorage(FaultyStorage(), writes_per_s=0.5)
    with pytest.raises(ConfigurationError, match="too short"):
        Broker(storage)
    Broker(storage, beats=Beats(interval_s=3, timeout_s=20))


@virtual_time
async def test_a_leader_with_one_write_a_second_keeps_its_term_under_load():
    storage = ThrottledStorage(FaultyStorage(), writes_per_s=1, clock=VirtualClock())
    async with brokering(storage, payload_inline_max=10) as broker, brokering(storage) as other:
        until_s = asyncio.get_running_loop().time() + 120

        async def enqueue_large():
            while asyncio.get_running_loop().time() < until_s:
                await broker.lead(lambda q: q.enqueue("large", "x" * 100))

        await asyncio.gather(*(enqueue_large() for _ in range(50)))
        assert broker.is_leading
        assert (broker.terms, other.terms) == (1, 0)
