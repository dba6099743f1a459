"""Backoff: how long to wait before trying again. It decides; somebody else sleeps."""

from typing import NamedTuple


class Backoff(NamedTuple):
    """A growing delay, with half of it left to chance so that rivals drift apart."""

    first_s: float
    cap_s: float
    exponential: bool

    def delay_s(self, attempt: int, jitter: float) -> float:
        """The wait after the `attempt`-th failure (from 0); `jitter` is from 0 to 1.

        >>> Backoff(first_s=0.01, cap_s=1, exponential=False).delay_s(2, jitter=1.0)
        0.03
        >>> Backoff(first_s=0.01, cap_s=1, exponential=True).delay_s(2, jitter=1.0)
        0.04
        """
        growth = 2 ** min(attempt, 30) if self.exponential else attempt + 1
        return min(self.first_s * growth, self.cap_s) * (0.5 + 0.5 * jitter)


# One caller alone: the wait grows slowly, since the rival is most likely a single write away.
LINEAR = Backoff(first_s=0.010, cap_s=1.0, exponential=False)

# A batch of many callers against other writers: spread out fast.
EXPONENTIAL = Backoff(first_s=0.005, cap_s=1.0, exponential=True)
