"""Turns: how tenants share an entrypoint, so that a flood by one does not keep the others waiting.

Each job of a tenant gets the turn after the tenant's last one; and one that has nothing waiting
begins behind the turn that was served last. So of those who have jobs waiting each gets one in
every turn, however many it has:

    acme     1  2  3  4  5  6  7 …     a flood
    beta     1  2                      came later, and is served in between

A job without a tenant gets the next turn. Lines are told apart by entrypoint and priority: what
overtakes the others by its priority must not push their turns on.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from bucketq.backlog import Backlog
from bucketq.job import Count, Job, JobStatus
from bucketq.journal import Journal
from bucketq.segment import Segment, key_of
from bucketq.turned_jobs import Line, TurnedJobs

# Whoever makes up a new priority for each job must not make queue.json grow.
_LINES_MAX = 1000


class TurnLine(NamedTuple):
    """The turn that was served last, and the last one of each tenant that is to come."""

    current: Count
    last: dict[str, Count]


Stored = dict[str, dict[int, TurnLine]]


class Turns:
    """The turns of each line that tenants share."""

    def __init__(self, journal: Journal, stored: Mapping[str, Mapping[int, TurnLine]] | None = None) -> None:
        self._journal = journal
        self._current: dict[Line, int] = {}
        self._last: dict[Line, dict[str, int]] = {}
        # The turns of jobs that were replaced, by the ids of those that come for them.
        self._handed_on: dict[str, int] = {}
        for entrypoint, lines in (stored or {}).items():
            for priority, line in lines.items():
                self._current[entrypoint, priority] = line.current
                self._last[entrypoint, priority] = dict(line.last)

    def __bool__(self) -> bool:
        return bool(self._current)

    def base(self, entrypoint: str, priority: int, tenant: str | None) -> int:
        """The turn behind which the next job stands; 0 where tenants share nothing."""
        line = entrypoint, priority
        current = self._current.get(line, 0)
        return current if tenant is None else max(current, self._last.get(line, {}).get(tenant, 0))

    @property
    def lines(self) -> Collection[Line]:
        """Those that tenants share."""
        return self._current.keys()

    @property
    def entrypoints(self) -> set[str]:
        """Those of which tenants share a line."""
        return {entrypoint for entrypoint, _ in self._current}

    def turn_of(self, job: Job) -> int:
        """The turn of a job that comes into line: the next one, or that of the job it replaces."""
        line = job.entrypoint, job.priority
        turn = self._handed_on.get(job.id)
        if turn is not None:
            self._journal.put(self._handed_on, job.id, None)
        if turn is None or line not in self._current:
            return self.next(*line, job.tenant)
        if job.tenant is not None and turn > self.base(*line, job.tenant):
            self.give(*line, job.tenant, turn)
        return turn

    def again(self, job: Job) -> int:
        """The turn of a job that was served, and comes into line again: its own.

        If its line was forgotten meanwhile, turns have been counted from 1 again.
        """
        return min(job.turn, self._current.get((job.entrypoint, job.priority), 0))

    def hand_on(self, old: Job, new: Job) -> None:
        """The job that is enqueued next gets the turn of the one it replaces, if it goes into its line."""
        is_alike = (old.entrypoint, old.priority, old.tenant) == (new.entrypoint, new.priority, new.tenant)
        if is_alike and old.turn and not new.after and old.status is new.status is JobStatus.QUEUED:
            self._journal.put(self._handed_on, new.id, old.turn)

    def give_back(self, job: Job) -> None:
        """A job leaves without having been served: if its tenant's last turn was its own, that is free."""
        line = job.entrypoint, job.priority
        last = self._last.get(line, {})
        if job.tenant is not None and last.get(job.tenant) == job.turn:
            is_over = job.turn - 1 <= self._current[line]
            self._journal.put(last, job.tenant, None if is_over else job.turn - 1)

    def forget(self, turned: TurnedJobs, backlog: Backlog) -> None:
        """Forget tenants, and lines, of which no job with a turn waits any more."""
        for of in turned.left:
            line, tenant = of
            last = self._last.get(line, {})
            is_known = line in self._current if tenant is None else tenant in last
            if is_known and of not in turned and not backlog.has_turns(*line, tenant):
                self._journal.note(turned.left.add, of)
                if tenant is None:
                    self._journal.put(self._last, line, None)
                    self._journal.put(self._current, line, None)
                else:
                    self._journal.put(last, tenant, None)
        turned.left.clear()

    def next(self, entrypoint: str, priority: int, tenant: str | None) -> int:
        """The turn of a job that comes into line."""
        if tenant is None and (entrypoint, priority) not in self._current:
            return 0
        turn = self.base(entrypoint, priority, tenant) + 1
        if tenant is not None:
            self.give(entrypoint, priority, tenant, turn)
        return turn

    def give(self, entrypoint: str, priority: int, tenant: str, turn: int) -> None:
        """A tenant has jobs waiting up to this turn."""
        line = entrypoint, priority
        if line not in self._current:
            self._forget_lines()
            self._journal.put(self._current, line, 0)
        if line not in self._last:
            self._journal.put(self._last, line, {})
        self._journal.put(self._last[line], tenant, turn)

    def give_segments(self, segments: Sequence[Segment]) -> list[int]:
        """What is to be added to the turns in each segment, where those of a tenant count from 1."""
        if not self and all(segment.tenant is None for segment in segments):
            return [0] * len(segments)
        known: dict[tuple[str, int, str | None], int] = {}
        bases = []
        for segment in segments:
            line = segment.entrypoint, segment.first[0], segment.tenant
            if segment.status is not JobStatus.QUEUED:
                bases.append(0)
            elif segment.tenant is None:
                bases.append(self.next(*line))
            else:
                base = known.setdefault(line, self.base(*line))
                self.give(segment.entrypoint, segment.first[0], segment.tenant, base + segment.last[1])
                bases.append(base)
        return bases

    def serve(self, job: Job) -> None:
        """A job is dispatched."""
        line = job.entrypoint, job.priority
        current = self._current.get(line)
        if current is not None and job.turn > current:
            self._journal.put(self._current, line, job.turn)
        last = self._last.get(line)
        if last and job.tenant is not None and last.get(job.tenant, job.turn + 1) <= job.turn:
            self._journal.put(last, job.tenant, None)

    def stored(self) -> Stored:
        """What is to be kept: tenants whose turns are over are forgotten."""
        stored: Stored = {}
        for (entrypoint, priority), current in self._current.items():
            last = self._last.get((entrypoint, priority), {})
            kept = {tenant: turn for tenant, turn in last.items() if turn > current}
            stored.setdefault(entrypoint, {})[priority] = TurnLine(current, kept)
        return stored

    def _forget_lines(self) -> None:
        if len(self._current) < _LINES_MAX:
            return
        for line, current in self._current.items():
            if all(turn <= current for turn in self._last.get(line, {}).values()):
                self._journal.put(self._last, line, None)
                self._journal.put(self._current, line, None)
                return


class DealtJobs(NamedTuple):
    """Jobs that come into line together, in order.

    Their turns count from the one that is served now, behind what their tenants have waiting already:
    `ahead` is how many turns that is for each tenant, and `last` is its last turn.
    """

    jobs: list[Job]
    ahead: dict[str, int]
    last: dict[str, int]


def dealt(jobs: Iterable[Job], turns: Turns) -> Iterator[DealtJobs]:
    """Give turns to the jobs of an entrypoint. Where turns count, each priority is dealt by itself."""
    jobs = sorted((replace(job, turn=0) if job.turn else job for job in jobs), key=key_of)
    if not jobs:
        return
    if jobs[0].entrypoint not in turns.entrypoints and all(job.tenant is None for job in jobs):
        yield DealtJobs(jobs, {}, {})
        return
    for priority, group in groupby(jobs, key=lambda job: job.priority):
        of_priority = list(group)
        line = of_priority[0].entrypoint, priority
        tenants = dict.fromkeys(job.tenant for job in of_priority if job.tenant is not None)
        ahead = {tenant: turns.base(*line, tenant) - turns.base(*line, None) for tenant in tenants}
        last = dict(ahead)
        for place, job in enumerate(of_priority if tenants else ()):
            if job.tenant is not None:
                last[job.tenant] += 1
            turn = 1 if job.tenant is None else last[job.tenant]
            of_priority[place] = replace(job, turn=turn)
        yield DealtJobs(sorted(of_priority, key=key_of), ahead, last)
