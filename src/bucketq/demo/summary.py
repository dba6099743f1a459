"""Summary: what was seen of the tour, held against queue.json and the archive, and where to look next."""

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bucketq.archive import Archive
from bucketq.demo.tour import Tour
from bucketq.job import Outcome


@dataclass(frozen=True)
class Summary:
    """What the archive tells of the attempts at the tour's jobs."""

    tour: Tour
    outcomes: Counter[Outcome]

    @classmethod
    async def of(cls, tour: Tour) -> "Summary":
        """Read the archive, from where it was when the tour began."""
        await tour.look()
        archived = Archive(tour.storage).jobs(since=tour.began_at)
        outcomes = Counter([attempt.outcome async for job in archived for attempt in job.attempts])
        return cls(tour, outcomes)

    @property
    def is_conserved(self) -> bool:
        """Whether the counters in the file add up, and agree with what was acknowledged here."""
        tour = self.tour
        was, now = tour.before.stats, tour.state.stats
        return tour.state.is_conserved() and now.enqueued_total - was.enqueued_total == tour.enqueued

    def troubles(self) -> Iterator[str]:
        """What is not accounted for, or has not happened although the tour is to show it."""
        tour = self.tour
        if tour.left or self.outcomes[Outcome.COMPLETED] != tour.completed:
            archived = self.outcomes[Outcome.COMPLETED]
            yield f"{tour.left} jobs are left, and of {tour.completed} completed {archived} are archived"
        if not self.is_conserved:
            yield f"{tour.enqueued} jobs were acknowledged, and {tour.path} counts otherwise"
        if not tour.is_verified:
            yield f"bucketq verify has found something: see {tour.folder / 'logs'}"
        if not tour.is_report_sound:
            yield f"the report went wrong: {tour.no_report}"
        if not tour.failover_s or not self.outcomes[Outcome.STALE]:
            yield "nobody took over from those who were killed"

    def text(self) -> str:
        """How it ended, for people."""
        tour, stats = self.tour, self.tour.state.stats
        retried = self.outcomes[Outcome.FAILED] - tour.dead
        changes = tour.enqueued + 2 * self.outcomes.total()
        shared = changes / max(tour.commits, 1)
        return f"""
Summary
  enqueued   {tour.enqueued:6}
  completed  {tour.completed:6}
  retried    {retried:6}  after a failed attempt
  recovered  {self.outcomes[Outcome.STALE]:6}  jobs of the worker that was killed, by others
  dead       {tour.dead:6}  out of attempts
  left       {tour.left:6}  waiting or running
  failover   {tour.failover_s:4.1f} s  from the leader's death to the next one's election
  commits    {tour.commits:6}  for {changes} enqueues, claims and endings: {shared:.1f} a write
  conserved  {_yes(self.is_conserved)}  in the file: {stats.enqueued_total} =\
 {stats.completed_total} completed + {stats.dead_total} dead + {tour.left} left
  verified   {_yes(tour.is_verified)}  by bucketq verify, which has walked file and archive"""

    def places(self) -> str:
        """Where to look, and what to try, for people."""
        tour, bucketq = self.tour, _bucketq()
        shown = "" if tour.no_report else f" --report {tour.folder / 'report.html'}"
        report = f"none: {tour.no_report}" if tour.no_report else (tour.folder / "report.html").as_uri()
        return f"""
To look at, in {tour.folder}
  queue.json     the whole queue, in one readable file, with the dead job
  queue/archive  every finished job, by the hour
  logs           what each process has said
  report         {report}

To try next
  export BUCKETQ_URL={tour.path.as_uri()}
  {bucketq} jobs --status dead
  {bucketq} archive --summary
  {bucketq} top
  {bucketq} dashboard{shown}"""


def _yes(is_so: bool) -> str:
    return f"{'yes' if is_so else 'NO':>6}"


def _bucketq() -> str:
    """The command as one would call it from here."""
    command = Path(sys.executable).parent / "bucketq"
    here = Path.cwd()
    return str(command.relative_to(here) if command.is_relative_to(here) else command)
