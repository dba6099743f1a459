"""Listing: the live jobs of a queue in a settled order, without reading more segments than are looked at.

    queue.json   ─ sorted ──────────┐
    segment 1    ─ sorted already ──┼─ merged ──▶ those that run, then each status, each line in its order
    segment 2    ─ not read before its first job's turn has come

Between two looks at the queue jobs may move: what changes meanwhile may be missed, or told as it was.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from heapq import heappop, heappush, heapreplace
from itertools import count
from typing import NamedTuple

from msgspec.structs import replace

from bucketq.archived_job import ArchivedJob
from bucketq.errors import ConfigurationError, ObjectNotFoundError
from bucketq.job import Job, JobStatus
from bucketq.operation import Listed
from bucketq.segment import Segment, key_of
from bucketq.segment_lines import SegmentLines
from bucketq.side_objects import LiveSegments

# One status after the other, each line in its order.
Place = tuple[int, int, int, int]
START: Place = (-1, 0, 0, 0)

_RANKS = {
    JobStatus.IN_PROGRESS: 0,
    JobStatus.QUEUED: 1,
    JobStatus.SCHEDULED: 2,
    JobStatus.BLOCKED: 3,
    JobStatus.DEAD: 4,
}
# After so many jobs the others on the event loop have their turn.
_JOBS_AT_A_STRETCH = 50

PAGE_SIZE = 100
PAGE_SIZE_MAX = 1000
# A page comes soon, however few jobs have what is searched; who wants to goes on from there.
LOOKED_MAX = 20_000


class Chosen(NamedTuple):
    """Which jobs somebody asks for."""

    status: JobStatus | None = None
    entrypoint: str | None = None
    created_before: datetime | None = None
    text: str | None = None

    def has(self, job: Job) -> bool:
        """Whether a job of the status and the entrypoint is one of them."""
        if self.created_before is not None and job.created_at >= self.created_before:
            return False
        return self.text is None or mentions(job, self.text)


class Page(NamedTuple):
    """Some jobs, how many were looked at for them, and the token that asks for the next ones.

    There are no more when the token is empty.
    """

    jobs: list[Job]
    next_token: str
    looked: int


async def list_jobs(
    look: Callable[[], Awaitable[Listed]], read: Callable[[Segment], Awaitable[bytes]], chosen: Chosen
) -> AsyncIterator[Job]:
    """The chosen jobs. Raises CorruptStateError.

    `look` tells those in queue.json of the status and the entrypoint, and the segments of more.
    """
    async for job in _walk(look, read, START):
        if chosen.has(job):
            yield job


async def list_page(
    look: Callable[[], Awaitable[Listed]],
    read: Callable[[Segment], Awaitable[bytes]],
    chosen: Chosen,
    size: int,
    token: str,
) -> Page:
    """The first of the chosen jobs behind the place of a token, of no more than LOOKED_MAX jobs."""
    last = _place_of_token(token)
    jobs: list[Job] = []
    looked = 0
    async for job in _walk(look, read, last):
        if len(jobs) == size or looked == LOOKED_MAX:
            return Page(jobs, _token_of(last), looked)
        looked += 1
        last = place_of(job)
        if chosen.has(job):
            jobs.append(job)
    return Page(jobs, "", looked)


async def _walk(
    look: Callable[[], Awaitable[Listed]], read: Callable[[Segment], Awaitable[bytes]], after: Place
) -> AsyncIterator[Job]:
    segments = LiveSegments(read)
    seen = 0
    while True:
        listed = await look()
        line = _Line(listed, after)
        while line:
            if (segment := line.next_unread()) is not None:
                try:
                    line.add(segment, await segments.read(segment))
                except ObjectNotFoundError:
                    break
                continue
            job = line.pop()
            after = place_of(job)
            yield job
            seen += 1
            if seen % _JOBS_AT_A_STRETCH == 0:
                await asyncio.sleep(0)
        else:
            return


def mentions(job: Job | ArchivedJob, text: str) -> bool:
    """Whether a text stands in what a job tells, in capitals or not; large payloads are not looked into.

    >>> from datetime import UTC
    >>> job = Job(id="1", entrypoint="mail", payload='{"to":"Änne"}'.encode(), created_at=datetime.now(UTC))
    >>> mentions(job, "MAIL"), mentions(job, "änne"), mentions(job, "anne")
    (True, True, False)
    """
    wanted = text.lower()
    note = job.note if isinstance(job, Job) else None
    names = (job.id, job.entrypoint, job.worker, job.key, job.tenant, job.limit_key, job.traceparent)
    if any(wanted in one.lower() for one in (*names, note, job.error) if one):
        return True
    if wanted.isascii():
        return wanted.encode() in job.payload.lower()
    # Only as text has it such capitals.
    return wanted in job.payload.decode(errors="replace").lower()


def place_of(job: Job) -> Place:
    """Where a job stands in the list."""
    return (_RANKS[job.status], *key_of(job))


def _token_of(place: Place) -> str:
    return ".".join(map(str, place))


def _place_of_token(token: str) -> Place:
    if not token:
        return START
    try:
        rank, first, second, sequence = map(int, token.split("."))
    except (ValueError, AttributeError):
        raise ConfigurationError(f"{token!r} is no page token of this queue") from None
    return rank, first, second, sequence


class _Line:
    """The jobs of a queue behind a place: those in queue.json, and in segments that are read in time."""

    def __init__(self, listed: Listed, after: Place) -> None:
        self._after = after
        self._numbers = count()
        # The next job of each source, and those that follow it there.
        self._heads: list[tuple[Place, int, Job, Iterator[Job]]] = []
        self._unread = sorted((one for one in listed.segments if _last(one) > after), key=_first)
        self._unread.reverse()
        self._add(sorted(listed.jobs, key=place_of))

    def __bool__(self) -> bool:
        return bool(self._heads or self._unread)

    def next_unread(self) -> Segment | None:
        """The segment that has to be read now, if any."""
        if self._unread and (not self._heads or _first(self._unread[-1]) < self._heads[0][0]):
            return self._unread.pop()
        return None

    def add(self, segment: Segment, content: bytes) -> None:
        """Bring in the jobs of a segment."""
        rank, *key = self._after
        if rank == _RANKS[segment.status]:
            # Those before it need not even be decoded.
            first, second, third = key
            segment = replace(segment, first=max(segment.first, (first, second, third)))
        self._add(SegmentLines(segment, content).jobs(segment))

    def pop(self) -> Job:
        """The next job."""
        _, number, job, rest = self._heads[0]
        follower = next(rest, None)
        if follower is None:
            heappop(self._heads)
        else:
            heapreplace(self._heads, (place_of(follower), number, follower, rest))
        return job

    def _add(self, jobs: Iterable[Job]) -> None:
        behind = (job for job in jobs if place_of(job) > self._after)
        if (job := next(behind, None)) is not None:
            heappush(self._heads, (place_of(job), next(self._numbers), job, behind))


def _first(segment: Segment) -> Place:
    return (_RANKS[segment.status], *segment.first)


def _last(segment: Segment) -> Place:
    return (_RANKS[segment.status], *segment.last)
