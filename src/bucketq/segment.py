"""Segment: jobs of one entrypoint and status in an object of their own, sorted, never changed.

    {"format":1,"entrypoint":"mail","jobs":[
    {"id":"…","entrypoint":"mail","created_at":"…","seq":1,"json":{"to":"alice"}},
    …
    ]}

The object never changes, but jobs leave it. What is left is told by its entry in queue.json:
those from `first` on, without the `holes`. In a segment that was loaded in bulk the lines
count from 1, and the commit that took it in set the `base` to be added. (Where several loaded
together, a part each, the base begins with the jobs of the parts before.)
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from bucketq.errors import CorruptStateError, NewerFormatError
from bucketq.fingerprint import fingerprint, pack
from bucketq.job import Count, Job, JobStatus
from bucketq.jobline import UNREADABLE, decode_job, encode_job, line_bytes
from bucketq.object_name import SegmentName, keys_name

FORMAT = 1

# Enough of an id for its time stamp, if it is a UUIDv7.
_ID_PREFIX = 13

Key = tuple[int, int, int]

_KEY = b'"key":'
# Looking a member up in its class is slow.
_SCHEDULED = JobStatus.SCHEDULED
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def key_of(job: Job) -> Key:
    """What decides a job's place in its line: its turn, or the time for which it is scheduled."""
    if job.status is _SCHEDULED and job.run_at is not None:
        return due_key(job.run_at)[0], 0, job.sequence
    return job.priority, job.turn, job.sequence


def due_key(moment: datetime) -> Key:
    """The first place in the line of scheduled jobs of those for this time."""
    return (moment - _EPOCH) // _MICROSECOND, 0, 0


def due_moment(key: Key) -> datetime:
    """The time for which the scheduled job at this place is."""
    return _EPOCH + key[0] * _MICROSECOND


class Segment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One entry of the manifest in queue.json."""

    name: SegmentName
    entrypoint: str
    status: JobStatus = JobStatus.QUEUED
    # The jobs that are still in it, and the bytes of the whole object.
    count: Annotated[int, Meta(ge=1)]
    size: Count
    # No job in it comes before `first`, none after `last`.
    first: Key
    last: Key
    # The beginnings of its smallest and its largest job id.
    ids: tuple[str, str]
    base: Count = 0
    # The places in line of jobs that left it one by one.
    holes: tuple[int, ...] = ()
    # How many of its jobs have their payload in an object.
    payloads: Count = 0
    # What all of its jobs have in common, if they wait; and what is to be added to their turns.
    limit_key: str | None = None
    tenant: str | None = None
    turn_base: Count = 0
    # How many unique keys it came with; then their fingerprints are in its companion.
    keys: Count = 0

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
        return self.ids[0] <= job_id[:_ID_PREFIX] <= self.ids[1]

    def still_holds(self, key: Key) -> bool:
        """Whether the job at this place, which was in it once, is still in it."""
        return self.first <= key and key[2] not in self.holes

    def moved(self, base: int, turn_base: int = 0) -> "Segment":
        """The same segment further back in line."""
        return replace(
            self,
            base=self.base + base,
            turn_base=self.turn_base + turn_base,
            first=(self.first[0], self.first[1] + turn_base, self.first[2] + base),
            last=(self.last[0], self.last[1] + turn_base, self.last[2] + base),
        )


class SegmentKeys(NamedTuple):
    """The companion of a segment: the fingerprints of its unique keys."""

    segment: Segment

    @property
    def name(self) -> str:
        """The name of its object."""
        return keys_name(self.segment.name)


# What a transition may have to wait for.
Needed = Segment | SegmentKeys


class _Header(msgspec.Struct, frozen=True):
    format: Count
    entrypoint: str


class SegmentWriter:
    """Collects the jobs of one segment, at least one, which come in order."""

    def __init__(self) -> None:
        self._entrypoint = ""
        self._status = JobStatus.QUEUED
        self._lines: list[bytes] = []
        self._first = self._last = (0, 0, 0)
        self._ids = "", ""
        self._count = self._payloads = 0
        self._fingerprints: list[int] = []
        self._shared: tuple[str | None, str | None] | None = None
        self.size = 0

    def add(self, job: Job) -> None:
        """Add the next job."""
        key = key_of(job)
        self.add_lines(
            encode_job(job),
            count=1,
            entrypoint=job.entrypoint,
            status=job.status,
            keys=(key, key),
            ids=(job.id, job.id),
            payloads=int(job.payload_object is not None),
            shared=(job.limit_key, job.tenant) if job.status is JobStatus.QUEUED else (None, None),
        )
        # The dead do not hold their keys.
        if job.key is not None and job.status is not JobStatus.DEAD:
            self._fingerprints.append(fingerprint(job.key))

    def add_lines(
        self,
        lines: bytes,
        *,
        count: int,
        entrypoint: str,
        keys: tuple[Key, Key],
        ids: tuple[str, str],
        payloads: int,
        status: JobStatus = JobStatus.QUEUED,
        shared: tuple[str | None, str | None] = (None, None),
    ) -> None:
        """Add the next jobs, as lines, with the first and the last place and a range of their ids.

        `shared` are their limit key and their tenant, if those of all of them are the same.
        """
        lowest, highest = (job_id[:_ID_PREFIX] for job_id in ids)
        if not self._lines:
            self._entrypoint, self._status = entrypoint, status
            self._first = keys[0]
            self._ids = lowest, highest
            self._shared = shared
        elif shared != self._shared:
            limit_key, tenant = self._shared or (None, None)
            self._shared = (
                limit_key if limit_key == shared[0] else None,
                tenant if tenant == shared[1] else None,
            )
        self._last = keys[1]
        self._ids = min(self._ids[0], lowest), max(self._ids[1], highest)
        self._count += count
        self._payloads += payloads
        self._lines.append(lines)
        self.size += len(lines) + 2

    def finish(self, name: str) -> tuple[Segment, bytes]:
        """The manifest's entry, and the object's content."""
        header = msgspec.json.encode(_Header(FORMAT, self._entrypoint))
        content = b"".join((header[:-1], b',"jobs":[\n', b",\n".join(self._lines), b"\n]}\n"))
        entry = Segment(
            name=name,
            entrypoint=self._entrypoint,
            status=self._status,
            count=self._count,
            size=len(content),
            first=self._first,
            last=self._last,
            ids=self._ids,
            payloads=self._payloads,
            keys=len(self._fingerprints),
            limit_key=self._shared and self._shared[0],
            tenant=self._shared and self._shared[1],
        )
        return entry, content

    @property
    def keys_content(self) -> bytes:
        """The content of the companion, if there are unique keys."""
        return pack(self._fingerprints)


class SegmentLines:
    """The content of a segment's object. Raises CorruptStateError if it is not whole."""

    def __init__(self, segment: Segment, content: bytes) -> None:
        self.size = len(content)
        self._segment = segment
        if len(content) != segment.size:
            raise lost(segment, f"it has {len(content)} bytes, not {segment.size}")
        first, *lines = content.split(b"\n")
        try:
            header = msgspec.json.decode(first + b"]}", type=_Header)
        except UNREADABLE as error:
            raise lost(segment, str(error)) from error
        if header.format > FORMAT:
            raise NewerFormatError(
                f"segment {segment.name} has format {header.format}; this bucketq knows formats up to"
                f" {FORMAT}. Upgrade bucketq to read it. Nothing was changed."
            )
        if header.entrypoint != segment.entrypoint or lines[-2:] != [b"]}", b""]:
            raise lost(segment, "it is not what queue.json says it is")
        self._lines = lines[:-2]

    def check_new(self) -> None:
        """Raise CorruptStateError if the entry of a new segment does not fit to its lines."""
        segment, last = self._segment, len(self._lines) - 1
        jobs = [self._job(number, segment) for number in (0, last)] if self._lines else []
        entry = segment.count, segment.base, segment.turn_base, segment.holes, [segment.first, segment.last]
        if entry != (last + 1, 0, 0, (), [key_of(job) for job in jobs]):
            raise lost(segment, "its entry says something else")
        limit_key, tenant = segment.limit_key, segment.tenant
        if any(limit_key not in (None, job.limit_key) or tenant not in (None, job.tenant) for job in jobs):
            raise lost(segment, "its jobs do not have in common what its entry says")
        for number, line in enumerate(self._lines):
            if _KEY in line and self._job(number, segment).key is not None:
                raise lost(segment, "jobs with unique keys are enqueued one by one")

    def jobs(self, segment: Segment) -> Iterator[Job]:
        """The jobs that are still in the segment, in order."""
        holes = frozenset(segment.holes)
        start = bisect_left(
            range(len(self._lines)), segment.first, key=lambda number: key_of(self._job(number, segment))
        )
        for number in range(start, len(self._lines)):
            job = self._job(number, segment)
            if job.sequence not in holes:
                yield job

    def take(
        self, segment: Segment, jobs_max: int, bytes_max: int, until: Key | None
    ) -> tuple[list[Job], Segment | None]:
        """The next jobs, at least one, and what is left of the segment then.

        No more than a number of them, or of bytes, and none that stands behind `until`.
        """
        taken: list[Job] = []
        size = 0
        for job in self.jobs(segment):
            key = key_of(job)
            is_enough = len(taken) >= jobs_max or size >= bytes_max or (until is not None and key > until)
            if taken and is_enough and segment.count > len(taken):
                return taken, replace(segment, count=segment.count - len(taken), first=key)
            taken.append(job)
            size += line_bytes(job)
        if len(taken) != segment.count:
            raise lost(segment, f"{len(taken)} jobs are left in it, not {segment.count}")
        return taken, None

    def find(self, segment: Segment, job_id: str) -> Job | None:
        """The job with this id, if it is still in the segment."""
        needle = msgspec.json.encode(job_id)
        for number, line in enumerate(self._lines):
            if needle in line:
                job = self._job(number, segment)
                if job.id == job_id and segment.still_holds(key_of(job)):
                    return job
        return None

    def find_key(self, segment: Segment, key: str) -> Job | None:
        """The job with this unique key, if it is still in the segment."""
        needle = _KEY + msgspec.json.encode(key)
        for number, line in enumerate(self._lines):
            if needle in line:
                job = self._job(number, segment)
                if job.key == key and segment.still_holds(key_of(job)):
                    return job
        return None

    def without(self, segment: Segment, gone: Job) -> Segment | None:
        """What is left of the segment when a job that is in it leaves."""
        if segment.count == 1:
            return None
        jobs = self.jobs(segment)
        if next(jobs).id == gone.id:
            return replace(segment, count=segment.count - 1, first=key_of(next(jobs)))
        return replace(segment, count=segment.count - 1, holes=(*segment.holes, gone.sequence))

    def mentions(self, job_id: str) -> bool:
        """False if the job was certainly never in it."""
        needle = msgspec.json.encode(job_id)
        return any(needle in line for line in self._lines)

    def _job(self, number: int, segment: Segment) -> Job:
        job = decode_job(self._lines[number].removesuffix(b","), f"segment {self._segment.name}")
        base, turn_base = segment.base, segment.turn_base
        if base or turn_base:
            return replace(job, sequence=job.sequence + base, turn=job.turn + turn_base)
        return job


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
