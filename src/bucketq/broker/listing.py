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

# What is not waiting comes first, by age; then the waiting jobs, in the order of their turns.
Place = tuple[bool, int, int]
_START: Place = (False, -(1 << 62), 0)


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
    unread = sorted((one for one in listed.segments if (True, *one.last) > after), key=_first, reverse=True)
    # One more than fits tells whether there is another page.
    found = nsmallest(size + 1, pool, key=_place)
    while unread and (len(found) <= size or (True, *unread[-1].first) < _place(found[-1])):
        jobs = await queue.read_segment(unread.pop())
        found = nsmallest(size + 1, [*found, *(job for job in jobs if _place(job) > after)], key=_place)
    page = found[:size]
    return Page(page, _token(_place(page[-1])) if len(found) > size else "")


def _first(segment: Segment) -> tuple[int, int]:
    return segment.first


def _place(job: Job) -> Place:
    if job.status is JobStatus.QUEUED:
        return (True, *key_of(job))
    return False, 0, job.sequence


def _token(place: Place) -> str:
    return f"{place[0]:d}.{place[1]}.{place[2]}"


def _place_of_token(token: str) -> Place:
    if not token:
        return _START
    try:
        waiting, priority, sequence = map(int, token.split("."))
    except ValueError:
        raise ConfigurationError(f"{token!r} is no page token of this queue") from None
    return bool(waiting), priority, sequence
