"""One trace from a producer through a broker to a worker, in three processes, at a real collector."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import bucketq
from tests.acceptance.collector import collecting
from tests.acceptance.served import served
from tests.app.working import Worked

HERE = Path(__file__).parent
CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

PRODUCER = """
import asyncio, sys
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
import bucketq
from bucketq import tracing

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
tracing.enable()

async def produce():
    async with bucketq.connect(sys.argv[1]) as q:
        with trace.get_tracer("web").start_as_current_span("checkout"):
            print((await q.enqueue("mail", {"to": "secret@example.com"})).id)

asyncio.run(produce())
"""


@contextmanager
def worked(url, *options, **variables):
    arguments = ("-m", "bucketq", "work", "traced_jobs:app", *options)
    worker = Worked(HERE, *arguments, cwd=HERE, TRACED_URL=url, **variables)
    try:
        yield worker
    finally:
        worker.end()


@pytest.fixture(scope="module")
def collector():
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="module")
def broker(tmp_path_factory, collector):
    url = f"file://{tmp_path_factory.mktemp('traced')}/queue.json"
    with served(url, "--traces", **collector.variables("queue")) as broker:
        broker.wait_for("leading")
        yield broker
        broker.signal(signal.SIGTERM)
        assert broker.wait() == 0


@pytest.fixture(scope="module")
def worker(broker, collector):
    with worked(f"grpc://{broker.address}", BUCKETQ_TRACES="1", **collector.variables("mailer")) as worker:
        yield worker
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0


def test_a_trace_goes_from_a_producer_by_grpc_through_the_worker_to_what_its_handler_enqueues(
    broker, worker, collector
):
    url = f"grpc://{broker.address}"
    told = subprocess.run(
        [sys.executable, "-c", PRODUCER, url],
        env={**os.environ, **collector.variables("web")},
        capture_output=True,
        text=True,
        check=True,
    )
    job_id = told.stdout.strip()
    process = collector.wait_for("process mail", attributes={"messaging.message.id": job_id})
    smtp = collector.wait_for("smtp", parent=process.id)
    enqueue = collector.wait_for("enqueue mail", id=process.parent)
    checkout = collector.wait_for("checkout", id=enqueue.parent)
    of_audit = collector.wait_for("enqueue audit", parent=smtp.id)
    audit = collector.wait_for("process audit", parent=of_audit.id)
    spans = (checkout, enqueue, process, smtp, of_audit, audit)
    assert {span.trace for span in spans} == {checkout.trace}
    assert [span.service for span in spans] == ["web", "web", "mailer", "mailer", "mailer", "mailer"]
    assert (checkout.parent, process.error) == ("", "")
    assert process.attributes.items() >= {
        ("messaging.system", "bucketq"),
        ("messaging.destination.name", "mail"),
        ("messaging.message.id", job_id),
        ("bucketq.attempt", 1),
        ("bucketq.outcome", "completed"),
    }
    # What the handler writes is found by the job and by the trace; what the job holds is not told.
    line = next(line for line in worker.wait_for("connected") if line["job_id"] == job_id)
    assert (line["logger"], line["level"], line["entrypoint"], line["attempt"]) == ("shop", "info", "mail", 1)
    assert line["worker"] == process.attributes["messaging.client.id"]
    assert (line["trace_id"], line["span_id"]) == (smtp.trace, smtp.id)
    done = next(line for line in worker.wait_for("is done") if line["job_id"] == job_id)
    assert (done["trace_id"], done["worker"]) == (process.trace, line["worker"])
    assert "secret@example.com" not in json.dumps([worker.log, broker.log])
    assert "secret@example.com" not in repr(spans)


def test_a_trace_goes_from_a_request_by_rest_through_the_broker_and_tells_the_error(
    broker, worker, collector
):
    headers = {"traceparent": CALLER, "tracestate": "vendor=abc"}
    with httpx.Client(base_url=f"http://{broker.http}", timeout=30) as http:
        answer = http.post("/v1/jobs", json={"type": "broken", "payload": {}}, headers=headers)
        job_id = answer.json()["jobId"]
    process = collector.wait_for("process broken", attributes={"messaging.message.id": job_id})
    enqueue = collector.wait_for("enqueue broken", id=process.parent)
    request = collector.wait_for("submitJob", id=enqueue.parent)
    assert {span.trace for span in (process, enqueue, request)} == {CALLER.split("-")[1]}
    assert request.parent == CALLER.split("-")[2]
    assert (request.service, enqueue.service, process.service) == ("queue", "queue", "mailer")
    assert process.error == "LookupError: no such customer"
    assert (process.attributes["bucketq.outcome"], process.attributes["error.type"]) == (
        "failed",
        "LookupError",
    )
    [event] = process.events
    assert event["exception.message"] == "no such customer"
    assert collector.wait_for("commit").service == "queue"


def test_a_handler_in_a_process_goes_on_with_the_trace_and_its_lines_tell_of_its_job(
    broker, worker, collector
):
    async def run():
        async with bucketq.connect(f"grpc://{broker.address}") as q:
            job = await q.enqueue("crunch", {"n": 7}, traceparent=CALLER)
            assert await q.result(job, timeout=30) == 7
            return job

    job = asyncio.run(run())
    process = collector.wait_for("process crunch", attributes={"messaging.message.id": job.id})
    crunching = collector.wait_for("crunching", parent=process.id)
    assert (crunching.trace, process.parent) == (process.trace, CALLER.split("-")[2])
    [line] = worker.wait_for("heavy")
    assert (line["job_id"], line["span_id"], line["level"]) == (job.id, crunching.id, "warning")


def test_a_collector_that_is_away_costs_a_line_and_no_job(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        away = f"http://127.0.0.1:{closed.getsockname()[1]}"
    url = f"file://{tmp_path}/queue.json"

    async def run():
        async with bucketq.connect(url) as q:
            jobs = [await q.enqueue("audit", {"what": "x"}) for _ in range(20)]
            for job in jobs:
                await q.result(job, timeout=30)

    with worked(url, "--traces", OTEL_EXPORTER_OTLP_ENDPOINT=away, OTEL_BSP_SCHEDULE_DELAY="50") as worker:
        asyncio.run(run())
        [line] = worker.wait_for("spans batch")
        assert line["logger"].startswith("opentelemetry")
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
        assert len([line for line in worker.log if line.get("logger", "").startswith("opentelemetry")]) == 1


def test_without_the_extra_a_sentence_says_so(tmp_path):
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from bucketq.cli.__main__ import main\n"
        f"sys.exit(main(['serve', 'file://{tmp_path}/queue.json', '--traces']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "pip install 'bucketq[traces]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_while_it_is_off_nothing_of_opentelemetry_is_imported_and_the_file_has_nothing_of_it(tmp_path):
    code = f"""
import asyncio, sys
from bucketq import App
from bucketq.app.worker import Worker

app = App("file://{tmp_path}/queue.json")

@app.job
async def mail(to: str) -> None: ...

async def run():
    worker = Worker(app)
    async with app:
        running = asyncio.create_task(worker.run())
        await mail.result(await mail.enqueue("ada"), timeout=30)
        await mail.using(delay=60).enqueue("bob")
        worker.stop()
        await running

asyncio.run(run())
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert b"trace" not in (tmp_path / "queue.json").read_bytes()
