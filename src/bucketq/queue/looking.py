"""Looking: how jobs and the whole queue stand."""

from bucketq.batches import BatchCounts
from bucketq.codec import decode
from bucketq.errors import ConfigurationError, CorruptStateError, ObjectNotFoundError
from bucketq.job import Claim, Job
from bucketq.operation import Count, Find, FindBatch
from bucketq.queue.channel import Channel
from bucketq.segment import Segment, SegmentLines, lost
from bucketq.side_objects import unreachable
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
        job_id = Claim.of(job).job_id
        missing = None
        while True:
            found: Job | list[Segment] = await self._submit(Find(job_id))
            if isinstance(found, Job):
                return found
            try:
                return await self._find_in(found, job_id)
            except ObjectNotFoundError as error:
                # Used up meanwhile, unless the queue still names it.
                if missing == found:
                    raise CorruptStateError(f"a segment of the backlog is gone: {error}") from error
                missing = found

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

    async def read_state(self) -> QueueState:
        """Read the whole queue as it is now, with every segment of its backlog.

        The snapshot is yours: nothing changes it. With a deep backlog it is large; for the
        numbers alone there is `stats`, for one job `find`.
        """
        seen = None
        while True:
            content, etag = await self.storage.read()
            if etag is None:
                return QueueState()
            state = decode(content, describe(self.storage))
            try:
                await self._read_backlog(state)
                return state
            except ObjectNotFoundError as error:
                # Used up since queue.json was read, unless that still says the same.
                if seen == etag:
                    raise lost(next(iter(state.backlog)), str(error)) from error
                seen = etag

    async def read_file(self) -> QueueState:
        """Read queue.json as it is now, without the segments of its backlog.

            state = await q.read_file()
            print(state.leader, state.size, len(state.backlog))

        It costs the same however many jobs wait; `state.stats` counts those in segments too.
        """
        content, etag = await self.storage.read()
        return QueueState() if etag is None else decode(content, describe(self.storage))

    async def _read_backlog(self, state: QueueState) -> None:
        for segment in tuple(state.backlog):
            if self._objects is None:
                raise unreachable("waiting jobs are")
            state.shelf.put(segment, await self._objects.read(segment.name))
            state.absorb(segment)

    async def _find_in(self, segments: list[Segment], job_id: str) -> Job | None:
        # One by one, and none is kept: there may be many.
        for segment in segments:
            if self._objects is None:
                raise unreachable("waiting jobs are")
            lines = SegmentLines(segment, await self._objects.read(segment.name))
            if job := lines.find(segment, job_id):
                return job
        return None

    async def _segment_of(self, segments: list[Segment], job_id: str) -> Segment | None:
        for segment in segments:
            if await self._find_in([segment], job_id):
                return segment
        return None
