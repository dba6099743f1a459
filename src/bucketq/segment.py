"""Segment: jobs of one entrypoint and status in an object of their own, sorted, never changed.

`segment_lines` writes the object and reads it. That never changes, but jobs leave it. What is left
is told by its entry in queue.json: those from `first` on, without the `holes`. In a
segment that was loaded in bulk the lines count from 1, and the commit that took it in set the `base`
to be added. (Where several loaded together, a part each, the base begins with the jobs of the parts
before.)

What happens to all of its jobs at once is told there too. While one worker has claimed them all,
the entry has a `hold`; if that worker died, a `crash`.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from bucketq.errors import CorruptStateError
from bucketq.job import INTEGER_MAX, Attempt, Count, Job, JobStatus, Moment, Whole, is_within
from bucketq.ledger import StagedPart
from bucketq.object_name import SegmentName, keys_name

Key = tuple[Whole, Whole, Whole]

# Looking a member up in its class is slow.
_QUEUED, _SCHEDULED = JobStatus.QUEUED, JobStatus.SCHEDULED
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Of the year 828, and the last moment of all.
_FIRST_US, _LAST_US = -(1 << 55), (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def key_of(job: Job) -> Key:
    """What decides a job's place in its line: its turn, or the time for which it is scheduled."""
    if job.status is _SCHEDULED and job.run_at is not None:
        return due_key(job.run_at)[0], 0, job.sequence
    return queue_key(job)


def queue_key(job: Job) -> Key:
    """The place of a job among the waiting ones."""
    return job.priority, job.turn, job.sequence


def due_key(moment: datetime) -> Key:
    """The first place in the line of scheduled jobs of those for this time."""
    return (moment - _EPOCH) // _MICROSECOND, 0, 0


def due_moment(key: Key) -> datetime:
    """The time for which the scheduled job at this place is."""
    return _EPOCH + max(_FIRST_US, min(key[0], _LAST_US)) * _MICROSECOND


def is_plain(job: Job) -> bool:
    """Whether a waiting job is an untried one of which nothing special was asked.

    A job that may crash only once is not: were it claimed with others, one would end all of them.
    """
    return (
        job.status is _QUEUED
        and not (job.attempts or job.history or job.turn or job.timeout_s)
        and job.key is job.limit_key is job.tenant is job.batch is None
        and job.payload_object is None
        and job.expires_at is None
        and job.max_crashes > 1
    )


class Hold(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One worker's claim on all jobs of a segment."""

    token: str
    worker: str | None = None
    claimed_at: Moment
    heartbeat_at: Moment


class Segment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One entry of the manifest in queue.json."""

    name: SegmentName
    entrypoint: str
    status: JobStatus = JobStatus.QUEUED
    # The jobs that are still in it, and the bytes of the whole object.
    count: Annotated[int, Meta(ge=1, le=INTEGER_MAX)]
    size: Count
    # No job in it comes before `first`, none after `last`.
    first: Key
    last: Key
    # The beginnings of its smallest and its largest job id.
    ids: tuple[str, str]
    base: Count = 0
    # The places in line of jobs that left it one by one.
    holes: tuple[Whole, ...] = ()
    # How many of its jobs have their payload in an object.
    payloads: Count = 0
    # What all of its jobs have in common, if they wait; and what is to be added to their turns.
    limit_key: str | None = None
    tenant: str | None = None
    turn_base: Count = 0
    # How many unique keys it came with; then their fingerprints are in its companion.
    keys: Count = 0
    # Whether all its jobs are plain; such a segment can be claimed as a whole.
    plain: bool = False
    # Who has claimed it, while it is in progress; the attempt that all its jobs have behind them.
    hold: Hold | None = None
    crash: Attempt | None = None
    # The first and the last place that its scheduled jobs will have in the queue, if they are sorted by those
    # places too. Then it becomes a segment of waiting jobs as it is, when all its jobs are due.
    in_line: tuple[Key, Key] | None = None

    @property
    def objects(self) -> list[str]:
        """The objects that it consists of."""
        return [self.name, keys_name(self.name)] if self.keys else [self.name]

    @property
    def may_have_turns(self) -> bool:
        """False if certainly none of its jobs has a turn, so that they stand in the order of enqueueing."""
        return bool(self.first[1] or self.last[1] or self.first[0] < self.last[0])

    def may_hold(self, job_id: str) -> bool:
        """False if the job is certainly not in it."""
        return is_within(self.ids, job_id)

    def still_holds(self, key: Key) -> bool:
        """Whether the job at this place, which was in it once, is still in it."""
        return self.first <= key and key[2] not in self.holes

    def is_left_of(self, before: "Segment") -> bool:
        """Whether this is an earlier entry, but for jobs that have left it since."""
        left = replace(before, count=self.count, first=self.first, holes=self.holes, in_line=self.in_line)
        since = self.first >= before.first and self.holes[: len(before.holes)] == before.holes
        return since and self == left

    def without(self, gone: Job) -> "Segment | None":
        """What is left of the segment when a job that is in it leaves."""
        if self.count == 1:
            return None
        return replace(self, count=self.count - 1, holes=(*self.holes, gone.sequence))

    def moved(self, base: int, turn_base: int = 0) -> "Segment":
        """The same segment further back in line."""

        def move(key: Key) -> Key:
            return key[0], key[1] + turn_base, key[2] + base

        return replace(
            self,
            base=self.base + base,
            turn_base=self.turn_base + turn_base,
            first=move(self.first),
            last=move(self.last),
            in_line=self.in_line and (move(self.in_line[0]), move(self.in_line[1])),
        )


class SegmentKeys(NamedTuple):
    """The companion of a segment: the fingerprints of its unique keys."""

    segment: Segment

    @property
    def name(self) -> str:
        """The name of its object."""
        return keys_name(self.segment.name)


class DueSegment(NamedTuple):
    """A segment of scheduled jobs, whose jobs up to `until` have to be sorted into waiting ones."""

    segment: Segment
    until: Key

    @property
    def name(self) -> str:
        """The name of its object."""
        return self.segment.name


# What a transition may have to wait for.
Needed = Segment | SegmentKeys | StagedPart | DueSegment


def lost(segment: Segment, reason: str) -> CorruptStateError:
    """The error for a segment whose jobs cannot be read, with the ways out."""
    # The dead are counted as finished already.
    is_dead = segment.status is JobStatus.DEAD
    return CorruptStateError(
        f"segment {segment.name}, with {segment.count} {segment.status.value} jobs of"
        f" {segment.entrypoint!r}, cannot be read: {reason}. Restore the object from a backup or an older"
        " version; or, to give its jobs up, stop every process, delete the segment's line in queue.json"
        f"{'' if is_dead else f' and lower enqueued_total by {segment.count}'}. Nothing was changed."
    )
