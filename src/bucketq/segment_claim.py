"""SegmentClaim: one worker's hold on a whole segment, and what it writes about the jobs in it.

    dequeue_segment ──▶ claim ──▶ claim.jobs(the object's content) ── each job is worked on
                                        │ completed ──▶ CompletedJobs ──▶ staged objects
                                        │ failed ─────▶ Nack, Bury or Crash
                                        └ not begun ──▶ `given_back` ───▶ new segments
    settle_segment(claim, completed, failed, rest) ── one small commit names all of it

All of it can be pickled, and needs no queue: the work may be dealt out to other processes,
each of which reads the object and writes its own.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from bucketq.archive_name import hour_of
from bucketq.archived_job import RESULT_BYTES_MAX, FinishedStatus, decode_said, encode_archived
from bucketq.errors import ConfigurationError, CorruptStateError
from bucketq.job import Claim, Job, JobStatus, id_range
from bucketq.jobline import is_json_line
from bucketq.ledger import StagedPart, batch_content
from bucketq.new_job import NAME_MAX
from bucketq.object_name import staged_name
from bucketq.segment import Hold, Segment, key_of
from bucketq.segment_lines import SegmentLines, SegmentWriter

# The archive is kept by days. A worker whose clock is wrong by more than that is refused.
_CLOCKS_DIFFER = timedelta(days=1)


class SegmentClaim(msgspec.Struct, frozen=True):
    """A segment that was claimed as a whole.

    `version` is one of the queue from then: it goes into the names of the objects that are written
    for the claim.
    """

    segment: Segment
    version: int

    @property
    def hold(self) -> Hold:
        """Since when the claim is, by which token and whose."""
        assert self.segment.hold is not None
        return self.segment.hold

    @property
    def claim(self) -> Claim:
        """What the holder shows."""
        return Claim(self.segment.name, self.hold.token)

    def jobs(self, content: bytes) -> list[Job]:
        """The claimed jobs, in order, of the content of the segment's object. Raises CorruptStateError."""
        return list(SegmentLines(self.segment, content).jobs(self.segment))


class CompletedJobs:
    """Collects the lines of completed jobs for the archive, by the hour in which they finished."""

    def __init__(self) -> None:
        self._hours: dict[str, list[tuple[str, bytes]]] = {}

    def add(self, job: Job, now: datetime, result: bytes = b"") -> None:
        """A job of a claimed segment is done; `result`, if any, is JSON."""
        claimed_at = job.claimed_at or now
        # Clocks may differ, but no job is finished before it was claimed.
        finished_at = max(now, claimed_at)
        line = encode_archived(job, FinishedStatus.COMPLETED, claimed_at, finished_at, result=result)
        self._hours.setdefault(hour_of(finished_at), []).append((job.id, line))

    def finish(self, version: int, token: Callable[[], str]) -> list[tuple[StagedPart, bytes]]:
        """The entries of the objects, one for each hour, and their contents."""
        parts = []
        for hour, jobs in self._hours.items():
            content = batch_content(line for _, line in jobs)
            part = StagedPart(
                name=staged_name(version, token()),
                hour=hour,
                count=len(jobs),
                size=len(content),
                ids=id_range(job_id for job_id, _ in jobs),
            )
            parts.append((part, content))
        return parts


class SettlementCheck:
    """Compares what a worker wrote about the jobs of its segment with these jobs.

    Each job must have exactly one outcome. A worker decides when a completed job finished, and its result.
    All else in a line must be what bucketq itself would write for the job. Every method raises
    ConfigurationError, and yields after each job, so that a caller can let others have their turn.
    """

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        # By id; one that was enqueued twice is there twice.
        self._left: dict[str, list[Job]] = {}

    def load(self, content: bytes) -> Iterator[None]:
        """Take in the jobs of the segment, from the content of its object."""
        for job in SegmentLines(self._segment, content).jobs(self._segment):
            self._left.setdefault(job.id, []).append(job)
            yield

    def completed(self, part: StagedPart, content: bytes, now: datetime) -> Iterator[None]:
        """Check a staged object."""
        ids = []
        for line in part.lines(content):
            try:
                said = decode_said(line)
            except CorruptStateError as error:
                raise self._refusal(f"{part.name} has a line that is {error}") from error
            job = self._take(said.id)
            assert job.claimed_at is not None
            ids.append(job.id)
            latest = max(now, job.claimed_at) + _CLOCKS_DIFFER
            if not job.claimed_at <= said.finished_at <= latest or hour_of(said.finished_at) != part.hour:
                raise self._refusal(
                    f"job {job.id} must have finished in the hour {part.hour} of its object, from"
                    f" {job.claimed_at} to {latest}, got {said.finished_at}. Check the clock of the worker."
                )
            result = bytes(said.result)
            if len(result) > RESULT_BYTES_MAX or (result and not is_json_line(b"[%b]" % result)):
                raise self._refusal(
                    f"the result of job {job.id} must be JSON of up to {RESULT_BYTES_MAX} bytes in one line"
                )
            status = FinishedStatus.COMPLETED
            if line != encode_archived(job, status, job.claimed_at, said.finished_at, result=result):
                raise self._refusal(f"{part.name} does not describe job {job.id} as it is in the queue")
            yield
        if part.ids != id_range(ids):
            raise self._refusal(f"{part.name} does not have the ids that its entry names")

    def failed(self, job_ids: Iterable[str]) -> None:
        """Check the jobs that are settled by themselves."""
        for job_id in job_ids:
            self._take(job_id)

    def rest(self, part: Segment, content: bytes) -> Iterator[None]:
        """Check a segment with jobs that were not begun."""
        jobs = []
        for job in SegmentLines(part, content).jobs(part):
            jobs.append(self._take(job.id))
            yield
        writer = SegmentWriter()
        for job in given_back(jobs):
            writer.add(job)
            yield
        if not jobs or writer.finish(part.name) != (part, content):
            raise self._refusal(f"{part.name} does not describe its jobs as they are in the queue")

    def end(self) -> None:
        """Check that no job is left without an outcome."""
        if self._left:
            raise self._refusal(f"job {min(self._left)} has no outcome")

    def _take(self, job_id: str) -> Job:
        jobs = self._left.get(job_id)
        if not jobs:
            raise self._refusal(f"job {job_id[:NAME_MAX]} is not in the segment, or has two outcomes")
        job = jobs.pop(0)
        if not jobs:
            del self._left[job_id]
        return job

    def _refusal(self, reason: str) -> ConfigurationError:
        return ConfigurationError(f"{self._segment.name} cannot be settled: {reason}. Nothing was changed.")


def given_back(jobs: Iterable[Job]) -> list[Job]:
    """Jobs of a claimed segment that were not begun, as they stood in line, in order."""
    waiting = (
        replace(
            job,
            status=JobStatus.QUEUED,
            attempts=job.attempts - 1,
            token=None,
            worker=None,
            claimed_at=None,
            heartbeat_at=None,
        )
        for job in jobs
    )
    return sorted(waiting, key=key_of)
