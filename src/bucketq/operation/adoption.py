"""Adopt: what another queue had becomes this one's."""

from collections.abc import Iterable
from datetime import datetime

import msgspec
from msgspec.structs import replace

from bucketq.batches import NamedBatch
from bucketq.dependents import Fates
from bucketq.errors import ConfigurationError
from bucketq.job import Job
from bucketq.jobline import encode_job
from bucketq.limits import Limits, check_limit
from bucketq.loads import LoadMark
from bucketq.new_job import INTEGER_MAX, check_name, check_new_job
from bucketq.schedule import Schedule, check_schedule
from bucketq.state import QueueState

# What a queue has that another can take over.
Holding = Job | NamedBatch | Schedule | Limits


# Of an adopted job, without its payload: it is written with every commit.
_LINE_BYTES_MAX = 256 * 1024


def check_holding(holding: Holding) -> None:
    """Raise ConfigurationError, or PayloadError, for what another queue cannot have had."""
    match holding:
        case Job():
            _check_job(holding)
        case NamedBatch():
            check_name("a batch's id", holding.id)
            if holding.batch.then is not None:
                _check_job(holding.batch.then)
        case Schedule():
            check_schedule(holding)
        case Limits():
            for entrypoint in holding.paused:
                check_name("an entrypoint", entrypoint)
            for entrypoint, limit in holding.entrypoints.items():
                check_limit(entrypoint, None, limit)
            for limit_key, limit in holding.limit_keys.items():
                check_limit(None, limit_key, limit)


def _check_job(job: Job) -> None:
    check_name("a job's id", job.id)
    check_new_job(job)
    size = len(encode_job(replace(job, payload=b"", after=())))
    if size > _LINE_BYTES_MAX or max(job.attempts, job.crashes) > INTEGER_MAX:
        raise ConfigurationError(
            f"job {job.id} has {size} bytes without its payload, {job.attempts} attempts and {job.crashes}"
            f" crashes; the limits are {_LINE_BYTES_MAX} bytes and {INTEGER_MAX}"
        )


class Adopt(msgspec.Struct, frozen=True, gc=False):
    """Take over a part of what another queue had, unless that was done before; tell how many jobs.

    Jobs keep their ids and their history. What is here already stays as it is: a job of the same id, a
    batch, a schedule or a limit of the same name, and a job that has the same unique key.

    Jobs that are in segments or in the archive are for the import to leave out. `seen` is what it saw of
    other imports when it looked for them (see `Loads.imports_seen`). If one of those has landed a part
    since, the answer is None, and nothing is changed: look again.
    """

    load: str
    # How far the load has got with this part.
    number: int
    holdings: tuple[Holding, ...]
    now: datetime
    # Of jobs that these wait for, and that are in the queue no more: whether they succeeded.
    finished: tuple[tuple[str, bool], ...] = ()
    # Empty from a client that looks only once.
    seen: str = ""

    @property
    def jobs(self) -> list[Job]:
        """The jobs that it brings, and those that follow its batches."""
        return [job for one in self.holdings if (job := _job_of(one)) is not None]

    def with_jobs(self, jobs: Iterable[Job]) -> "Adopt":
        """The same with other jobs in the place of its own."""
        others = iter(jobs)
        holdings = (one if _job_of(one) is None else _with_job(one, next(others)) for one in self.holdings)
        return replace(self, holdings=tuple(holdings))

    def __call__(self, state: QueueState) -> int | None:
        if self.seen and self.seen != state.loads.imports_seen():
            return None
        mark = LoadMark(self.number)
        if state.loads.has(self.load, mark):
            return 0
        adopted = 0
        fates = Fates(self.finished)
        for holding in self.holdings:
            match holding:
                case Job():
                    adopted += state.adopt(holding, self.now, fates)
                case NamedBatch():
                    state.adopt_batch(holding, self.now)
                case Schedule():
                    if state.schedules.get(holding.name) is None:
                        state.put_schedule(holding, self.now)
                case Limits():
                    state.set_limits(state.limits.joined(holding))
        state.load(self.load, mark)
        return adopted


def _job_of(holding: Holding) -> Job | None:
    match holding:
        case Job():
            return holding
        case NamedBatch():
            return holding.batch.then
    return None


def _with_job(holding: Holding, job: Job) -> Holding:
    if isinstance(holding, NamedBatch):
        return holding._replace(batch=replace(holding.batch, then=job))
    return job
