"""Looking: how jobs and the whole queue stand."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import timedelta

from bucketq.batches import BatchCounts
from bucketq.codec import decode
from bucketq.duration import Duration, seconds_of
from bucketq.errors import ConfigurationError, ObjectNotFoundError
from bucketq.job import Claim, Job, JobStatus
from bucketq.listing import PAGE_SIZE, PAGE_SIZE_MAX, Chosen, Page, list_jobs, list_page
from bucketq.operation import Count, Find, FindBatch, Listed, ListInFile
from bucketq.patience import Patience
from bucketq.queue.channel import Channel
from bucketq.retry import EXPONENTIAL
from bucketq.segment import Segment
from bucketq.segment_lines import SegmentLines
from bucketq.side_objects import LiveSegments, unreachable
from bucketq.state import QueueState, Stats
from bucketq.storage.port import describe


class Looking(Channel):
    """Reading without changing anything."""

    async def stats(self) -> Stats:
        """How many jobs there are, and were; costs at most one read of queue.json."""
        stats: Stats = await self._submit(Count())
        return stats

    async def find(self, job: Job | str) -> Job | None:
        """The job as it stands now, or None if it is not in the queue (any more).

        A large payload is left where it is; `fetch_payload` gets it. By the id of a batch the job
        that follows is found, blocked while the batch runs.
        """
        find = Find(Claim.of(job).job_id)
        return await self._find(find.job_id, lambda: self._submit(find))

    async def read_job(self, job: Job | str) -> Job | None:
        """The same for those who may only read, as tools do that look at other people's queues.

        It reads queue.json itself, and never does the chores that others have left.
        """
        find = Find(Claim.of(job).job_id)

        async def look() -> Job | list[Segment]:
            return find(await self.read_file())

        return await self._find(find.job_id, look)

    async def batch(self, batch_id: str) -> BatchCounts | None:
        """How far a batch has got, or None when the job that followed it is finished too.

        total, left, failed = await q.batch(job.batch)
        """
        counts: BatchCounts | None = await self._submit(FindBatch(batch_id))
        return counts

    async def fetch_payload(self, job: Job) -> bytes:
        """The payload of a job that was found or listed. Raises ObjectNotFoundError if it is gone."""
        if not isinstance(job, Job):
            raise ConfigurationError(f"fetch_payload takes the Job that find or read_state gave, not {job!r}")
        return (await self._payloads.read(job)).payload

    async def jobs(
        self,
        *,
        status: JobStatus | str | None = None,
        entrypoint: str | None = None,
        older_than: Duration | None = None,
        text: str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Job]:
        """The jobs that wait, run or are dead: those that run first, then each status in its order.

            async for job in q.jobs(status="queued", older_than=3600, limit=20):
                print(job.id, job.entrypoint, job.created_at)

        `older_than` is the least time since a job was enqueued; `text` stands in what it tells, such
        as its error, note, key or payload (unless that is a large one), in capitals or not. Segments are
        read as the list gets to them. What changes meanwhile may be missed, or told as it was. Raises
        ConfigurationError.
        """
        if limit is not None and (not isinstance(limit, int) or limit < 1):
            raise ConfigurationError(f"limit is a whole number from 1, or None, not {limit!r}")
        before = None
        if older_than is not None:
            before = self._clock.now() - timedelta(seconds=seconds_of(older_than, "older_than"))
        told = 0
        chosen = Chosen(_status(status), entrypoint, before, text)
        async for job in list_jobs(lambda: self._list_in_file(chosen), self.read_segment, chosen):
            yield job
            told += 1
            if told == limit:
                return

    async def page(
        self,
        token: str = "",
        *,
        size: int = PAGE_SIZE,
        status: JobStatus | str | None = None,
        entrypoint: str | None = None,
        text: str | None = None,
    ) -> Page:
        """One page of what `jobs` lists, and the token that asks for the next one.

            page = await q.page(status="queued", text="alice")
            while page.next_token:
                page = await q.page(page.next_token, status="queued", text="alice")

        A page costs the same wherever it is. With a `text` no more than 20,000 jobs are looked at for
        it, so it may be short, even empty, while its token says that there are more to look at.
        Raises ConfigurationError.
        """
        if not isinstance(size, int) or not 1 <= size <= PAGE_SIZE_MAX:
            raise ConfigurationError(f"size is a whole number from 1 to {PAGE_SIZE_MAX}, not {size!r}")
        chosen = Chosen(_status(status), entrypoint, None, text)
        return await list_page(lambda: self._list_in_file(chosen), self.read_segment, chosen, size, token)

    async def read_state(self) -> QueueState:
        """Read the whole queue as it is now, with every segment of its backlog.

        The snapshot is yours: nothing changes it. With a deep backlog it is large; for the
        numbers alone there is `stats`, for one job `find`.
        """
        segments = LiveSegments(self.read_segment)
        while True:
            state = await self.read_file()
            try:
                for segment in tuple(state.backlog):
                    state.shelf.put(segment, await segments.read(segment))
                    state.absorb(segment)
                return state
            except ObjectNotFoundError:
                continue

    async def read_file(self) -> QueueState:
        """Read queue.json as it is now, without the segments of its backlog.

            state = await q.read_file()
            print(state.leader, state.size, len(state.backlog))

        It costs the same however many jobs wait; `state.stats` counts those in segments too.
        """
        content, etag = await self._read_queue()
        return QueueState() if etag is None else decode(content, describe(self.storage))

    async def _read_queue(self) -> tuple[bytes, str | None]:
        patience = Patience(self.settings.retry_for_s, EXPONENTIAL, self._clock, self._mint)
        return await patience.insist(self._storage.read)

    async def _list_in_file(self, chosen: Chosen) -> Listed:
        return ListInFile(chosen.status, chosen.entrypoint)(await self.read_file())

    async def read_segment(self, segment: Segment) -> bytes:
        """The content of a segment's object. Raises ObjectNotFoundError."""
        if self._objects is None:
            raise unreachable("jobs are")
        return await self._objects.read(segment.name)

    async def _find(self, job_id: str, look: Callable[[], Awaitable[Job | list[Segment]]]) -> Job | None:
        segments = LiveSegments(self.read_segment)
        while True:
            found = await look()
            if isinstance(found, Job):
                return found
            try:
                held = await find_in(found, segments, job_id)
            except ObjectNotFoundError:
                continue
            return held and held[0]


async def find_in(
    possible: Iterable[Segment], segments: LiveSegments[bytes], job_id: str
) -> tuple[Job, Segment] | None:
    """The job, and the segment in which it is, of those in which it could be. Raises ObjectNotFoundError."""
    # One by one, and none is kept: there may be many.
    for segment in possible:
        if job := SegmentLines(segment, await segments.read(segment)).find(segment, job_id):
            return job, segment
    return None


def _status(status: JobStatus | str | None) -> JobStatus | None:
    try:
        return None if status is None else JobStatus(status)
    except ValueError:
        known = ", ".join(JobStatus)
        raise ConfigurationError(f"a job in the queue is {known}; there is no status {status!r}") from None
