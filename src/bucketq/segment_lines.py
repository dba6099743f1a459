"""SegmentLines: the content of a segment's object, written once and read.

    {"format":1,"entrypoint":"mail","jobs":[
    {"id":"…","entrypoint":"mail","created_at":"…","seq":1,"json":{"to":"alice"}},
    …
    ]}

Which of its lines still count, and how their jobs stand, is told by the segment's entry in
queue.json: see `segment`.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator
from itertools import islice, pairwise
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from bucketq.errors import NewerFormatError
from bucketq.fingerprint import fingerprint, pack
from bucketq.job import Attempt, Count, Job, JobStatus, id_range
from bucketq.jobline import UNREADABLE, decode_job, encode_job, line_bytes
from bucketq.segment import Hold, Key, Segment, is_plain, key_of, lost, queue_key

FORMAT = 1
# A line with an id, an entrypoint and a time is longer.
_LINE_BYTES_MIN = 40

_MENTIONED = re.compile(rb'"(?:id|key|payload_object)":"[^"\\]*(?:\\.[^"\\]*)*"')


class Question(NamedTuple):
    """Which job an operation looks for in segments: the one with this id, unique key, or payload's object."""

    text: str
    field: Literal["id", "key", "payload_object"] = "id"


class _Header(msgspec.Struct, frozen=True):
    format: Count
    entrypoint: str


class _Keyed(msgspec.Struct):
    limit_key: str | None = None


# Much faster than to decode whole jobs.
_decode_key = msgspec.json.Decoder(_Keyed).decode


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
        self._is_plain = True
        self._in_line: tuple[Key, Key] | None = None
        self.size = 0

    def add(self, job: Job) -> None:
        """Add the next job."""
        key = key_of(job)
        place = queue_key(job)
        self.add_lines(
            encode_job(job),
            count=1,
            entrypoint=job.entrypoint,
            status=job.status,
            keys=(key, key),
            ids=(job.id, job.id),
            payloads=int(job.payload_object is not None),
            shared=(job.limit_key, job.tenant) if job.status is JobStatus.QUEUED else (None, None),
            plain=is_plain(job),
            in_line=(place, place) if _knows_its_place(job) else None,
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
        plain: bool = False,
        in_line: tuple[Key, Key] | None = None,
    ) -> None:
        """Add the next jobs, as lines, with the first and the last place and a range of their ids.

        `shared` are their limit key and their tenant, if those of all of them are the same;
        `plain` says that `is_plain` is true of all of them; `in_line` is that of `Segment`.
        """
        lowest, highest = id_range(ids)
        if not self._lines:
            self._entrypoint, self._status = entrypoint, status
            self._first = keys[0]
            self._ids = lowest, highest
            self._shared = shared
            self._in_line = in_line
        elif shared != self._shared:
            limit_key, tenant = self._shared or (None, None)
            self._shared = (
                limit_key if limit_key == shared[0] else None,
                tenant if tenant == shared[1] else None,
            )
        if self._lines and self._in_line is not None:
            is_sorted = in_line is not None and self._in_line[1] < in_line[0]
            self._in_line = (self._in_line[0], in_line[1]) if in_line and is_sorted else None
        self._last = keys[1]
        self._ids = min(self._ids[0], lowest), max(self._ids[1], highest)
        self._count += count
        self._payloads += payloads
        self._is_plain = self._is_plain and plain
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
            plain=self._is_plain,
            in_line=self._in_line,
        )
        return entry, content

    @property
    def keys_content(self) -> bytes:
        """The content of the companion, if there are unique keys."""
        return pack(self._fingerprints)


class SegmentLines:
    """The content of a segment's object. Raises CorruptStateError if it is not whole."""

    def __init__(self, segment: Segment, content: bytes) -> None:
        self._segment = segment
        if len(content) != segment.size:
            raise lost(segment, f"it has {len(content)} bytes, not {segment.size}")
        # Many short lines would take much more memory than the content.
        if content.count(b"\n") > 3 + len(content) // _LINE_BYTES_MIN:
            raise lost(segment, "its lines are too short for jobs")
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
        # Found out if anybody asks.
        self._of_limit_keys: dict[str, list[int]] | None = None

    def check_new(self) -> None:
        """Raise CorruptStateError if the entry of a new segment does not fit its lines."""
        segment, last = self._segment, len(self._lines) - 1
        jobs = [self._job(number, segment) for number in (0, last)] if self._lines else []
        entry = segment.count, segment.base, segment.turn_base, segment.holes, [segment.first, segment.last]
        is_old = segment.hold is not None or segment.crash is not None
        if is_old or entry != (last + 1, 0, 0, (), [key_of(job) for job in jobs]):
            raise lost(segment, "its entry says something else")
        if segment.in_line is not None:
            all_jobs = list(self.jobs(segment))
            places = [queue_key(job) for job in all_jobs]
            is_sorted = all(one < next_one for one, next_one in pairwise(places))
            if (
                not is_sorted
                or not all(map(_knows_its_place, all_jobs))
                or segment.in_line != (places[0], places[-1])
            ):
                raise lost(segment, "its jobs are not sorted as its entry says")

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
                in_line = segment.in_line and (queue_key(job), segment.in_line[1])
                return taken, replace(segment, count=segment.count - len(taken), first=key, in_line=in_line)
            taken.append(job)
            size += line_bytes(job)
        if len(taken) != segment.count:
            raise lost(segment, f"{len(taken)} jobs are left in it, not {segment.count}")
        return taken, None

    def limit_keys(self, segment: Segment) -> dict[str, Key]:
        """Where the jobs of each limit key began when the segment was written; "" stands for no limit key."""
        first = {key: numbers[0] for key, numbers in self._by_limit_key().items()}
        return {key: key_of(self._job(number, segment)) for key, number in first.items()}

    def first_of_key(self, segment: Segment, limit_key: str, number: int) -> list[Job]:
        """The next jobs of a limit key that are still in the segment."""
        lines = self._by_limit_key().get(limit_key, [])
        start = bisect_left(lines, segment.first, key=lambda line: key_of(self._job(line, segment)))
        jobs = (self._job(line, segment) for line in lines[start:])
        return list(islice((job for job in jobs if segment.still_holds(key_of(job))), number))

    def _by_limit_key(self) -> dict[str, list[int]]:
        """The lines of each limit key."""
        if self._of_limit_keys is None:
            self._of_limit_keys = {}
            for number, line in enumerate(self._lines):
                try:
                    limit_key = _decode_key(line.removesuffix(b",")).limit_key
                except UNREADABLE as error:
                    raise lost(self._segment, str(error)) from error
                self._of_limit_keys.setdefault(limit_key or "", []).append(number)
        return self._of_limit_keys

    def find(self, segment: Segment, job_id: str) -> Job | None:
        """The job with this id, if it is still in the segment."""
        written = self.search([Question(job_id)])
        return still_in(segment, written[Question(job_id)]) if written else None

    def search(self, questions: Collection[Question]) -> dict[Question, Job]:
        """The jobs that were written to the segment with these ids, keys or payloads, as they were then."""
        needles = {b'"%b":%b' % (one.field.encode(), msgspec.json.encode(one.text)): one for one in questions}
        found: dict[Question, Job] = {}
        for line in self._lines:
            # They may stand within a payload, too.
            for question in [needles[text] for text in _MENTIONED.findall(line) if text in needles]:
                job = decode_job(line.removesuffix(b","), f"segment {self._segment.name}")
                if question.text == getattr(job, question.field):
                    found[question] = job
        return found

    def without(self, segment: Segment, gone: Job) -> Segment | None:
        """What is left of the segment when a job that is in it leaves."""
        jobs = self.jobs(segment)
        if segment.count == 1 or next(jobs).id != gone.id:
            return segment.without(gone)
        # The first one leaves no hole.
        following = next(jobs)
        in_line = segment.in_line and (queue_key(following), segment.in_line[1])
        return replace(segment, count=segment.count - 1, first=key_of(following), in_line=in_line)

    def _job(self, number: int, segment: Segment) -> Job:
        written = decode_job(self._lines[number].removesuffix(b","), f"segment {self._segment.name}")
        return as_entry_says(written, segment)


def _knows_its_place(job: Job) -> bool:
    """Whether a scheduled job will stand where it was enqueued. A turn is given when it comes into line."""
    return job.status is JobStatus.SCHEDULED and job.tenant is None and not job.turn


def still_in(segment: Segment, written: Job) -> Job | None:
    """A job that was written to a segment, as it stands now, if it is still in it."""
    job = as_entry_says(written, segment)
    return job if segment.still_holds(key_of(job)) else None


def as_entry_says(written: Job, segment: Segment) -> Job:
    """A job as it stands now, of its line in a segment's object."""
    job, base, turn_base = written, segment.base, segment.turn_base
    if base or turn_base:
        job = replace(job, sequence=job.sequence + base, turn=job.turn + turn_base)
    if segment.hold is not None:
        return _claimed(job, segment.hold)
    if segment.crash is not None:
        return _crashed(job, segment.crash)
    # A segment of scheduled jobs becomes one of waiting jobs when all of them are due.
    is_due = job.status is JobStatus.SCHEDULED and segment.status is JobStatus.QUEUED
    return replace(job, status=JobStatus.QUEUED) if is_due else job


def _claimed(job: Job, hold: Hold) -> Job:
    return replace(
        job,
        status=JobStatus.IN_PROGRESS,
        attempts=job.attempts + 1,
        token=hold.token,
        worker=hold.worker,
        # Clocks may differ, but no job is claimed before it was made.
        claimed_at=max(hold.claimed_at, job.created_at),
        heartbeat_at=hold.heartbeat_at,
    )


def _crashed(job: Job, crash: Attempt) -> Job:
    claimed_at = max(crash.claimed_at, job.created_at)
    crash = replace(crash, claimed_at=claimed_at, ended_at=max(crash.ended_at, claimed_at))
    return replace(job, attempts=1, crashes=1, error=crash.error, history=(crash,))
