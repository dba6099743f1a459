"""Segment claims: one worker takes all jobs of a segment at once, and settles all of them at once.

    QUEUED ──claim──▶ IN_PROGRESS: its entry has a `hold`
       ▲                   │ release ──▶ as it was
       │                   │ stale ────▶ all of its jobs have a crash behind them
       └───────────────────┤
                           └ settle ──▶ completed ones to the archive, by reference
                                    ──▶ failed ones into queue.json, to be settled one by one
                                    ──▶ segments with the rest into the place of this one

The jobs themselves stay where they are: only entries of the manifest change. So a whole segment
costs a commit no more than one job does.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from bucketq.errors import ClaimLostError, ConfigurationError
from bucketq.job import STALE, Attempt, Claim, Job, JobStatus, Outcome
from bucketq.jobline import line_bytes
from bucketq.ledger import StagedPart
from bucketq.segment import Hold, Segment, key_of
from bucketq.segment_lines import Question
from bucketq.state.dispatch import WithDispatch

_QUEUED, _IN_PROGRESS = JobStatus.QUEUED, JobStatus.IN_PROGRESS
_TICK = timedelta(microseconds=1)


class WithSegmentClaims(WithDispatch):
    """How whole segments are given out, kept and settled."""

    def claim_segment(
        self, entrypoint: str, token: str, now: datetime, worker: str | None = None
    ) -> Segment | None:
        """Claim the segment whose jobs are all next in line, if there is one and nothing else has a say."""
        segment = self.backlog.first(entrypoint)
        if segment is None or not segment.plain or segment.turn_base or self._is_governed:
            return None
        job, follower = self._table.ready.first(entrypoint), self.backlog.follower(segment)
        # Of jobs that stand among others none may be passed over.
        if (job and key_of(job) < segment.last) or (follower and follower < segment.last):
            return None
        began = self._applied(now)
        hold = Hold(token=token, worker=worker, claimed_at=began, heartbeat_at=began)
        claimed = replace(segment, status=_IN_PROGRESS, hold=hold)
        self._swap(segment, [claimed])
        self.claims += claimed.count
        self._table.ready.forget(entrypoint)
        return claimed

    def heartbeat_segment(self, claim: Claim, now: datetime) -> None:
        """The worker lives. The stamp always grows, so that a change shows on any clock."""
        segment, hold = self._held_segment(claim)
        later = max(now, hold.heartbeat_at + _TICK)
        self._swap(segment, [replace(segment, hold=replace(hold, heartbeat_at=later))])

    def release_segment(self, claim: Claim) -> None:
        """Undo a claim: it costs its jobs nothing."""
        segment, _ = self._held_segment(claim)
        self._swap(segment, [replace(segment, status=_QUEUED, hold=None)])

    def requeue_stale_segment(self, claim: Claim, now: datetime) -> None:
        """The worker fell silent. Any of the jobs may be to blame, so they are given out one by one."""
        segment, hold = self._held_segment(claim)
        crash = Attempt(
            claimed_at=hold.claimed_at,
            ended_at=max(now, hold.claimed_at),
            outcome=Outcome.STALE,
            worker=hold.worker,
            error=STALE,
        )
        self._swap(segment, [replace(segment, status=_QUEUED, hold=None, plain=False, crash=crash)])
        self.retries += segment.count

    def settle_segment(
        self,
        claim: Claim,
        completed: Sequence[StagedPart],
        failed: Sequence[str],
        rest: Sequence[Segment],
        now: datetime,
    ) -> None:
        """All jobs of a segment are accounted for; the failed ones are in queue.json then, and still held.

        Raises ConfigurationError if they are not, and then nothing is changed.
        """
        segment, _ = self._held_segment(claim)
        self._check_settlement(segment, completed, failed, rest)
        failed_ids = set(failed)
        held = self._jobs_in(segment, failed)
        if strangers := failed_ids - held.keys():
            raise ConfigurationError(f"job {min(strangers)} is not in {segment.name}. Nothing was changed.")
        if doubles := [job_id for job_id in held if self._table.get(job_id) is not None]:
            raise ConfigurationError(
                f"job {doubles[0]} was enqueued twice, and is in queue.json too: release {segment.name},"
                " and take its jobs with dequeue. Nothing was changed."
            )
        parents = self._parents_in(segment, failed_ids, rest)
        self._swap(segment, rest)
        self.dropped += segment.objects
        for job in held.values():
            self._put(job)
            self.size += line_bytes(job)
        self.completed_total += sum(part.count for part in completed)
        if self.archives:
            self.ledger.stage(self.version + 1, completed)
        else:
            self.dropped += [part.name for part in completed]
        for parent in parents:
            self._tell(parent, True, now)

    def _held_segment(self, claim: Claim) -> tuple[Segment, Hold]:
        held = self.backlog.held().get(claim)
        if held is None:
            raise ClaimLostError(
                claim.job_id, "this segment of jobs was given back, or to another worker; drop its results"
            )
        return held

    def _swap(self, old: Segment, new: Iterable[Segment]) -> None:
        self.backlog = self.backlog.replaced([old], new)
        self.changes += 1

    def _check_settlement(
        self,
        segment: Segment,
        completed: Sequence[StagedPart],
        failed: Collection[str],
        rest: Sequence[Segment],
    ) -> None:
        counts = [sum(part.count for part in completed), len(failed), sum(part.count for part in rest)]
        if sum(counts) != segment.count or len(set(failed)) < len(failed):
            raise ConfigurationError(
                f"{counts[0]} jobs completed, {counts[1]} failed and {counts[2]} not begun are not the"
                f" {segment.count} jobs of {segment.name}. Nothing was changed."
            )
        for part in rest:
            is_within = segment.first <= part.first and part.last <= segment.last
            kind = part.status, part.entrypoint, part.base, part.hold, part.crash
            if not is_within or kind != (_QUEUED, segment.entrypoint, 0, None, None):
                raise ConfigurationError(
                    f"{part.name} does not hold waiting jobs of {segment.name}. Nothing was changed."
                )
        names = [*(part.name for part in completed), *(part.name for part in rest)]
        for name in names:
            self._refuse_collected(name)
        names += [*(part.name for part in self.ledger.parts()), *(one.name for one in self.backlog)]
        if len(set(names)) < len(names):
            raise ConfigurationError("an object stands for two parts of a segment. Nothing was changed.")

    def _parents_in(self, segment: Segment, failed: set[str], rest: Sequence[Segment]) -> list[Job]:
        """The completed jobs of the segment that others wait for."""
        waited_for = self._table.dependents.children
        parents = self._jobs_in(segment, [job_id for job_id in waited_for if job_id not in failed])
        for part in rest:
            for job_id in self._jobs_in(part, parents):
                del parents[job_id]
        return list(parents.values())

    def _jobs_in(self, segment: Segment, job_ids: Iterable[str]) -> dict[str, Job]:
        """Those of some jobs that are in a segment."""
        candidates = [job_id for job_id in job_ids if segment.may_hold(job_id)]
        self.shelf.findings.ask(map(Question, candidates))
        found = {job_id: self.shelf.find(segment, job_id) for job_id in candidates}
        return {job_id: job for job_id, job in found.items() if job is not None}
