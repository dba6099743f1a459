"""Chunk: claimed jobs that go to an executor together, and where they come from."""

from collections import deque
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from bucketq.app.outcome import Completed, Crashed, Interrupted
from bucketq.app.settling import Settling
from bucketq.job import Claim, Job
from bucketq.spark.fleet.order import Done, SliceDone, Work

# Of jobs that have seen an executor die, so many go to the next one together.
_SUSPECTS_MAX = 10


class Source(Protocol):
    """Claimed jobs that are dealt out, and come back in one way or another."""

    async def take_in(self, chunk: "Chunk", done: Done | SliceDone) -> None:
        """A task is through. What it did not begin is dealt out again."""
        ...

    async def give_up(self, chunk: "Chunk", *, is_crash: bool) -> None:
        """A task came to no end. Its jobs go back: with a crash behind them, or at no cost."""
        ...


class Chunk:
    """What a lane has in hand."""

    def __init__(self, source: Source, work: Work, size: int) -> None:
        self.source = source
        self.work = work
        self.is_cancelled = False
        self._size = size

    def __len__(self) -> int:
        return self._size


@dataclass
class Tally:
    """How many jobs of a fleet are with executors, and how the others ended there."""

    running: int = 0
    completed: int = 0
    failed: int = 0
    # Their executor was lost: they are tried again.
    crashed: int = 0


class Singles:
    """Jobs that were claimed one by one."""

    def __init__(self, settling: Settling, tally: Tally) -> None:
        self._settling = settling
        self._tally = tally
        self._left: deque[Job] = deque()
        self._out: dict[Chunk, tuple[Job, ...]] = {}

    def __len__(self) -> int:
        """How many are with no executor."""
        return len(self._left)

    def add(self, jobs: Iterable[Job]) -> None:
        """Take in jobs that were claimed."""
        self._left.extend(jobs)

    def jobs(self) -> Iterator[Job]:
        """All of them, whose claims have to be kept alive."""
        return chain(self._left, *self._out.values())

    def deal(self, size: int) -> Chunk:
        """The next chunk, of so many jobs at most."""
        jobs = [self._left.popleft()]
        size = min(size, _company_max(jobs[0]))
        while self._left and len(jobs) < min(size, _company_max(self._left[0])):
            jobs.append(self._left.popleft())
        chunk = Chunk(self, tuple(jobs), len(jobs))
        self._out[chunk] = tuple(jobs)
        return chunk

    async def take_in(self, chunk: Chunk, done: Done | SliceDone) -> None:
        assert isinstance(done, Done)
        ended = list(zip(self._out.pop(chunk), done.outcomes, strict=True))
        self._left.extendleft(job for job, outcome in reversed(ended) if outcome is None)
        for job, outcome in ended:
            if outcome is not None:
                self._settling.add(job, outcome)
        completed = sum(isinstance(outcome, Completed) for _, outcome in ended)
        self._tally.completed += completed
        self._tally.failed += sum(outcome is not None for _, outcome in ended) - completed

    async def give_up(self, chunk: Chunk, *, is_crash: bool) -> None:
        for job in self._out.pop(chunk):
            self._settling.add(job, Crashed() if is_crash else Interrupted())

    def lose(self, lost: Container[Claim]) -> list[Chunk]:
        """Let go of jobs by these claims; return the chunks that consist of such jobs only."""
        self._left = deque(job for job in self._left if Claim.of(job) not in lost)
        return [chunk for chunk, jobs in self._out.items() if all(Claim.of(job) in lost for job in jobs)]

    def release(self) -> None:
        """Give back what is with no executor."""
        for job in self._left:
            self._settling.add(job, Interrupted())
        self._left.clear()


def _company_max(job: Job) -> int:
    """How many jobs may share a task with this one, if one of them may be the death of its executor."""
    if job.crashes + 1 >= job.max_crashes:
        return 1
    return _SUSPECTS_MAX if job.crashes else 1 << 62
