"""Every Python example of jqueue's README, with only the import changed.

One test an example, named after its section. What an example takes for granted (`q`,
`resize`, a bucket) is set up above it; what it promises is checked below it. Where an
example names a server or a bucket, the one that the tests run stands in for it.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials

from bucketq import (
    BrokerQueue,
    DirectQueue,
    HeartbeatManager,
    InMemoryStorage,
    Job,
    JobNotFoundError,
    JobStatus,
    LocalFileSystemStorage,
    ObjectStoragePort,
    QueueState,
    S3Storage,
)
from tests.contract.servers import BUCKET, Server


@pytest.fixture
async def q() -> AsyncIterator[BrokerQueue]:
    async with BrokerQueue(InMemoryStorage()) as queue:
        yield queue


async def finish_everything(q: BrokerQueue | DirectQueue) -> list[bytes]:
    """Take what is in the queue, in its order; return the payloads."""
    payloads = []
    while jobs := await q.dequeue():
        payloads += [job.payload for job in jobs]
        await q.ack(jobs[0].id)
    return payloads


# Quick start


def test_quick_start(capsys: pytest.CaptureFixture[str]) -> None:
    import asyncio

    from bucketq import BrokerQueue, HeartbeatManager, InMemoryStorage

    async def main():
        async with BrokerQueue(InMemoryStorage()) as q:
            # Producer: add jobs to the queue
            await q.enqueue("send_email", b'{"to": "alice@example.com"}')
            await q.enqueue("send_email", b'{"to": "bob@example.com"}')

            # Consumer: claim and process
            jobs = await q.dequeue("send_email", batch_size=2)
            for job in jobs:
                async with HeartbeatManager(q, job.id):
                    print(f"Sending email: {job.payload}")
                await q.ack(job.id)

    asyncio.run(main())

    assert capsys.readouterr().out.splitlines() == [
        """Sending email: b'{"to": "alice@example.com"}'""",
        """Sending email: b'{"to": "bob@example.com"}'""",
    ]


def test_quick_start_swapping_the_storage() -> None:
    # Local file (single machine)
    from bucketq import LocalFileSystemStorage

    storage = LocalFileSystemStorage("/var/lib/myapp/queue.json")
    assert isinstance(storage, ObjectStoragePort)

    # AWS S3
    from bucketq import S3Storage

    storage = S3Storage(bucket="my-bucket", key="queues/jobs.json")
    assert isinstance(storage, ObjectStoragePort)

    # Google Cloud Storage
    from bucketq import GCSStorage

    storage = GCSStorage(bucket_name="my-bucket", blob_name="queues/jobs.json")
    assert isinstance(storage, ObjectStoragePort)


# Use cases


async def test_background_job_processing(q: BrokerQueue) -> None:
    image_bytes = b"\x89PNG"
    resized = []

    async def resize(image: bytes) -> None:
        resized.append(image)

    # web handler
    await q.enqueue("resize_image", payload=image_bytes, priority=0)

    # worker loop
    async def worker(q):
        while True:
            jobs = await q.dequeue("resize_image", batch_size=5)
            if not jobs:
                await asyncio.sleep(1)
                continue
            for job in jobs:
                async with HeartbeatManager(q, job.id, interval=timedelta(seconds=30)):
                    await resize(job.payload)
                await q.ack(job.id)

    working = asyncio.create_task(worker(q))
    while (await q.read_state()).jobs:
        await asyncio.sleep(0)
    working.cancel()
    await asyncio.wait([working])
    assert resized == [image_bytes]


def test_fan_out_with_multiple_queues() -> None:
    email_queue = BrokerQueue(S3Storage(bucket="b", key="queues/email.json"))
    sms_queue = BrokerQueue(S3Storage(bucket="b", key="queues/sms.json"))

    assert email_queue.storage is not sms_queue.storage


async def test_fan_out_keeps_the_queues_apart(seaweedfs: Server) -> None:
    email_queue = BrokerQueue(S3Storage(bucket=BUCKET, key="queues/email.json", **seaweedfs.options))
    sms_queue = BrokerQueue(S3Storage(bucket=BUCKET, key="queues/sms.json", **seaweedfs.options))

    async with email_queue, sms_queue:
        await asyncio.gather(email_queue.enqueue("send", b"mail"), sms_queue.enqueue("send", b"text"))
        assert await finish_everything(email_queue) == [b"mail"]
        assert await finish_everything(sms_queue) == [b"text"]


async def test_priority_work(q: BrokerQueue) -> None:
    await q.enqueue("report", b"best-effort", priority=10)

    await q.enqueue("report", b"payload", priority=0)  # urgent
    await q.enqueue("report", b"payload", priority=10)  # best-effort

    assert await finish_everything(q) == [b"payload", b"best-effort", b"payload"]


@pytest.mark.parametrize("outcome", ["done", "failed"])
async def test_long_running_jobs_with_heartbeats(q: BrokerQueue, outcome: str) -> None:
    await q.enqueue("transcode_video", b"film")

    async def transcode(payload: bytes) -> bytes:
        if outcome == "failed":
            raise RuntimeError("no such codec")
        return payload.upper()

    result = None
    [job] = await q.dequeue("transcode_video")
    try:
        async with HeartbeatManager(q, job.id, interval=timedelta(seconds=30)):
            result = await transcode(job.payload)  # might take minutes
        await q.ack(job.id)
    except Exception:
        await q.nack(job.id)  # return to queue for retry

    waiting = (await q.read_state()).queued_jobs("transcode_video")
    if outcome == "done":
        assert (result, waiting) == (b"FILM", ())
    else:
        assert [job.id] == [again.id for again in waiting]


async def test_testing_without_infrastructure() -> None:
    processed = []

    async def process_email(job: Job) -> None:
        processed.append(job.payload)

    async def test_email_worker():
        async with BrokerQueue(InMemoryStorage()) as q:
            await q.enqueue("send_email", b'{"to": "test@example.com"}')
            [job] = await q.dequeue("send_email")
            await process_email(job)
            await q.ack(job.id)
            state = await q.read_state()
            assert len(state.jobs) == 0

    await test_email_worker()
    assert processed == [b'{"to": "test@example.com"}']


async def test_minio_self_hosted_s3_compatible_storage(
    seaweedfs: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The example leaves the credentials to the environment.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", seaweedfs.options["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", seaweedfs.options["secret_access_key"])

    storage = S3Storage(
        bucket=BUCKET,
        key="minio/queue.json",
        endpoint_url=seaweedfs.endpoint_url,
        region_name="us-east-1",
    )

    async with BrokerQueue(storage) as q:
        await asyncio.gather(q.enqueue("task", b"1"), q.enqueue("task", b"2"))
        assert await finish_everything(q) == [b"1", b"2"]


# How it works


async def test_directqueue_one_cas_write_per_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    from bucketq import DirectQueue, LocalFileSystemStorage

    q = DirectQueue(LocalFileSystemStorage("queue.json"))
    job = await q.enqueue("task", b"data")
    [claimed] = await q.dequeue("task")
    await q.ack(claimed.id)

    assert claimed.id == job.id
    state = await q.read_state()
    assert (state.jobs, state.version) == ((), 3)
    assert json.loads((tmp_path / "queue.json").read_bytes())["version"] == 3


async def test_brokerqueue_group_commit() -> None:
    from bucketq import BrokerQueue, InMemoryStorage

    async with BrokerQueue(InMemoryStorage()) as q:
        # These three enqueues are batched into a single storage write
        await asyncio.gather(
            q.enqueue("task", b"1"),
            q.enqueue("task", b"2"),
            q.enqueue("task", b"3"),
        )

        assert (await q.read_state()).version == 1
        assert await finish_everything(q) == [b"1", b"2", b"3"]


async def test_brokerqueue_isolates_the_errors_of_a_batch(q: BrokerQueue) -> None:
    # Batch: [valid_enqueue, bad_nack, valid_dequeue]
    valid_enqueue, bad_nack, valid_dequeue = await asyncio.gather(
        q.enqueue("task", b"1"), q.nack("no such job"), q.dequeue("task"), return_exceptions=True
    )

    assert isinstance(valid_enqueue, Job)
    assert isinstance(bad_nack, JobNotFoundError)
    assert bad_nack.job_id == "no such job"
    assert [job.id for job in valid_dequeue] == [valid_enqueue.id]
    assert (await q.read_state()).version == 1


async def test_heartbeats_and_stale_job_recovery(q: BrokerQueue) -> None:
    await q.enqueue("task", b"data")
    [job] = await q.dequeue()
    worked = []

    async def long_running_work(payload: bytes) -> None:
        worked.append(payload)

    async with HeartbeatManager(q, job.id, interval=timedelta(seconds=30)):
        await long_running_work(job.payload)
    # heartbeat task is cancelled on exit

    assert worked == [b"data"]
    assert "bucketq heartbeat" not in {task.get_name() for task in asyncio.all_tasks()}


async def test_requeue_stale(capsys: pytest.CaptureFixture[str]) -> None:
    # Five minutes pass: the claim is in a file that was written long ago.
    q = DirectQueue(InMemoryStorage(initial_content=wire_format_example()))

    requeued = await q.requeue_stale(timeout=timedelta(minutes=5))
    print(f"Recovered {requeued} stale jobs")

    assert capsys.readouterr().out == "Recovered 1 stale jobs\n"
    assert (await q.read_state()).in_progress_jobs() == ()
    assert await q.requeue_stale(timeout=timedelta(minutes=5)) == 0


WIRE_FORMAT_EXAMPLE = """
{
  "version": 3,
  "jobs": [
    {
      "id": "550e8400-e29b-41d4-a716-446655440000",
      "entrypoint": "send_email",
      "payload": "eyJ0byI6ICJ1c2VyQGV4YW1wbGUuY29tIn0=",
      "status": "queued",
      "priority": 0,
      "created_at": "2024-01-01T12:00:00+00:00",
      "heartbeat_at": null
    },
    {
      "id": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
      "entrypoint": "resize_image",
      "payload": "...",
      "status": "in_progress",
      "priority": 5,
      "created_at": "2024-01-01T11:59:00+00:00",
      "heartbeat_at": "2024-01-01T12:00:45+00:00"
    }
  ]
}
"""


def wire_format_example() -> bytes:
    """The example, with bytes in place of the dots by which it leaves a payload out."""
    return WIRE_FORMAT_EXAMPLE.replace("...", base64.b64encode(b"\x89PNG").decode()).encode()


async def test_wire_format(tmp_path: Path) -> None:
    path = tmp_path / "queue.json"
    path.write_bytes(wire_format_example())

    async with BrokerQueue(LocalFileSystemStorage(path)) as q:
        state = await q.read_state()
        email = state.find("550e8400-e29b-41d4-a716-446655440000")
        image = state.find("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
        assert state.version == 3
        assert len(state.jobs) == 2
        assert email
        assert image
        assert (email.entrypoint, email.priority, email.status) == ("send_email", 0, JobStatus.QUEUED)
        assert (image.entrypoint, image.priority, image.status) == (
            "resize_image",
            5,
            JobStatus.IN_PROGRESS,
        )
        assert (email.payload, image.payload) == (b'{"to": "user@example.com"}', b"\x89PNG")
        assert email.created_at == datetime(2024, 1, 1, 12, tzinfo=UTC)
        assert email.heartbeat_at is None
        assert image.heartbeat_at == datetime(2024, 1, 1, 12, 0, 45, tzinfo=UTC)

        # And the work goes on: the old worker's claim is good, the waiting job is served.
        await q.ack("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
        [claimed] = await q.dequeue("send_email")
        await q.ack(claimed.id)

    written = json.loads(path.read_bytes())
    assert (written["version"] > 3, written["jobs"]) == (True, [])


# Storage adapters


async def test_inmemorystorage() -> None:
    from bucketq import InMemoryStorage

    storage = InMemoryStorage()
    assert await storage.read() == (b"", None)
    # or with pre-populated state:
    storage = InMemoryStorage(initial_content=b'{"version":0,"jobs":[]}')
    await DirectQueue(storage).enqueue("task", b"data")
    assert await finish_everything(DirectQueue(storage)) == [b"data"]


async def test_localfilesystemstorage(tmp_path: Path) -> None:
    from bucketq import LocalFileSystemStorage

    storage = LocalFileSystemStorage("/var/lib/myapp/queue.json")
    # accepts str or pathlib.Path; parent directories are created automatically
    assert isinstance(storage, ObjectStoragePort)

    storage = LocalFileSystemStorage(tmp_path / "var" / "lib" / "myapp" / "queue.json")
    await DirectQueue(storage).enqueue("task", b"data")
    assert (tmp_path / "var" / "lib" / "myapp" / "queue.json").exists()


async def test_s3storage() -> None:
    from bucketq import S3Storage

    # Standard AWS, credentials from environment / IAM role
    storage = S3Storage(bucket="my-bucket", key="queues/jobs.json")
    assert isinstance(storage, ObjectStoragePort)

    # Explicit region
    storage = S3Storage(bucket="my-bucket", key="jobs.json", region_name="eu-central-1")
    assert isinstance(storage, ObjectStoragePort)

    # S3-compatible (MinIO, Cloudflare R2, Tigris, ...)
    storage = S3Storage(
        bucket="my-bucket",
        key="jobs.json",
        endpoint_url="http://minio.internal:9000",
    )
    assert isinstance(storage, ObjectStoragePort)


async def test_s3storage_bring_your_own_session(seaweedfs: Server) -> None:
    # Bring your own session
    import aioboto3

    storage = S3Storage(
        bucket=BUCKET,
        key="session/jobs.json",
        session=aioboto3.Session(
            aws_access_key_id=seaweedfs.options["access_key_id"],
            aws_secret_access_key=seaweedfs.options["secret_access_key"],
        ),
        endpoint_url=seaweedfs.endpoint_url,
        region_name="us-east-1",
    )

    async with BrokerQueue(storage) as q:
        await q.enqueue("task", b"data")
        assert await finish_everything(q) == [b"data"]


async def test_gcsstorage(gcs_server: Server) -> None:
    from bucketq import GCSStorage

    # Application Default Credentials
    storage = GCSStorage(bucket_name="my-bucket", blob_name="queues/jobs.json")
    assert isinstance(storage, ObjectStoragePort)

    # Explicit client
    from google.cloud import storage as gcs

    storage = GCSStorage(
        bucket_name="my-bucket",
        blob_name="jobs.json",
        client=gcs.Client(project="my-project", credentials=AnonymousCredentials()),
    )
    assert isinstance(storage, ObjectStoragePort)

    # And with a client that talks to a server which is there:
    storage = GCSStorage(
        bucket_name=BUCKET,
        blob_name="client/jobs.json",
        client=gcs.Client(
            project="my-project",
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": gcs_server.endpoint_url},
        ),
    )
    async with BrokerQueue(storage) as q:
        await q.enqueue("task", b"data")
        assert await finish_everything(q) == [b"data"]


@pytest.mark.parametrize("queue_class", [BrokerQueue, DirectQueue])
async def test_custom_adapters(queue_class: Any) -> None:
    from bucketq import CASConflictError, ObjectStoragePort  # for type checking only

    class MyStorage:
        content, etag = b"", None

        async def read(self) -> tuple[bytes, str | None]:
            """
            Return (content, etag).
            If the object doesn't exist yet, return (b"", None).
            """
            return self.content, self.etag

        async def write(self, content: bytes, if_match: str | None = None) -> str:
            """
            Conditional write.
            - if_match=None  → unconditional put (first write)
            - if_match=etag  → only write if current etag matches; raise CASConflictError otherwise
            Returns the new etag.
            """
            if if_match is not None and if_match != self.etag:
                raise CASConflictError(if_match)
            self.content, self.etag = content, str(int(self.etag or 0) + 1)
            return self.etag

    storage = MyStorage()
    assert isinstance(storage, ObjectStoragePort)
    q = queue_class(storage)
    if queue_class is BrokerQueue:
        async with q:
            await q.enqueue("task", b"data")
            assert await finish_everything(q) == [b"data"]
    else:
        await q.enqueue("task", b"data")
        assert await finish_everything(q) == [b"data"]
    assert json.loads(storage.content)["jobs"] == []


# API reference


async def test_api_reference_of_the_queues() -> None:
    q = DirectQueue(InMemoryStorage())

    # Enqueue
    job: Job = await q.enqueue(
        entrypoint="task",  # logical handler name
        payload=b"data",  # arbitrary bytes
        priority=0,  # lower = processed first
    )

    # Dequeue: marks jobs IN_PROGRESS, returns empty list if none available
    jobs: list[Job] = await q.dequeue(
        entrypoint=None,  # None = any entrypoint
        batch_size=1,
    )
    assert [claimed.id for claimed in jobs] == [job.id]
    assert await q.dequeue() == []

    # Heartbeat: refresh the IN_PROGRESS timestamp
    await q.heartbeat(job.id)

    # Negative-acknowledge: return a job to QUEUED for retry
    await q.nack(job.id)

    # Acknowledge: remove a completed job
    await q.dequeue()
    await q.ack(job.id)

    # Read-only snapshot (no CAS, no locking)
    state: QueueState = await q.read_state()
    assert state.jobs == ()

    # DirectQueue only: explicit stale sweep
    requeued: int = await q.requeue_stale(timeout=timedelta(minutes=5))
    assert requeued == 0


async def test_api_reference_of_heartbeatmanager() -> None:
    beaten = asyncio.Event()
    beats = []

    class AnyObject:
        async def heartbeat(self, job_id: str) -> None:
            beats.append(job_id)
            beaten.set()

    queue = AnyObject()
    do_work = beaten.wait

    async with HeartbeatManager(
        queue,  # any object with async heartbeat(job_id)
        "job-1",
        interval=timedelta(seconds=0.001),
    ):
        await do_work()

    assert set(beats) == {"job-1"}


async def test_api_reference_of_job(q: BrokerQueue) -> None:
    before = datetime.now(UTC)
    job = await q.enqueue("task", b"data", priority=7)

    assert isinstance(job.id, str)  # stable UUID assigned at enqueue time
    assert job.entrypoint == "task"
    assert job.payload == b"data"
    assert job.status is JobStatus.QUEUED  # | IN_PROGRESS | DEAD
    assert job.priority == 7  # lower = higher priority
    assert before <= job.created_at <= datetime.now(UTC)  # (UTC)
    assert job.heartbeat_at is None  # datetime | None
    with pytest.raises(AttributeError):
        job.priority = 1  # All fields are immutable.
    assert {"queued", "in_progress", "dead"} <= set(JobStatus)


async def test_api_reference_of_queuestate(q: BrokerQueue) -> None:
    slow = await q.enqueue("task", b"slow", priority=5)
    fast = await q.enqueue("task", b"fast")
    other = await q.enqueue("other", b"other", priority=9)
    [claimed] = await q.dequeue("other")
    state = await q.read_state()

    assert isinstance(state.jobs, tuple)
    assert state.version == 4  # incremented on every write
    assert [job.id for job in state.queued_jobs(entrypoint=None)] == [fast.id, slow.id]  # sorted
    assert [job.id for job in state.in_progress_jobs()] == [claimed.id] == [other.id]
    assert state.find(slow.id) == slow
    assert state.find("no such job") is None


# Error handling


async def test_error_handling(q: BrokerQueue) -> None:
    from bucketq import (
        BucketQError,  # base class, catches all bucketq errors
        CASConflictError,  # CAS write rejected (etag mismatch), usually retried internally
        JobNotFoundError,  # job_id not in current state; has .job_id attribute
        StorageError,  # I/O failure from the storage backend; has .cause attribute
    )

    for error in (CASConflictError, JobNotFoundError, StorageError):
        assert issubclass(error, BucketQError)
    assert JobNotFoundError("job-1").job_id == "job-1"
    cause = OSError("disk on fire")
    assert StorageError("could not write", cause).cause is cause

    await q.enqueue("task", b"data")
    [job] = await q.dequeue()
    await q.ack(job.id)

    try:
        await q.ack(job.id)
    except JobNotFoundError:
        pass  # already removed, safe to ignore
    else:
        pytest.fail("a second ack went through")


# Deep dive


def test_when_to_partition() -> None:
    email_q = BrokerQueue(S3Storage(bucket="b", key="queues/email.json"))
    sms_q = BrokerQueue(S3Storage(bucket="b", key="queues/sms.json"))

    assert email_q.storage is not sms_q.storage


async def test_monitoring(q: BrokerQueue) -> None:
    async def collect_metrics(q: BrokerQueue) -> dict:
        state = await q.read_state()
        now = datetime.now(UTC)
        queued = state.queued_jobs()
        return {
            "queue_depth": len(queued),
            "in_progress": len(state.in_progress_jobs()),
            "version": state.version,
            "oldest_queued_age_s": (
                (now - min(j.created_at for j in queued)).total_seconds() if queued else 0
            ),
        }

    assert await collect_metrics(q) == {
        "queue_depth": 0,
        "in_progress": 0,
        "version": 0,
        "oldest_queued_age_s": 0,
    }
    await q.enqueue("task", b"1")
    await q.enqueue("task", b"2")
    await q.dequeue()
    metrics = await collect_metrics(q)
    assert (metrics["queue_depth"], metrics["in_progress"], metrics["version"]) == (1, 1, 3)
    assert 0 <= metrics["oldest_queued_age_s"] < 60
