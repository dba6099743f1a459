"""Export: a whole queue, line by line, with few of its jobs in memory.

A queue is not still while it is read. What stands in queue.json is read at once, but a segment may be
used up before its turn has come; then the queue is looked at again:

    look ──▶ jobs, in their order ──▶ all segments were there ──▶ done
      ▲                           └─▶ one was gone ──▶ the rest ─┐
      └───── again, for jobs that were not told, in segments that were not read ◀──┘

So each job that was there all the time is told once, whatever moved meanwhile. One that is finished by
the time at which its payload is asked for may be told or not.
"""

from collections.abc import AsyncIterator, Callable
from datetime import datetime

import msgspec
from msgspec.structs import replace

from bucketq.archive import Archive
from bucketq.batches import NamedBatch
from bucketq.errors import ObjectNotFoundError
from bucketq.job import Job, JobStatus
from bucketq.listing import Chosen, list_jobs
from bucketq.operation import Listed, ListInFile
from bucketq.queue import Queue
from bucketq.segment import Segment
from bucketq.segment_claim import given_back
from bucketq.state import QueueState
from bucketq.storage.port import Bucket
from bucketq.told import JobTold
from bucketq.transfer.line import FORMAT, Beginning, End, Finished, Item, encode_line

OnProgress = Callable[[str, int, int], object]
_TOLD_EVERY = 1000


async def export(
    queue: Queue,
    *,
    finished: bool = False,
    now: datetime | None = None,
    on_progress: OnProgress = lambda what, done, total: None,
) -> AsyncIterator[bytes]:
    """The lines of an export, each with its end; `finished` adds the jobs of the archive.

    async for line in export(queue):
        file.write(line)
    """
    state = await queue.read_file()
    total = state.stats.total
    yield _line(Beginning(bucketq_export=FORMAT, version=state.version, jobs=total, exported_at=now))
    if state.limits:
        yield _line(state.limits)
    for schedule in state.schedules:
        yield _line(schedule)
    for batch_id, batch in state.batches:
        if batch.then is not None:
            if (then := await _whole(queue, batch.then)) is None:
                continue
            batch = replace(batch, then=then)
        yield _line(NamedBatch(batch_id, batch))
    told = 0
    async for job in live_jobs(queue, state):
        if job.is_cancelled:
            continue
        if job.status is JobStatus.IN_PROGRESS:
            job = _waiting(job)
        if (whole := await _whole(queue, job)) is None:
            continue
        yield _line(whole)
        told += 1
        if told % _TOLD_EVERY == 0:
            on_progress("jobs", told, max(total, told))
    on_progress("jobs", told, told)
    archived = 0
    if finished and isinstance(queue.storage, Bucket):
        async for ended in Archive(queue.storage).jobs():
            yield _line(Finished(msgspec.json.encode(JobTold.of_archived(ended))))
            archived += 1
            if archived % _TOLD_EVERY == 0:
                on_progress("finished", archived, max(state.completed_total, archived))
    yield _line(End(jobs=told, finished=archived))


async def live_jobs(queue: Queue, state: QueueState) -> AsyncIterator[Job]:
    """Each job that is in the queue from this state on, wherever it moves; blocked ones last."""
    told: set[int] = set()
    blocked: list[Job] = []
    passed = _Pass(queue, state)
    while True:
        async for job in list_jobs(passed.look, passed.read, Chosen()):
            if job.sequence in told:
                continue
            told.add(job.sequence)
            if job.status is JobStatus.BLOCKED:
                blocked.append(job)
            else:
                yield job
        if passed.looks == 1:
            break
        passed = _Pass(queue, await queue.read_file(), passed.seen)
    # Those that others wait for were enqueued before them.
    for job in sorted(blocked, key=lambda job: job.sequence):
        yield job


class _Pass:
    """One pass over a queue, from a first look on; without the segments that were seen by earlier ones."""

    def __init__(self, queue: Queue, state: QueueState, seen: frozenset[str] = frozenset()) -> None:
        self.looks = 0
        self._queue = queue
        self._first: QueueState | None = state
        self._seen = seen
        # Jobs may have moved into later ones, to places that the pass had left behind by then.
        self._at_first = {segment.name for segment in state.backlog}
        self._read: set[str] = set()

    @property
    def seen(self) -> frozenset[str]:
        """The segments of which all jobs were told, or have gone elsewhere."""
        return self._seen | self._read & self._at_first

    async def look(self) -> Listed:
        """The jobs in queue.json, and the segments."""
        self.looks += 1
        state, self._first = self._first or await self._queue.read_file(), None
        listed = ListInFile(None, None)(state)
        return listed._replace(segments=tuple(one for one in listed.segments if one.name not in self._seen))

    async def read(self, segment: Segment) -> bytes:
        """The content of a segment. Raises ObjectNotFoundError."""
        content = await self._queue.read_segment(segment)
        self._read.add(segment.name)
        return content


def _waiting(job: Job) -> Job:
    """A job that runs, as if its worker had given it back."""
    return replace(given_back([job])[0], progress=None, note=None)


async def _whole(queue: Queue, job: Job) -> Job | None:
    """A job with its payload, wherever that is; None if both are gone. Raises ObjectNotFoundError."""
    if job.payload_object is None:
        return job
    try:
        payload = await queue.fetch_payload(job)
    except ObjectNotFoundError:
        if await queue.read_job(job) is None:
            return None
        raise
    return replace(job, payload=payload, payload_object=None, payload_size=0)


def _line(item: Beginning | Item) -> bytes:
    return encode_line(item) + b"\n"
