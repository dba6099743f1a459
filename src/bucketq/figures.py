"""Figures: what the commits of one process have come to, counted as they happen."""

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager

from bucketq.errors import CASConflictError, SlowDownError, StorageError

# From a write to a local file to a call that waits for a job.
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Durations:
    """How long things took: in sum, and how many up to each bound, the last being those beyond."""

    def __init__(self) -> None:
        self.sum_s = 0.0
        self.by_bound = [0] * (len(BOUNDS_S) + 1)

    def add(self, took_s: float) -> None:
        """One more."""
        self.sum_s += took_s
        self.by_bound[bisect_left(BOUNDS_S, took_s)] += 1


class Figures:
    """Counters that only grow, for whoever compares them with what they were before.

    A broker keeps them over all its terms.
    """

    def __init__(self) -> None:
        # Commits that landed, the operations in them, and how large queue.json was with the last.
        self.commits = 0
        self.operations = 0
        self.queue_bytes = 0
        # Another writer came first; the storage asked to slow down; it failed otherwise.
        self.conflicts = 0
        self.slow_downs = 0
        self.failures = 0
        # Of all writes, whatever they were answered.
        self.writes = Durations()

    def landed(self, operations: int) -> None:
        """A commit is in the storage."""
        self.commits += 1
        self.operations += operations

    @contextmanager
    def counting_failures(self) -> Iterator[None]:
        """Count what the storage refuses to the block, or fails to do."""
        try:
            yield
        except CASConflictError:
            self.conflicts += 1
            raise
        except SlowDownError:
            self.slow_downs += 1
            raise
        except (StorageError, OSError):
            self.failures += 1
            raise
