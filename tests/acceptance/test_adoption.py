"""Adopting by way of a broker: who may, and what is refused."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest

import bucketq
from bucketq import ConfigurationError, DirectQueue, ForbiddenError, Job, JobStatus, LocalFileSystemStorage
from bucketq.limits import Limit, Limits
from bucketq.operation import Adopt
from bucketq.schedule import Schedule
from tests.acceptance.hosted import hosted
from tests.acceptance.served import served, url_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(job_id="1", **fields):
    return Job(id=job_id, created_at=NOW, **{"entrypoint": "mail", **fields})


def new_token(role):
    command = [sys.executable, "-m", "bucketq", "token", "new", role, "--role", role]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


async def test_it_takes_an_admin(tmp_path):
    (secret, line), (admins, admin_line) = new_token("producer"), new_token("admin")
    part = Adopt("import-1", 1, (job(),), NOW)
    url = f"file://{tmp_path}/queue.json"
    with served(url, BUCKETQ_TOKENS=f"{line}\n{admin_line}") as broker:
        async with bucketq.connect(url_of("grpc", broker), token=secret) as q:
            with pytest.raises(ForbiddenError, match="admin"):
                await q.apply(part)
        async with bucketq.connect(url_of("grpc", broker), token=admins) as q:
            assert await q.apply(part) == 1


async def test_what_another_queue_cannot_have_had_is_refused(tmp_path):
    with hosted(f"file://{tmp_path}/queue.json") as broker:
        async with bucketq.connect(url_of("grpc", broker)) as q:
            for holding in (
                job(entrypoint=""),
                job(status=JobStatus.IN_PROGRESS, token="t", claimed_at=NOW, attempts=1),
                job(token="t"),
                job("x" * 1000),
                job(max_attempts=0),
                Schedule(name="poll", cron="sometimes", job=job()),
                Limits(entrypoints={"x" * 1000: Limit(max_running=1)}),
                Limits(limit_keys={"k": Limit(burst=3)}),
            ):
                with pytest.raises(ConfigurationError):
                    await q.apply(Adopt("import-1", 1, (job("sound"), holding), NOW))
            assert (await q.stats()).enqueued_total == 0
    state = await DirectQueue(LocalFileSystemStorage(tmp_path / "queue.json")).read_state()
    assert not state.loads.marks
    assert not state.limits
