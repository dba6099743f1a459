"""Glance: how a queue stands, as far as a process knows it without asking the storage.

It looks at the jobs in queue.json and at the entries of the segments, never into those, so it takes no
longer with a deep backlog.
"""

from datetime import datetime
from typing import NamedTuple

from bucketq.archive_name import ArchiveName, hour_ended
from bucketq.archived_job import decode_archived
from bucketq.job import JobStatus
from bucketq.ledger import Ledger
from bucketq.state import QueueState, Stats

# Whoever enqueues makes up names of entrypoints, and each is remembered by whoever scrapes.
ENTRYPOINTS_MAX = 50
OTHERS = "(others)"


class Depth(NamedTuple):
    """The jobs of one entrypoint by status, and for how long the one waits that does so the longest."""

    jobs: dict[JobStatus, int]
    longest_wait_s: float


class Glance(NamedTuple):
    """How a queue stands."""

    # As of the last commit, or look.
    stats: Stats
    # By entrypoint: those with the most jobs, and the others together under OTHERS.
    depths: dict[str, Depth]
    # How many entrypoints there really are.
    entrypoints: int
    longest_wait_s: float
    segments: int
    segment_jobs: int
    segment_bytes: int
    # Finished jobs that are not in the archive yet, and for how long the first of them has been finished.
    unarchived: int
    unarchived_s: float
    # The least time between two commits, now and as it was set.
    commit_interval_s: float
    commit_interval_wanted_s: float

    @classmethod
    def at(
        cls, state: QueueState, stats: Stats, now: datetime, interval_s: float, wanted_s: float
    ) -> "Glance":
        """How a state stands at a time."""
        depths = _depths(state, now)
        segments = list(state.backlog)
        ledger = state.ledger
        return cls(
            stats=stats,
            depths=_fewer(depths),
            entrypoints=len(depths),
            longest_wait_s=max((depth.longest_wait_s for depth in depths.values()), default=0.0),
            segments=len(segments),
            segment_jobs=sum(segment.count for segment in segments),
            segment_bytes=sum(segment.size for segment in segments),
            unarchived=len(ledger.finished) + sum(batch.total for batch in ledger.sealed.values()),
            unarchived_s=_seconds(_first_finished(ledger), now),
            commit_interval_s=interval_s,
            commit_interval_wanted_s=wanted_s,
        )


def _depths(state: QueueState, now: datetime) -> dict[str, Depth]:
    waits = state.waits()
    depths: dict[str, Depth] = {}
    for (name, status), count in state.counts().items():
        if name not in depths:
            depths[name] = Depth(dict.fromkeys(JobStatus, 0), _seconds(waits.get(name), now))
        depths[name].jobs[status] = count
    return depths


def _fewer(depths: dict[str, Depth]) -> dict[str, Depth]:
    if len(depths) <= ENTRYPOINTS_MAX:
        return depths
    ranked = sorted(depths.items(), key=lambda item: (-sum(item[1].jobs.values()), item[0]))
    kept, rest = dict(ranked[:ENTRYPOINTS_MAX]), [depth for _, depth in ranked[ENTRYPOINTS_MAX:]]
    # Somebody may have called one so.
    rest += [kept.pop(OTHERS)] if OTHERS in kept else []
    together = {status: sum(depth.jobs[status] for depth in rest) for status in JobStatus}
    return {**kept, OTHERS: Depth(together, max(depth.longest_wait_s for depth in rest))}


def _first_finished(ledger: Ledger) -> datetime | None:
    moments = [ledger.oldest] if ledger.oldest is not None else []
    for name, batch in ledger.sealed.items():
        if batch.lines:
            moments.append(decode_archived(batch.lines[0]).finished_at)
        elif (parsed := ArchiveName.parse(name)) is not None:
            # The jobs are in objects, and only the hour is known here.
            moments.append(hour_ended(parsed.hour))
    return min(moments, default=None)


def _seconds(moment: datetime | None, now: datetime) -> float:
    return 0.0 if moment is None else max(0.0, (now - moment).total_seconds())
