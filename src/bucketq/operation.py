"""The operations on a queue, as values.

An operation carries everything that it needs, ids and times included, so applying it
again to a fresher state is a true replay. Calling one with a state runs a short script
of that state's transitions.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from bucketq.archived_job import FinishedStatus, line_of
from bucketq.backlog import SegmentNeededError
from bucketq.batches import BatchCounts
from bucketq.chores import Collect, DropArchived, Expire, ForgetExpired, Merge, ReadLedger, Seal, Spill
from bucketq.election import Leader, Result
from bucketq.ending import Ending
from bucketq.errors import (
    BucketQError,
    JobNotFoundError,
    OutcomeUnknownError,
    QueueFullError,
    SessionForgottenError,
)
from bucketq.expiry import MoreExpiredError
from bucketq.job import Claim, Job, JobStatus
from bucketq.limit_operation import Pause, ReadLimits, Resume, SetLimit
from bucketq.loads import LoadMark
from bucketq.new_job import IfExists
from bucketq.refusal import Refusal
from bucketq.scheduling import Fire, ListSchedules, PutSchedule, RemoveSchedule
from bucketq.segment import Segment
from bucketq.sessions import SessionMark
from bucketq.settlements import Cancel, Discard, Redrive, SettleMany
from bucketq.state import QueueState, Stats


class Refresh(msgspec.Struct, frozen=True, gc=False):
    """Change nothing; tell the version of a state that is known to be current."""

    def __call__(self, state: QueueState) -> int:
        return state.version


class Count(msgspec.Struct, frozen=True, gc=False):
    """Tell how many jobs there are."""

    def __call__(self, state: QueueState) -> Stats:
        return state.stats


class Find(msgspec.Struct, frozen=True, gc=False):
    """Tell how a job stands in queue.json, or else in which segments it could be."""

    job_id: str

    def __call__(self, state: QueueState) -> Job | list[Segment]:
        return state.find(self.job_id) or state.backlog.may_hold(self.job_id)


class Enqueue(msgspec.Struct, frozen=True, gc=False):
    """Add jobs, in this order; one whose unique key is taken only as `if_exists` says."""

    jobs: tuple[Job, ...]
    if_exists: IfExists = "return"
    # Of jobs that these wait for, and that are in the queue no more: whether they succeeded.
    finished: tuple[tuple[str, bool], ...] = ()

    def __call__(self, state: QueueState) -> list[Job]:
        fates: dict[str, bool | None] = dict(self.finished)
        return [state.enqueue(job, self.if_exists, fates) for job in self.jobs]


class EnqueueSegments(msgspec.Struct, frozen=True, gc=False):
    """Add the jobs of segments that were written before, in this order."""

    segments: tuple[Segment, ...]

    def __call__(self, state: QueueState) -> None:
        state.enqueue_segments(self.segments)


class EnqueueBatch(msgspec.Struct, frozen=True, gc=False):
    """Add jobs of a batch, and the job that follows when all of them are finished. Its id is the batch's."""

    then: Job
    part: Enqueue | EnqueueSegments
    now: datetime

    def __call__(self, state: QueueState) -> None:
        part = self.part
        total = len(part.jobs) if isinstance(part, Enqueue) else sum(one.count for one in part.segments)
        state.begin_batch(self.then, total)
        part(state)
        state.follow_up(self.then.id, self.now)


class FindBatch(msgspec.Struct, frozen=True, gc=False):
    """Tell how far a batch has got, or None if there is none."""

    batch_id: str

    def __call__(self, state: QueueState) -> BatchCounts | None:
        batch = state.batches.get(self.batch_id)
        return batch.counts if batch is not None else None


class LookUp(msgspec.Struct, frozen=True, gc=False):
    """Tell how a job stands, or how it ended; None if it is archived, or never was."""

    job_id: str

    def __call__(self, state: QueueState) -> Job | Ending | None:
        return state.look_up(self.job_id)


class Load(msgspec.Struct, frozen=True, gc=False):
    """Add a part of a named bulk load, unless it has landed before; tell whether it was added."""

    name: str
    mark: LoadMark
    part: Enqueue | EnqueueSegments

    def __call__(self, state: QueueState) -> bool:
        if state.loads.has(self.name, self.mark):
            return False
        self.part(state)
        state.load(self.name, self.mark)
        return True


class Dequeue(msgspec.Struct, frozen=True, gc=False):
    """Claim up to `batch_size` waiting jobs. None if there may be some, behind many that have expired."""

    entrypoint: str | None
    batch_size: int
    token: str
    now: datetime
    worker: str | None = None

    def __call__(self, state: QueueState) -> list[Job] | None:
        state.fire(self.now)
        state.wake(self.now, self.entrypoint)
        claimed: list[Job] = []
        while len(claimed) < self.batch_size:
            try:
                job = state.dequeue(self.entrypoint, self.token, self.now, self.worker)
            except MoreExpiredError:
                return claimed or None
            except (SegmentNeededError, QueueFullError) as error:
                # A short batch is better than none; but there is room to read one more segment.
                if not claimed or (isinstance(error, SegmentNeededError) and not state.shelf.is_full):
                    raise
                break
            if job is None:
                break
            claimed.append(job)
        return claimed


class Ack(msgspec.Struct, frozen=True, gc=False):
    """Finish one job; its result, if any, is JSON already."""

    claim: Claim
    now: datetime
    result: bytes = b""

    def __call__(self, state: QueueState) -> None:
        state.ack(self.claim, self.now, self.result)


class AckMany(msgspec.Struct, frozen=True, gc=False):
    """Finish every job whose claim still holds; answer with an error for each other one."""

    claims: tuple[Claim, ...]
    now: datetime

    def __call__(self, state: QueueState) -> list[JobNotFoundError]:
        refused = []
        for claim in self.claims:
            try:
                state.ack(claim, self.now)
            except JobNotFoundError as error:
                refused.append(error)
        return refused


class Nack(msgspec.Struct, frozen=True, gc=False):
    """Give one job back that failed, to be tried again now or later."""

    claim: Claim
    error: str | None
    now: datetime
    retry_in_s: float = 0.0
    trace: str | None = None

    def __call__(self, state: QueueState) -> Job:
        retry_at = self.now + timedelta(seconds=self.retry_in_s)
        return state.nack(self.claim, self.error, self.now, retry_at, self.trace)


class Bury(msgspec.Struct, frozen=True, gc=False):
    """Declare a job dead that can never succeed."""

    claim: Claim
    error: str
    now: datetime
    trace: str | None = None

    def __call__(self, state: QueueState) -> Job:
        return state.bury(self.claim, self.error, self.now, self.trace)


class Heartbeat(msgspec.Struct, frozen=True, gc=False):
    """Say that the worker of one job lives."""

    claim: Claim
    now: datetime
    progress: float | None = None
    note: str | None = None

    def __call__(self, state: QueueState) -> None:
        state.heartbeat(self.claim, self.now, self.progress, self.note)

    def after(self, earlier: "Heartbeat | None") -> "Heartbeat":
        """This one, with what an earlier one said and this one does not."""
        if earlier is None or earlier.claim != self.claim:
            return self
        progress = earlier.progress if self.progress is None else self.progress
        note = earlier.note if self.note is None else self.note
        return Heartbeat(self.claim, self.now, progress, note)


class Release(msgspec.Struct, frozen=True, gc=False):
    """Undo claims whose worker left, or (without a time) never heard of them."""

    claims: tuple[Claim, ...]
    left_at: datetime | None = None

    def __call__(self, state: QueueState) -> None:
        for claim in self.claims:
            with suppress(JobNotFoundError):
                state.release(claim, self.left_at)


class RequeueSilent(msgspec.Struct, frozen=True, gc=False):
    """Take jobs from the workers whose last heartbeat is older than a time."""

    before: datetime
    now: datetime

    def __call__(self, state: QueueState) -> int:
        silent = [
            job
            for job in state.in_progress_jobs()
            if job.heartbeat_at is None or job.heartbeat_at < self.before
        ]
        for job in silent:
            state.requeue_stale(Claim.of(job), self.now)
        return len(silent)


class Transact(msgspec.Struct, frozen=True, gc=False):
    """Several operations that land together, or none of them."""

    operations: "tuple[Operation, ...]"

    def __call__(self, state: QueueState) -> None:
        for operation in self.operations:
            operation(state)


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """Stands for an operation that was found to be wrong."""

    error: Any

    def __call__(self, state: QueueState) -> None:
        raise self.error


class Listed(NamedTuple):
    """Jobs in queue.json, and the segments in which there could be more."""

    jobs: tuple[Job, ...]
    segments: tuple[Segment, ...]


class ListInFile(msgspec.Struct, frozen=True, gc=False):
    """Tell which jobs of a status and an entrypoint are in queue.json, and where there could be more."""

    status: JobStatus | None
    entrypoint: str | None

    def __call__(self, state: QueueState) -> Listed:
        jobs = state.jobs if self.status is None else state.with_status(self.status)
        segments = tuple(one for one in state.backlog if self.status in (None, one.status))
        if self.entrypoint is not None:
            jobs = tuple(job for job in jobs if job.entrypoint == self.entrypoint)
            segments = tuple(one for one in segments if one.entrypoint == self.entrypoint)
        return Listed(jobs, segments)


class Elect(msgspec.Struct, frozen=True, gc=False):
    """Let a broker lead, if nobody does, or only one whose heart stands still."""

    broker: str
    address: str
    stale: Leader | None
    now: datetime

    def __call__(self, state: QueueState) -> Result:
        return state.elect(self.broker, self.address, self.stale, self.now)


class Beat(msgspec.Struct, frozen=True, gc=False):
    """Say that the leader lives; tell who leads."""

    broker: str
    now: datetime

    def __call__(self, state: QueueState) -> Leader | None:
        return state.beat(self.broker, self.now)


class StepDown(msgspec.Struct, frozen=True, gc=False):
    """Let nobody lead, if this broker did."""

    broker: str

    def __call__(self, state: QueueState) -> None:
        state.step_down(self.broker)


class Answers(NamedTuple):
    """The version that answered a batch, and what each operation is answered, or refused with."""

    version: int
    answers: list[Any]


class Batch(msgspec.Struct, frozen=True, gc=False):
    """A client's numbered batch: each operation by itself, all in one commit, and only once.

    `seen_version` is one that the client knew before it sent the batch for the first time.
    """

    session: str
    number: int
    seen_version: int
    # None stands for one that was answered before it came here.
    operations: "tuple[Operation | None, ...]"
    now: datetime

    def __call__(self, state: QueueState) -> Answers:
        mark = state.sessions.get(self.session)
        if mark is not None and mark.number >= self.number:
            return Answers(state.version, self._told_again(state, mark))
        if state.sessions.is_forgotten(self.session, self.seen_version):
            raise SessionForgottenError(state.version)
        before = state.changes
        answers = [operation and _attempted(state, operation) for operation in self.operations]
        if state.changes != before:
            kept = {
                str(number): kept
                for number, (operation, answer) in enumerate(zip(self.operations, answers, strict=True))
                if (kept := _to_keep(operation, answer)) is not None
            }
            state.remember(self.session, self.number, kept, self.now)
        return Answers(state.version, answers)

    def _told_again(self, state: QueueState, mark: SessionMark) -> list[Any]:
        if mark.number > self.number:
            raise OutcomeUnknownError(f"batch {self.number} is older than the last one, {mark.number}")
        held: dict[str | None, list[Job]] = {}
        for job in state.in_progress_jobs():
            held.setdefault(job.token, []).append(job)
        return [
            _from_kept(mark.answers[str(number)], state, operation)
            if str(number) in mark.answers
            else operation and _told_by(state, operation, held)
            for number, operation in enumerate(self.operations)
        ]


def _attempted(state: QueueState, operation: "Operation") -> Any:
    try:
        return state.attempt(operation)
    except SegmentNeededError:
        raise
    except BucketQError as error:
        return error


def _to_keep(operation: "Operation | None", answer: Any) -> Any:
    """What to note of an answer that the state will not tell later."""
    if isinstance(answer, BucketQError):
        return Refusal.of(answer)
    if isinstance(answer, int):
        return answer
    if isinstance(answer, list) and any(isinstance(one, BucketQError) for one in answer):
        return [Refusal.of(one) for one in answer]
    if isinstance(operation, Enqueue) and answer != [] and isinstance(answer[0], Job):
        # Other jobs had the unique keys of these.
        ids = [job.id for job in answer]
        return {"ids": ids} if ids != [job.id for job in operation.jobs] else None
    if isinstance(operation, Cancel | Redrive) and isinstance(answer, Job):
        return {"job": msgspec.to_builtins(replace(answer, payload=b"", history=()))}
    return None


def _from_kept(kept: Any, state: QueueState, operation: "Operation | None") -> Any:
    match kept:
        case {"ids": ids} if isinstance(operation, Enqueue):
            # Of one that is gone meanwhile only the id is known.
            return [
                state.find(job_id) or replace(job, id=job_id)
                for job, job_id in zip(operation.jobs, ids, strict=True)
            ]
        case {"job": job}:
            answered = msgspec.convert(job, Job)
            return state.find(answered.id) or answered
        case Refusal():
            return kept.exception()
        case [str(), *_]:
            return msgspec.convert(kept, Refusal).exception()
        case list():
            return [_from_kept(one, state, operation) for one in kept]
    return kept


def _told_by(state: QueueState, operation: "Operation", held: dict[str | None, list[Job]]) -> Any:
    """The answer of an operation that was applied before, by how things stand now; None if unknown."""
    match operation:
        case Enqueue():
            return [state.find(job.id) or _ended(state, job) for job in operation.jobs]
        case Dequeue():
            # There was nothing, or all of it is lost again. Whoever asked has to ask anew.
            return held.get(operation.token)
        case Nack() | Bury():
            job = state.find(operation.claim.job_id)
            return job if job is not None and job.token is None else None
        case AckMany():
            return []
        case PutSchedule():
            return state.schedules.get(operation.schedule.name)
        case Refresh() | Count() | Find() | FindBatch() | LookUp() | ListSchedules() | ReadLimits():
            return operation(state)
    return None


def _ended(state: QueueState, job: Job) -> Job:
    """A new job that is gone already: it may have waited for one that did not succeed."""
    line = line_of(state.ledger.lines(), job.id) if job.after else None
    if line is None or Ending.of_line(line).status is not FinishedStatus.CANCELLED:
        return job
    return replace(job, status=JobStatus.BLOCKED, is_cancelled=True, error=Ending.of_line(line).error)


Operation = (
    Refresh
    | Count
    | Find
    | Enqueue
    | EnqueueSegments
    | EnqueueBatch
    | FindBatch
    | LookUp
    | Load
    | Dequeue
    | Ack
    | AckMany
    | Nack
    | Bury
    | Heartbeat
    | Release
    | RequeueSilent
    | Cancel
    | Redrive
    | Discard
    | SettleMany
    | Spill
    | Merge
    | Seal
    | DropArchived
    | Expire
    | ForgetExpired
    | ReadLedger
    | Collect
    | PutSchedule
    | RemoveSchedule
    | ListSchedules
    | Fire
    | Transact
    | ListInFile
    | Refuse
    | Elect
    | Beat
    | StepDown
    | Batch
    | Pause
    | Resume
    | SetLimit
    | ReadLimits
)


# Has an operation committed and brings its answer.
Submit = Callable[[Operation], Awaitable[Any]]


def enqueued_by(operation: Operation) -> list[Job]:
    """The jobs that the operation brings with it."""
    match operation:
        case Enqueue():
            return list(operation.jobs)
        case EnqueueBatch():
            return enqueued_by(operation.part)
        case Transact():
            return [job for part in operation.operations for job in enqueued_by(part)]
    return []


def knowing(operation: Operation, finished: Mapping[str, bool]) -> Operation:
    """The operation, if it adds jobs that wait for others, with how those ended."""
    match operation:
        case Enqueue():
            return replace(operation, finished=tuple({**dict(operation.finished), **finished}.items()))
        case EnqueueBatch(part=Enqueue() as part):
            known = replace(part, finished=tuple({**dict(part.finished), **finished}.items()))
            return replace(operation, part=known)
        case Transact():
            return Transact(tuple(knowing(part, finished) for part in operation.operations))
    return operation


def bytes_of(operation: Operation) -> int:
    """About how much the operation carries: payloads, results, errors."""
    match operation:
        case Enqueue():
            return sum(len(job.payload) for job in operation.jobs)
        case EnqueueBatch():
            return len(operation.then.payload) + bytes_of(operation.part)
        case PutSchedule():
            return len(operation.schedule.job.payload)
        case Ack():
            return len(operation.result)
        case Nack() | Bury():
            return len(operation.error or "") + len(operation.trace or "")
        case Transact():
            return sum(map(bytes_of, operation.operations))
    return 0


def claims_of(operation: Operation) -> Iterator[Claim]:
    """The claims by which the operation's caller speaks, as a sign that a worker lives."""
    match operation:
        case Ack() | Nack() | Bury() | Heartbeat():
            yield operation.claim
        case AckMany():
            yield from operation.claims
        case Transact() | Batch():
            for part in operation.operations:
                if part is not None:
                    yield from claims_of(part)
