"""Traces: from whoever enqueues a job through each attempt at it, and on to what its handler enqueues."""

import asyncio
import logging

import pytest
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from bucketq import App, BrokerQueue, InMemoryStorage, JobFailedError, Running, Settings, provided, tracing
from bucketq.app import current
from bucketq.log_fields import LogFields
from bucketq.retry import fixed
from bucketq.trace_context import TraceContext
from tests.app.test_worker import SOON_S, working
from tests.app.traced import kept_spans, parent_of, trace_of

GIVEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def app():
    return App("memory://", settings=Settings(stale_after_s=5))


@pytest.fixture
def kept():
    with kept_spans() as kept:
        yield kept


async def test_an_attempt_is_a_child_of_the_enqueue_and_the_handlers_spans_are_its_children(app, kept):
    @app.job
    async def mail(to: str) -> str:
        with kept.tracer.start_as_current_span("smtp"):
            return to

    async with working(app):
        with kept.tracer.start_as_current_span("checkout") as checkout:
            job = await mail.enqueue("ada")
        await mail.result(job, timeout=SOON_S)
    enqueue, process, smtp = kept.one("enqueue mail"), kept.one("process mail"), kept.one("smtp")
    assert {trace_of(span) for span in (enqueue, process, smtp)} == {checkout.get_span_context().trace_id}
    assert parent_of(enqueue) == checkout.get_span_context().span_id
    assert (parent_of(process), parent_of(smtp)) == (enqueue.context.span_id, process.context.span_id)
    assert (enqueue.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert dict(enqueue.attributes) == {
        "messaging.system": "bucketq",
        "messaging.destination.name": "mail",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "messaging.message.id": job.id,
    }
    assert dict(process.attributes) == {
        "messaging.system": "bucketq",
        "messaging.destination.name": "mail",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.message.id": job.id,
        "messaging.client.id": process.attributes["messaging.client.id"],
        "bucketq.attempt": 1,
        "bucketq.outcome": "completed",
    }
    assert process.status.status_code is StatusCode.UNSET


async def test_each_attempt_is_a_span_of_the_same_trace_and_tells_its_error(app, kept):
    @app.job(retry=fixed(0), max_attempts=2)
    async def flaky() -> None:
        raise ValueError("no such host")

    async with working(app):
        job = await flaky.enqueue()
        with pytest.raises(JobFailedError):
            await flaky.result(job, timeout=SOON_S)
    first, second = kept.named("process flaky")
    assert trace_of(first) == trace_of(second) == trace_of(kept.one("enqueue flaky"))
    for number, span in enumerate((first, second), 1):
        attributes = span.attributes
        assert (attributes["bucketq.attempt"], attributes["bucketq.outcome"]) == (number, "failed")
        assert attributes["error.type"] == "ValueError"
        assert (span.status.status_code, span.status.description) == (
            StatusCode.ERROR,
            "ValueError: no such host",
        )
        [event] = span.events
        assert event.attributes["exception.message"] == "no such host"
        assert "in flaky" in event.attributes["exception.stacktrace"]


async def test_what_does_not_fit_is_told_without_the_payload(app, kept):
    @app.job(max_attempts=1)
    async def mail(to: str) -> None: ...

    async with working(app):
        queue = await app.opened()
        job = await queue.enqueue("mail", {"to": 7, "secret": "hunter2"})
        with pytest.raises(JobFailedError):
            await mail.result(job, timeout=SOON_S)
    span = kept.one("process mail")
    assert span.attributes["bucketq.outcome"] == "rejected"
    assert "hunter2" not in span.to_json()


async def test_threads_and_what_handlers_enqueue_go_on_with_the_trace(kept):
    # By this name code without async finds it too.
    app = App("memory://traced-threads")

    @app.job
    def thumb(running: Running = provided()) -> None:
        with kept.tracer.start_as_current_span("resize"):
            publish.enqueue_sync("now")
            running.enqueue(publish.call("when done"))

    @app.job
    async def publish(name: str) -> None: ...

    async with working(app):
        await thumb.result(await thumb.enqueue(), timeout=SOON_S)
        async with asyncio.timeout(SOON_S):
            while len(kept.named("process publish")) < 2:
                await asyncio.sleep(0.01)
    process, resize = kept.one("process thumb"), kept.one("resize")
    assert parent_of(resize) == process.context.span_id
    direct = kept.one("enqueue publish")
    assert parent_of(direct) == resize.context.span_id
    # The one that came with the job's completion has no enqueue of its own.
    parents = {parent_of(span) for span in kept.named("process publish")}
    assert parents == {direct.context.span_id, resize.context.span_id}
    assert {trace_of(span) for span in kept.named("process publish")} == {trace_of(kept.one("enqueue thumb"))}


async def test_jobs_of_one_enqueue_share_its_span_and_so_does_the_follower_of_a_batch(kept):
    async with BrokerQueue(InMemoryStorage()) as q:
        await q.enqueue_many("resize", range(3))
        await q.enqueue_batch("crop", range(2), then=("publish", 7))
        many, batch = kept.one("enqueue resize"), kept.one("enqueue crop")
        assert many.attributes["messaging.batch.message_count"] == 3
        assert batch.attributes["messaging.batch.message_count"] == 2
        for entrypoint, span in (("resize", many), ("crop", batch), ("publish", batch)):
            jobs = await q.dequeue(entrypoint, batch_size=10)
            assert jobs
            for job in jobs:
                assert job.traceparent.split("-")[1:3] == [
                    f"{span.context.trace_id:032x}",
                    f"{span.context.span_id:016x}",
                ]
            await q.ack_many(jobs)


async def test_a_long_load_and_a_transaction_carry_it_too(kept):
    async with BrokerQueue(InMemoryStorage(), settings=Settings(hot_jobs_max=20)) as q:
        await q.enqueue_many("resize", range(100))
        with kept.tracer.start_as_current_span("checkout") as span:
            async with q.transaction() as transaction:
                transaction.enqueue("mail")
        [mail] = await q.dequeue("mail")
        assert f"{span.get_span_context().span_id:016x}" in mail.traceparent
        resize = await q.dequeue("resize", batch_size=100)
        assert len(resize) == 100
        assert {
            f"{kept.one('enqueue resize').context.span_id:016x}" in job.traceparent for job in resize
        } == {True}


async def test_a_dead_job_that_is_done_again_is_a_trace_of_its_own_with_a_link(app, kept):
    is_well = False

    @app.job(max_attempts=1)
    async def report() -> None:
        assert is_well

    async with working(app):
        job = await report.enqueue()
        with pytest.raises(JobFailedError):
            await report.result(job, timeout=SOON_S)
        is_well = True
        again = await (await app.opened()).redrive(job.id)
        await report.result(again, timeout=SOON_S)
    enqueue = kept.one("enqueue report")
    _, process = kept.named("process report")
    assert (process.parent, trace_of(process) != trace_of(enqueue)) == (None, True)
    assert process.attributes["bucketq.redrive_of"] == job.id
    [link] = process.links
    assert (link.context.trace_id, link.context.span_id) == (trace_of(enqueue), enqueue.context.span_id)


async def test_ticks_of_a_schedule_begin_traces_of_their_own(app, kept):
    @app.job
    async def tick() -> None: ...

    async with working(app):
        with kept.tracer.start_as_current_span("deploy"):
            schedule = await tick.schedule(every=1)
        assert schedule.job.traceparent is None
        async with asyncio.timeout(SOON_S):
            while not kept.named("process tick"):
                await asyncio.sleep(0.02)
    assert kept.named("process tick")[0].parent is None


async def test_a_trace_that_is_given_is_kept_and_no_span_is_made_for_it(kept):
    async with BrokerQueue(InMemoryStorage()) as q:
        await q.enqueue("mail", traceparent=GIVEN, tracestate="vendor=abc")
        [job] = await q.dequeue()
        assert (job.traceparent, job.tracestate) == (GIVEN, "vendor=abc")
        assert not kept.named("enqueue mail")


async def test_what_is_not_sampled_stays_so_in_the_worker(app, kept):
    seen = []

    @app.job
    async def mail() -> None:
        seen.append(get_current_span().get_span_context())

    async with working(app):
        queue = await app.opened()
        await mail.result(await queue.enqueue("mail", traceparent=GIVEN[:-1] + "0"), timeout=SOON_S)
    assert not kept.named("process mail")
    assert f"{seen[0].trace_id:032x}" == TraceContext(GIVEN).trace_id


async def test_commits_are_spans_by_themselves(kept):
    async with BrokerQueue(InMemoryStorage()) as q:
        with kept.tracer.start_as_current_span("checkout"):
            await asyncio.gather(*(q.enqueue("mail") for _ in range(5)))
        assert await q.dequeue("nothing") == []
    commits = kept.named("commit")
    assert [span.attributes["bucketq.operations"] for span in commits] == [5]
    [commit] = commits
    assert (commit.parent, commit.attributes["bucketq.landed"], commit.attributes["bucketq.version"]) == (
        None,
        True,
        1,
    )


async def test_a_job_that_is_given_back_is_interrupted(app, kept):
    @app.job
    async def slow() -> None:
        await asyncio.sleep(60)

    async with working(app, grace_s=0):
        await slow.enqueue()
        queue = await app.opened()
        async with asyncio.timeout(SOON_S):
            while not (await queue.stats()).in_progress:
                await asyncio.sleep(0.01)
    span = kept.one("process slow")
    assert (span.attributes["bucketq.outcome"], span.status.status_code) == ("interrupted", StatusCode.UNSET)


async def test_lines_of_a_handler_tell_of_its_job_and_span(app, kept):
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    handler.addFilter(LogFields())
    log = logging.getLogger("shop")
    log.addHandler(handler)

    @app.job
    async def mail() -> str:
        log.warning("in the loop")
        return current().job.worker

    @app.job
    def thumb() -> None:
        log.warning("in a thread")

    try:
        async with working(app):
            jobs = [await mail.enqueue(), await thumb.enqueue()]
            worker = await mail.result(jobs[0], timeout=SOON_S)
            await thumb.result(jobs[1], timeout=SOON_S)
        log.warning("outside")
    finally:
        log.removeHandler(handler)
    told = {record.getMessage(): vars(record) for record in records}
    for job, message in zip(jobs, ("in the loop", "in a thread"), strict=True):
        fields, span = told[message], kept.one(f"process {job.entrypoint}")
        assert (fields["job_id"], fields["entrypoint"], fields["attempt"]) == (job.id, job.entrypoint, 1)
        assert fields["worker"] == worker
        assert fields["trace_id"] == f"{trace_of(span):032x}"
        assert fields["span_id"] == f"{span.context.span_id:016x}"
    assert not {"job_id", "trace_id"} & told["outside"].keys()


def test_it_is_off_until_it_is_enabled():
    with kept_spans():
        assert tracing.switch.TRACING.spans is not None
    assert tracing.switch.TRACING.spans is None
