"""Listing the jobs of a queue page by page, without reading more segments than a page needs."""

from heapq import nsmallest
from typing import NamedTuple

from bucketq.broker.served import ServedQueue
from bucketq.errors import ConfigurationError, ObjectNotFoundError
from bucketq.job import Job, JobStatus
from bucketq.operation import Listed
from bucketq.segment import Segment, key_of

PAGE_SIZE = 100
PAGE_SIZE_MAX = 1000

# One status after the other, each line in its order.
Place = tuple[int, int, int, int]
_START: Place = (-1, 0, 0, 0)
_RANKS = {
    JobStatus.IN_PROGRESS: 0,
    JobStatus.QUEUED: 1,
    JobStatus.SCHEDULED: 2,
    JobStatus.BLOCKED: 3,
    JobStatus.DEAD: 4,
}


class Page(NamedTuple):
    """Some jobs, and the token that asks for the next ones; it is empty on the last page."""

    jobs: list[Job]
    next_token: str


async def list_jobs(
    queue: ServedQueue, status: JobStatus | None, entrypoint: str | None, page_size: int, token: str
) -> Page:
    """One page of the jobs. What changes between two pages may be missed, or seen as it was."""
    size = min(page_size or PAGE_SIZE, PAGE_SIZE_MAX)
    after = _place_of_token(token)
    while True:
        listed = await queue.list_in_file(status, entrypoint)
        try:
            return await _page(queue, listed, size, after)
        except ObjectNotFoundError:
            # Used up since; if it is not, the queue is damaged and says so.
            if await queue.list_in_file(status, entrypoint) == listed:
                raise


async def _page(queue: ServedQueue, listed: Listed, size: int, after: Place) -> Page:
    pool = [job for job in listed.jobs if _place(job) > after]
    unread = sorted((one for one in listed.segments if _last(one) > after), key=_first, reverse=True)
    # One more than fits tells whether there is another page.
    found = nsmallest(size + 1, pool, key=_place)
    while unread and (len(found) <= size or _first(unread[-1]) < _place(found[-1])):
        jobs = await queue.read_segment(unread.pop())
        found = nsmallest(size + 1, [*found, *(job for job in jobs if _place(job) > after)], key=_place)
    page = found[:size]
    return Page(page, _token(_place(page[-1])) if len(found) > size else "")


def _first(segment: Segment) -> Place:
    return (_RANKS[segment.status], *segment.first)


def _last(segment: Segment) -> Place:
    return (_RANKS[segment.status], *segment.last)


def _place(job: Job) -> Place:
    return (_RANKS[job.status], *key_of(job))


def _token(place: Place) -> str:
    return ".".join(map(str, place))


def _place_of_token(token: str) -> Place:
    if not token:
        return _START
    try:
        rank, first, second, sequence = map(int, token.split("."))
    except ValueError:
        raise ConfigurationError(f"{token!r} is no page token of this queue") from None
    return rank, first, second, sequence
