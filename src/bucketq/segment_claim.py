"""SegmentClaim: one worker's hold on a whole segment, and what it writes about the jobs in it.

    dequeue_segment ──▶ claim ──▶ claim.jobs(the object's content) ── each job is worked on
                                        │ completed ──▶ CompletedJobs ──▶ staged objects
                                        │ failed ─────▶ Nack, Bury or Crash
                                        └ not begun ──▶ `given_back` ───▶ new segments
    settle_segment(claim, completed, failed, rest) ── one small commit names all of it

All of it can be pickled, and needs no queue: the work may be dealt out to other processes,
each of which reads the object and writes its own.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec
from msgspec.structs import replace

from bucketq.archive_name import hour_of
from bucketq.archived_job import FinishedStatus, encode_archived
from bucketq.job import Claim, Job, JobStatus, id_range
from bucketq.ledger import StagedPart, batch_content
from bucketq.object_name import staged_name
from bucketq.segment import Hold, Segment, key_of
from bucketq.segment_lines import SegmentLines


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
