"""What a token of the role worker can do with schedules: those of its handlers, and nothing else."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

import bucketq
from bucketq import ConfigurationError, ForbiddenError
from bucketq.broker.access import Role
from bucketq.job import Job
from bucketq.operation import schedules
from bucketq.operation.schedules import PutSchedule
from bucketq.schedule import Schedule
from tests.acceptance.guarded import guarded

NOW = datetime(2026, 2, 3, tzinfo=UTC)
JOB = Job(id="report", entrypoint="report", created_at=NOW)


@dataclass
class Clients:
    worker: object
    producer: object
    admin: object


@pytest.fixture
async def clients(tmp_path):
    async with guarded(tmp_path) as broker:

        def connect(role):
            return bucketq.connect(f"grpc://{broker.grpc}", token=broker.secrets[role])

        async with (
            connect(Role.WORKER) as worker,
            connect(Role.PRODUCER) as producer,
            connect(Role.ADMIN) as admin,
        ):
            yield Clients(worker, producer, admin)


async def test_nobody_schedules_jobs_of_a_batch(clients):
    # They would count as those of the batch, and the job that follows it would run too early.
    batch = await clients.producer.enqueue_batch("mail", [{}, {}], then=("done", {}))
    put = PutSchedule(Schedule(name="report", every_s=1.0, job=replace(JOB, batch=batch.id)), NOW)
    for client in (clients.worker, clients.producer, clients.admin):
        with pytest.raises(ConfigurationError, match="must be a new one, of no batch"):
            await client._submit(put)
    assert [one async for one in clients.admin.jobs(status="queued", entrypoint="report")] == []


def test_a_tick_takes_from_a_stored_schedule_only_what_may_be_in_one():
    # As a queue.json may have it from before such schedules were refused.
    stored = replace(JOB, payload=b"{}", key="k", batch="b", attempts=2, redrive_of="7", is_cancelled=True)
    fired = Schedule(name="report", every_s=1.0, job=stored).job_of(NOW, NOW)
    assert fired == replace(JOB, id=fired.id, payload=b"{}", key="k", run_at=NOW)


async def test_a_worker_leaves_the_schedules_of_producers_alone(clients):
    await clients.producer.schedule("report", "report", {"to": "alice"}, cron="0 9 * * *")
    with pytest.raises(ForbiddenError, match="arguments that a producer chose"):
        await clients.worker.schedule("report", "report", every=1)
    [kept] = await clients.worker.schedules()
    assert (kept.cron, kept.job.payload) == ("0 9 * * *", b'{"to":"alice"}')
    # One without arguments is what a handler asks for, whoever made it.
    await clients.producer.schedule("tidy", "tidy", cron="0 3 * * *")
    changed = await clients.worker.schedule("tidy", "tidy", every=60)
    assert changed.every_s == 60


async def test_workers_leave_room_for_the_schedules_of_producers(clients, monkeypatch):
    monkeypatch.setattr(schedules, "SCHEDULES_MAX", 4)
    for name in ("first", "second"):
        await clients.worker.schedule(name, name, every=60)
    with pytest.raises(ConfigurationError, match="workers add schedules up to 2"):
        await clients.worker.schedule("third", "third", every=60)
    # Its own go on, and a producer has room.
    await clients.worker.schedule("second", "second", every=30)
    await clients.producer.schedule("third", "third", every=60)
