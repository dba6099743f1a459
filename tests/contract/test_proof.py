"""A queue refuses to write to a server that ignores conditions, and costs others next to nothing."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from bucketq import App, BrokerQueue, DirectQueue, ThrottledStorage
from bucketq.app.worker import Worker
from bucketq.errors import UnusableStorageError
from bucketq.job import Job
from bucketq.jobline import encode_job
from bucketq.loads import LoadMark
from bucketq.queue import Queue
from bucketq.storage import S3Storage
from bucketq.storage.cloud import CloudStorage
from tests.contract.fault_proxy import Answer, FaultProxy, Loss, Request, fault_proxy
from tests.contract.servers import BUCKET, Server

REFUSED = "is no place for a queue: this server creates an object although there is one"


@pytest.fixture
def unsound(s3rver: Server, request: pytest.FixtureRequest) -> S3Storage:
    return S3Storage(BUCKET, f"{request.node.name}/queue.json", **s3rver.options)


@pytest.fixture
def before_s3rver(s3rver: Server) -> Iterator[FaultProxy]:
    with fault_proxy(s3rver.endpoint_url) as proxy:
        yield proxy


@asynccontextmanager
async def direct(storage: CloudStorage) -> AsyncIterator[Queue]:
    yield DirectQueue(storage)


def throttled(storage: CloudStorage) -> BrokerQueue:
    return BrokerQueue(ThrottledStorage(storage, writes_per_s=100))


async def everything_in(storage: CloudStorage) -> list[str]:
    content, _ = await storage.read()
    return [info.name async for info in storage.objects.list()] + (["queue.json"] if content else [])


def probes(proxy: FaultProxy) -> list[str]:
    """What was asked for probes. Azure is asked to delete by a POST that does not show what."""
    methods = (request.method for request in proxy.requests if "/probe/" in request.path or is_post(request))
    return ["DELETE" if method == "POST" else method for method in methods]


def is_post(request: Request) -> bool:
    return request.method == "POST"


@pytest.mark.parametrize("open_queue", [direct, BrokerQueue, throttled])
async def test_a_queue_refuses_a_server_that_ignores_conditions(unsound, open_queue) -> None:
    async with open_queue(unsound) as queue:
        for _ in range(2):
            with pytest.raises(UnusableStorageError, match=REFUSED):
                await queue.enqueue("send")
    assert await everything_in(unsound) == [], "nothing was written, and the probe is gone"


async def test_so_does_the_sink_of_spark(unsound: S3Storage) -> None:
    from bucketq.spark.loading import Loaded, land

    job = Job(id="1", entrypoint="send", created_at=datetime.now(UTC), sequence=1)
    loaded = Loaded(0, LoadMark(0), 1, [], [encode_job(job)])
    with pytest.raises(UnusableStorageError, match=REFUSED):
        await land(unsound, [loaded])
    assert await everything_in(unsound) == []


def test_so_does_a_broker_when_it_starts(unsound: S3Storage, s3rver: Server) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "S3RVER", "AWS_SECRET_ACCESS_KEY": "S3RVER"}
    url = f"{unsound.url}?region_name=us-east-1&endpoint_url={s3rver.endpoint_url}"
    command = [sys.executable, "-m", "bucketq", "serve", url, "--grpc-port", "0", "--http-port", "0"]
    ended = subprocess.run(command, env={**os.environ, **keys}, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2, ended.stderr
    assert REFUSED in ended.stderr
    assert "Traceback" not in ended.stderr
    assert asyncio.run(everything_in(unsound)) == []


async def test_so_does_a_worker_before_it_says_that_it_takes_jobs(
    unsound: S3Storage, s3rver: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    app = App(unsound.url, storage_options=dict(s3rver.options))

    @app.job
    def send() -> None: ...

    async with app, asyncio.timeout(30):
        with pytest.raises(UnusableStorageError, match=REFUSED):
            await Worker(app).run()
    assert "taking jobs" not in caplog.text
    assert await everything_in(unsound) == []


async def test_who_only_reads_is_not_held_up(s3rver: Server, before_s3rver: FaultProxy) -> None:
    options = {**s3rver.options, "endpoint_url": before_s3rver.endpoint_url}
    storage = S3Storage(BUCKET, "readers/queue.json", **options)
    async with BrokerQueue(storage) as queue:
        assert (await queue.stats()).queued == 0
        assert await queue.find("no such job") is None
        assert await queue.dequeue("send") == []
    assert {request.method for request in before_s3rver.requests} == {"GET"}


async def test_a_bucket_is_tried_once_in_a_process(cloud, proxy: FaultProxy) -> None:
    options = {**cloud.server.options, "endpoint_url": proxy.endpoint_url}
    for key in ("once/first.json", "once/second.json"):
        async with BrokerQueue(cloud.storage_class(BUCKET, key, **options)) as queue:
            await queue.enqueue("send")
            await queue.enqueue("send")
    assert probes(proxy) == ["PUT", "PUT", "PUT", "PUT", "DELETE"]
    assert "/probe/" in next(request.path for request in proxy.requests if request.method == "PUT")


@pytest.mark.parametrize("fault", [Answer(403, "AccessDenied"), Answer(500, "InternalError"), Loss.RESET])
async def test_what_cannot_be_tried_is_not_called_unsound(storage, proxy: FaultProxy, fault) -> None:
    proxy.fault, proxy.fault_at = fault, "/probe/"
    async with BrokerQueue(storage) as queue:
        for _ in range(5):
            await queue.enqueue("send")
        assert (await queue.stats()).queued == 5
    tries = 1 if isinstance(fault, Answer) and fault.status == 403 else 3
    assert probes(proxy) == ["PUT", "DELETE"] * tries, "and it is not tried for ever"


async def test_a_lost_answer_is_not_taken_for_a_broken_condition(storage, proxy: FaultProxy) -> None:
    """The create of the probe lands, and is answered by nobody."""
    proxy.fault, proxy.fault_at = Loss.CLOSED, "PUT"
    await storage.prove()
    proxy.fault = None
    await storage.prove()
    assert probes(proxy) == ["PUT", "DELETE", "PUT", "PUT", "PUT", "PUT", "DELETE"]
    assert await everything_in(storage) == []
