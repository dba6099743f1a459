"""The record of a simulated run: what callers asked and were told, what the bucket saw."""

import hashlib
import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise

from msgspec.structs import replace

from bucketq import (
    CASConflictError,
    JobNotFoundError,
    JobStatus,
    OutcomeUnknownError,
    QueueState,
    StorageError,
)
from bucketq.archived_job import kept_payloads
from bucketq.codec import decode, encode
from bucketq.jobline import decode_job
from bucketq.limits import Limits
from bucketq.segment import key_of


@dataclass
class Call:
    """One call of one actor: asked at `began_s`, answered at `ended_s`, or never.

    `about` holds what was asked, claims as pairs of job id and token; `result` the ids of
    added jobs, or the claims that were handed out.
    """

    number: str
    process: str
    kind: str
    about: tuple
    began_s: float
    ended_s: float | None = None
    result: object = None
    payloads: dict[str, bytes] = field(default_factory=dict)
    damages: list = field(default_factory=list)
    # Claims that their holder has given back at no cost, or called the end of their worker.
    given_back: list = field(default_factory=list)
    crashed: list = field(default_factory=list)
    error: BaseException | None = None
    is_cancelled: bool = False

    @property
    def is_ok(self):
        return self.ended_s is not None and self.error is None

    @property
    def is_refused(self):
        """Whether the caller was told that nothing has happened."""
        certain = (JobNotFoundError, CASConflictError, StorageError)
        return isinstance(self.error, certain) and not isinstance(self.error, OutcomeUnknownError)

    def __str__(self):
        outcome = "no answer" if self.ended_s is None else self.error or self.result
        ended = f"{self.ended_s:.3f}" if self.ended_s is not None else "…"
        about = ", ".join(map(str, self.about))
        return (
            f"{self.began_s:9.3f} to {ended} {self.process} #{self.number} {self.kind}({about}): {outcome!r}"
        )


@dataclass
class Version:
    """The queue after one write, as one whole: with the jobs of its segments and all payloads."""

    at_s: float
    by: str
    state: QueueState
    # The objects beside the queue that it needs, and those that were there when it was written.
    needs: frozenset = frozenset()
    beside: frozenset = frozenset()
    # Segments that do not hold as many jobs as the queue says.
    miscounts: list[str] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)

    @cached_property
    def jobs(self):
        """Every job by its ID. A state sorts its jobs each time, and a dozen checkers ask."""
        return {job.id: job for job in self.state.jobs}

    @classmethod
    def of(cls, at_s, by, content, objects, beside=None):
        """Put together what was written and the objects, by name, that it refers to.

        Which were there beside it is taken for granted where nobody could look.
        """
        written = decode(content)
        needs = {name for segment in written.backlog for name in segment.objects}
        jobs, miscounts = list(written.jobs), []
        for segment in written.backlog:
            left = [
                _as_it_stands(job, segment)
                for job in _jobs_of(objects[segment.name], segment.status, segment.base, segment.turn_base)
                if segment.still_holds(key_of(job))
            ]
            if len(left) != segment.count:
                miscounts.append(f"{len(left)} jobs are left in {segment}")
            jobs += left
        for number, job in enumerate(jobs):
            if job.payload_object is not None:
                needs.add(job.payload_object)
                jobs[number] = replace(job, payload=objects[job.payload_object])
        needs |= {payload for payload, _ in kept_payloads(written.ledger.lines())}
        needs |= {part.name for part in written.ledger.parts()}
        state = QueueState(
            jobs,
            version=written.version,
            sequence=written.sequence,
            enqueued_total=written.enqueued_total,
            completed_total=written.completed_total,
            dead_total=written.dead_total,
            cancelled_total=written.cancelled_total,
            signatures=written.signatures,
            epoch=written.epoch,
        )
        there = needs if beside is None else beside
        return cls(at_s, by, state, frozenset(needs), there, miscounts, written.limits)


def _as_it_stands(job, segment):
    """A job with what its segment's entry says of all its jobs."""
    if hold := segment.hold:
        held = {"token": hold.token, "worker": hold.worker, "heartbeat_at": hold.heartbeat_at}
        return replace(job, status=JobStatus.IN_PROGRESS, attempts=job.attempts + 1, **held)
    if crash := segment.crash:
        return replace(job, attempts=job.attempts + 1, crashes=1, error=crash.error, history=(crash,))
    return job


@lru_cache(1000)
def _jobs_of(content, status, base, turn_base):
    """Every job that a segment's object was written with, as its entry places it."""
    stored = [decode_job(line.removesuffix(b","), "a segment") for line in content.split(b"\n")[1:-2]]
    return [
        replace(job, status=status, sequence=job.sequence + base, turn=job.turn + turn_base) for job in stored
    ]


@dataclass
class Record:
    """All that the checkers look at."""

    seed: int
    stale_after_s: float
    patience_s: float
    calls: dict[str, Call] = field(default_factory=dict)
    versions: list[Version] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    is_drained: bool = False
    damage: str | None = None
    # When the storm was over, in virtual time.
    calm_s: float = math.inf
    ended_s: float = 0.0
    survivors: set[str] = field(default_factory=set)
    # Which objects beside the queue were removed, and when; which were left when all was over.
    removals: list = field(default_factory=list)
    # What a reader of the archive finds when all is over, and what it could not read.
    archived: list = field(default_factory=list)
    damages: list = field(default_factory=list)
    left_over: set[str] = field(default_factory=set)

    def read_bucket(self, bucket):
        self.versions = [Version(0.0, "nobody", QueueState())]
        for landed in bucket.landings:
            whole = Version.of(landed.at_s, landed.by, landed.content, bucket.created, landed.beside)
            self.versions.append(whole)
        self.removals = bucket.removals
        self.left_over = set(bucket.objects)

    def digest(self):
        """Equal for equal runs: everything that was asked, answered, sent and stored."""
        told = "\n".join([*map(str, self.calls.values()), *self.trace]).encode()
        stored = [encode(version.state) for version in self.versions]
        return hashlib.sha256(b"\n".join([told, *stored])).hexdigest()[:16]

    @cached_property
    def steps(self):
        """(before, after, job id, job before, job after) for each job that a write changed."""
        return [
            (before, after, job_id, before.jobs.get(job_id), after.jobs.get(job_id))
            for before, after in pairwise(self.versions)
            for job_id in {**before.jobs, **after.jobs}
            if before.jobs.get(job_id) != after.jobs.get(job_id)
        ]

    def during(self, call):
        """The versions that were current at some moment of a call."""
        ended_s = call.ended_s
        for version, following in zip(self.versions, [*self.versions[1:], None], strict=True):
            if version.at_s <= ended_s and (following is None or following.at_s >= call.began_s):
                yield version


class ViolationError(AssertionError):
    """A promise was broken; `about` names the jobs and calls that show it."""

    def __init__(self, message, *about):
        super().__init__(message)
        self.about = about
