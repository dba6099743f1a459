"""SegmentLines: the content of a segment's object, written once and read.

    {"format":1,"entrypoint":"mail","jobs":[
    {"id":"…","entrypoint":"mail","created_at":"…","seq":1,"json":{"to":"alice"}},
    …
    ]}

Which of its lines still count, and how their jobs stand, is told by the segment's entry in
queue.json: see `segment`.
"""

from bisect import bisect_left
from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from bucketq.errors import NewerFormatError
from bucketq.fingerprint import fingerprint, pack
from bucketq.job import Attempt, Count, Job, JobStatus, id_range
from bucketq.jobline import UNREADABLE, decode_job, encode_job, line_bytes
from bucketq.segment import Hold, Key, Segment, is_plain, key_of, lost

FORMAT = 1

_KEY = b'"key":'


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
        self._is_plain = True
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
            plain=is_plain(job),
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
    ) -> None:
        """Add the next jobs, as lines, with the first and the last place and a range of their ids.

        `shared` are their limit key and their tenant, if those of all of them are the same;
        `plain` says that `is_plain` is true of all of them.
        """
        lowest, highest = id_range(ids)
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
        is_old = segment.hold is not None or segment.crash is not None
        if is_old or entry != (last + 1, 0, 0, (), [key_of(job) for job in jobs]):
            raise lost(segment, "its entry says something else")
        if segment.plain and not all(map(is_plain, self.jobs(segment))):
            raise lost(segment, "its jobs are not as plain as its entry says")
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
            job = replace(job, sequence=job.sequence + base, turn=job.turn + turn_base)
        if segment.hold is not None:
            return _claimed(job, segment.hold)
        return job if segment.crash is None else _crashed(job, segment.crash)


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
