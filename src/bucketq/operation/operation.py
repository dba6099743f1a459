"""Operation: any of them; and those that are made of others."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from bucketq.backlog import SegmentNeededError
from bucketq.errors import BucketQError, OutcomeUnknownError, SessionForgottenError
from bucketq.job import Claim, Job
from bucketq.new_job import with_trace
from bucketq.operation.adoption import Adopt
from bucketq.operation.arrivals import Enqueue, EnqueueBatch, EnqueueSegments, Load
from bucketq.operation.brokers import Beat, Elect, StepDown
from bucketq.operation.chores import (
    Collect,
    DropArchived,
    Expire,
    ForgetExpired,
    Merge,
    ReadLedger,
    Seal,
    SortOut,
    Spill,
)
from bucketq.operation.claims import (
    Ack,
    AckMany,
    Bury,
    Crash,
    Dequeue,
    Heartbeat,
    HeartbeatMany,
    Nack,
    Release,
    RequeueSilent,
    Wake,
)
from bucketq.operation.limits import Pause, ReadLimits, Resume, SetLimit
from bucketq.operation.lookups import Count, Find, FindBatch, ListInFile, LookUp, Refresh
from bucketq.operation.retelling import from_kept, to_keep, told_by
from bucketq.operation.schedules import Fire, ListSchedules, PutSchedule, RemoveSchedule
from bucketq.operation.segment_claims import DequeueSegment, HeartbeatSegment, ReleaseSegment, SettleSegment
from bucketq.operation.settlements import Cancel, Discard, Redrive, SettleMany
from bucketq.refusal import Refusal
from bucketq.segment_lines import Question
from bucketq.sessions import SessionMark
from bucketq.state import QueueState
from bucketq.trace_context import TraceContext

# Of one client's batch: others wait until all of them are applied.
BATCH_OPERATIONS_MAX = 5000
# What is kept of the answers of a client's last batch, and the key of what stands for all of them.
_KEPT_BYTES_MAX = 256 * 1024
_ALL = "all"


class Transact(msgspec.Struct, frozen=True, gc=False):
    """Several operations that land together, or none of them."""

    operations: "tuple[Operation, ...]"

    def __call__(self, state: QueueState) -> None:
        for operation in self.operations:
            operation(state)


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
        answers = [operation and self._attempted(state, operation) for operation in self.operations]
        if state.changes != before:
            kept = {
                str(number): kept
                for number, (operation, answer) in enumerate(zip(self.operations, answers, strict=True))
                if (kept := to_keep(operation, answer)) is not None
            }
            if len(msgspec.json.encode(kept)) > _KEPT_BYTES_MAX:
                # Every commit would write them, so a client that did not hear them is not told again.
                unknown = OutcomeUnknownError("the answers of this batch are too long to be told again")
                kept = {_ALL: Refusal.of(unknown)}
            state.remember(self.session, self.number, kept, self.now)
        return Answers(state.version, answers)

    def _told_again(self, state: QueueState, mark: SessionMark) -> list[Any]:
        if mark.number > self.number:
            raise OutcomeUnknownError(f"batch {self.number} is older than the last one, {mark.number}")
        if _ALL in mark.answers:
            raise from_kept(mark.answers[_ALL], state, None)
        held: dict[str | None, list[Job]] = {}
        for job in state.in_progress_jobs():
            held.setdefault(job.token, []).append(job)
        sent = [one.operation if isinstance(one, Refuse) else one for one in self.operations]
        return [
            from_kept(mark.answers[str(number)], state, operation)
            if str(number) in mark.answers
            else operation and told_by(state, operation, held)
            for number, operation in enumerate(sent)
        ]

    def _attempted(self, state: QueueState, operation: "Operation") -> Any:
        try:
            return state.attempt(operation)
        except SegmentNeededError:
            # Only a dequeue may need any number of segments, and its caller can ask again. So it must not
            # hold up the other operations for long. Its progress is kept.
            if not isinstance(operation, Dequeue | DequeueSegment) or state.shelf.findings.may_wait:
                raise
            for wake in wakes_of(operation):
                state.attempt(wake)
            return None
        except BucketQError as error:
            return error


class Refuse(msgspec.Struct, frozen=True, gc=False):
    """Stands for an operation that was found to be wrong, and that may have been right when it was sent."""

    error: Any
    operation: Any

    def __call__(self, state: QueueState) -> None:
        raise self.error


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
    | Adopt
    | Dequeue
    | Wake
    | Ack
    | AckMany
    | Nack
    | Bury
    | Crash
    | Heartbeat
    | HeartbeatMany
    | Release
    | RequeueSilent
    | DequeueSegment
    | HeartbeatSegment
    | SettleSegment
    | ReleaseSegment
    | Cancel
    | Redrive
    | Discard
    | SettleMany
    | Spill
    | Merge
    | SortOut
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
        case Adopt():
            return operation.jobs
        case Transact():
            return [job for part in operation.operations for job in enqueued_by(part)]
    return []


def questions_of(operation: Operation) -> Iterator[Question]:
    """The jobs that the operation may look for in segments."""
    match operation:
        case LookUp():
            yield Question(operation.job_id)
        case Enqueue() | Adopt():
            for job in operation.jobs:
                yield from map(Question, job.after)
                if job.key is not None:
                    yield Question(job.key, "key")
                if job.payload_object is not None:
                    yield Question(job.payload_object, "payload_object")
        case EnqueueSegments():
            yield from (Question(name, "payload_object") for name in operation.payloads)
        case EnqueueBatch() | Load():
            yield from questions_of(operation.part)
        case Cancel() | Redrive() | Discard():
            yield Question(operation.job_id)
        case SettleSegment():
            yield from (Question(outcome.claim.job_id) for outcome in operation.failed)
        case SettleMany():
            for one in operation.parts:
                yield from questions_of(one)
        case Transact() | Batch():
            for part in operation.operations:
                if part is not None:
                    yield from questions_of(part)


def wakes_of(operation: Operation) -> Iterator[Wake]:
    """What can be done ahead for an operation that needs another segment."""
    match operation:
        case Dequeue():
            yield Wake(operation.wanted, operation.now)
        case DequeueSegment():
            yield Wake(operation.entrypoint, operation.now)
        case Batch():
            for part in operation.operations:
                if part is not None:
                    yield from wakes_of(part)


def within(operation: Operation, trace: TraceContext) -> Operation:
    """The operation, with the jobs that it adds in a trace, but for those that are in one already."""
    match operation:
        case Enqueue() if trace.traceparent is not None:
            jobs = (job if job.traceparent else with_trace(job, trace) for job in operation.jobs)
            return replace(operation, jobs=tuple(jobs))
        case Transact():
            return Transact(tuple(within(part, trace) for part in operation.operations))
    return operation


def knowing(operation: Operation, finished: Mapping[str, bool]) -> Operation:
    """The operation, if it adds jobs that wait for others, with how those ended."""
    match operation:
        case Enqueue() | Adopt():
            return replace(operation, finished=tuple({**dict(operation.finished), **finished}.items()))
        case EnqueueBatch():
            return replace(operation, part=knowing(operation.part, finished))
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
        case Adopt():
            return sum(len(job.payload) for job in operation.jobs)
        case PutSchedule():
            return len(operation.schedule.job.payload)
        case Ack():
            return len(operation.result)
        case AckMany():
            return sum(map(len, operation.results))
        case Nack() | Bury():
            return len(operation.error or "") + len(operation.trace or "")
        case Transact():
            return sum(map(bytes_of, operation.operations))
        case SettleSegment():
            return sum(map(bytes_of, operation.failed))
    return 0


def operations_in(operation: Operation) -> int:
    """How many operations it stands for: those of a client's batch, or itself."""
    return len(operation.operations) if isinstance(operation, Batch) else 1


def claims_of(operation: Operation) -> Iterator[Claim]:
    """The claims by which the operation's caller speaks, as a sign that a worker lives."""
    match operation:
        case Ack() | Nack() | Bury() | Heartbeat() | HeartbeatSegment() | SettleSegment():
            yield operation.claim
        case AckMany():
            yield from operation.claims
        case HeartbeatMany():
            yield from (beat.claim for beat in operation.beats)
        case Transact() | Batch():
            for part in operation.operations:
                if part is not None:
                    yield from claims_of(part)
