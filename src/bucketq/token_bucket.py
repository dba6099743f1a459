"""TokenBucket: so many at once, then so many a second. It counts; whoever asks waits, or refuses."""

from bucketq.errors import ConfigurationError

# What is almost a token is one: time in floating point is never quite there.
_ALMOST = 1 - 1e-6
# A shorter wait may be lost in the rounding of the clock, and would be asked for again and again.
_WAIT_MIN_S = 1e-6


class TokenBucket:
    """Holds up to `burst` tokens, and gets `per_s` of them a second. It is full at first.

    Without a `burst` it holds those of one second, and one at least. Raises ConfigurationError
    for numbers that make no sense.

    >>> bucket = TokenBucket(per_s=2.0, burst=1)
    >>> bucket.take(now_s=100.0), bucket.take(now_s=100.0)
    (True, False)
    >>> bucket.wait_s(now_s=100.0)
    0.5
    >>> bucket.take(now_s=100.5)
    True
    """

    def __init__(self, per_s: float, burst: float | None = None) -> None:
        self.per_s = per_s
        self.burst = max(1.0, per_s) if burst is None else burst
        if not 0 < per_s < float("inf"):
            raise ConfigurationError(f"a rate is a number a second, above 0, not {per_s!r}")
        if not 1 <= self.burst < float("inf"):
            raise ConfigurationError(f"a burst is a number from 1, not {burst!r}")
        self._tokens = self.burst
        self._at_s = float("-inf")

    def at_hand(self, now_s: float) -> float:
        """How many tokens there are."""
        passed_s = max(0.0, now_s - self._at_s)
        return min(self.burst, self._tokens + passed_s * self.per_s)

    def take(self, now_s: float) -> bool:
        """Take a token; False if there is none."""
        tokens = self.at_hand(now_s)
        if tokens < _ALMOST:
            return False
        self._tokens, self._at_s = max(0.0, tokens - 1), now_s
        return True

    def wait_s(self, now_s: float, count: int = 1) -> float:
        """In how many seconds the `count`-th token from now can be taken."""
        missing = count - self.at_hand(now_s)
        return 0.0 if missing <= 1 - _ALMOST else max(missing / self.per_s, _WAIT_MIN_S)
