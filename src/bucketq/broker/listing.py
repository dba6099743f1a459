"""Listing the jobs of a queue page by page."""

from typing import NamedTuple

from bucketq.broker.served import ServedQueue
from bucketq.errors import ConfigurationError
from bucketq.job import Job, JobStatus
from bucketq.listing import START, Chosen, Place, place_of

PAGE_SIZE = 100
PAGE_SIZE_MAX = 1000


class Page(NamedTuple):
    """Some jobs, and the token that asks for the next ones; it is empty on the last page."""

    jobs: list[Job]
    next_token: str


async def list_page(
    queue: ServedQueue, status: JobStatus | None, entrypoint: str | None, page_size: int, token: str
) -> Page:
    """One page of the jobs. What changes between two pages may be missed, or seen as it was."""
    size = min(page_size or PAGE_SIZE, PAGE_SIZE_MAX)
    page: list[Job] = []
    async for job in queue.jobs_behind(_place_of_token(token), Chosen(status, entrypoint)):
        if len(page) == size:
            return Page(page, _token(place_of(page[-1])))
        page.append(job)
    return Page(page, "")


def _token(place: Place) -> str:
    return ".".join(map(str, place))


def _place_of_token(token: str) -> Place:
    if not token:
        return START
    try:
        rank, first, second, sequence = map(int, token.split("."))
    except ValueError:
        raise ConfigurationError(f"{token!r} is no page token of this queue") from None
    return rank, first, second, sequence
