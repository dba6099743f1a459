"""Figures: what the commits of one process have come to, counted as they happen."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bucketq.errors import CASConflictError, SlowDownError, StorageError

# From a write to a local file to a call that waits for a job.
BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


# From a caller alone to a thousand that share a write, and bulk beyond.
BOUNDS_OPERATIONS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)


class Histogram:
    """How large things were: in sum, and how many up to each bound, the last being those beyond."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.sum = 0.0
        self.by_bound = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        """One more."""
        self.sum += value
        self.by_bound[bisect_left(self.bounds, value)] += 1


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
        # Writes whose answer was lost: found to have landed, found not to have, and never found out.
        self.unknown_landed = 0
        self.unknown_lost = 0
        self.unknown_unsettled = 0
        # In the commits that landed: jobs given to workers, and those that wait again after an attempt.
        self.claims = 0
        self.retries = 0
        # How long all writes took, whatever they were answered; how long the commits that landed took as a
        # whole, looks, pauses and repetitions included; and how many operations those were of.
        self.write_s = Histogram(BOUNDS_S)
        self.commit_s = Histogram(BOUNDS_S)
        self.batches = Histogram(BOUNDS_OPERATIONS)

    def landed(self, operations: int, took_s: float) -> None:
        """A commit is in the storage."""
        self.commits += 1
        self.operations += operations
        self.commit_s.add(took_s)
        self.batches.add(operations)

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
