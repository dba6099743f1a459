"""Jobs and states for tests of the state machine."""

from datetime import UTC, datetime

from bucketq.job import Job
from bucketq.state import QueueState

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def new(job_id, entrypoint="mail", **fields):
    return Job(id=job_id, entrypoint=entrypoint, created_at=NOW, **fields)


def filled(*jobs):
    state = QueueState()
    for job in jobs:
        state.enqueue(job)
    return state
