"""Retry: how long to wait before trying again, or whether to give up. It decides; somebody else sleeps.

`Backoff` is for the queue's own writes. The policies are for jobs: each is a function from a
failure to a decision, and yours may be one too.

    def patient(failure):
        return GiveUp() if "no such user" in failure.error else Retry(60 * failure.number)

    await q.nack(job, error, retry=patient)
"""

from collections.abc import Callable
from typing import NamedTuple

from bucketq.errors import ConfigurationError
from bucketq.job import Job


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

# Workers and fleets, which outlive a storage that is away: they ask seldom, and are there when it is back.
PATIENT = Backoff(first_s=0.1, cap_s=5.0, exponential=True)


class Failure(NamedTuple):
    """An attempt that failed: the `number`-th one that did, and what went wrong."""

    job: Job
    number: int
    error: str
    # The exception itself, if there was one.
    exception: BaseException | None = None
    # From 0 to 1, for those who leave something to chance.
    chance: float = 0.5


class Retry(NamedTuple):
    """Try again, after so many seconds."""

    after_s: float = 0.0


class GiveUp(NamedTuple):
    """Do not try again: the job is dead, whatever attempts are left."""


Decision = Retry | GiveUp
RetryPolicy = Callable[[Failure], Decision]


def fixed(delay_s: float) -> RetryPolicy:
    """The same wait after each failure."""
    return lambda failure: Retry(delay_s)


def exponential(
    first_s: float = 1.0, *, factor: float = 2.0, cap_s: float = 3600.0, jitter: float = 0.5
) -> RetryPolicy:
    """A wait that grows with each failure, up to a cap; the share `jitter` of it is left to chance.

    Jobs that failed together, because something was down, do not come back together.

    >>> from datetime import UTC, datetime
    >>> job = Job(id="1", entrypoint="mail", created_at=datetime.now(UTC))
    >>> exponential(first_s=10, jitter=0)(Failure(job, 3, "ValueError: no"))
    Retry(after_s=40.0)
    """
    if not (first_s >= 0 and factor >= 1 and cap_s >= 0 and 0 <= jitter <= 1):
        raise ConfigurationError("exponential() takes first_s and cap_s from 0, factor from 1, jitter 0 to 1")

    def decide(failure: Failure) -> Decision:
        # A power of hundreds would not fit into a number; the cap is reached long before.
        whole_s = min(cap_s, first_s * factor ** min(failure.number - 1, 100))
        return Retry(whole_s * (1 - jitter * failure.chance))

    return decide


def check_policy(policy: RetryPolicy) -> None:
    """Raise ConfigurationError for what can decide nothing."""
    if not callable(policy):
        raise ConfigurationError(f"a retry policy is a function, such as exponential(), not {policy!r}")


def decide(policy: RetryPolicy, failure: Failure) -> Decision:
    """What a policy says. Raises ConfigurationError if that is no decision."""
    check_policy(policy)
    decision = policy(failure)
    if not isinstance(decision, Retry | GiveUp):
        raise ConfigurationError(f"a retry policy returns Retry(seconds) or GiveUp(), not {decision!r}")
    return decision
