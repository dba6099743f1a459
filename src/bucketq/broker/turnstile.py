"""Turnstile: counts what each client asks, and stops those who ask too much.

A client is the name of a token. Where there are no tokens it is an address.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from bucketq.broker.allowance import Allowance
from bucketq.clock import Clock, SystemClock
from bucketq.errors import TooManyRequestsError
from bucketq.token_bucket import TokenBucket

# Addresses can be invented by the million. Whoever was silent for longest is forgotten: then it may
# ask as much at once as a newcomer.
_REMEMBERED_MAX = 10_000
# Long enough for some of the waiting calls to end, or for a job to come.
_WAIT_AGAIN_S = 1.0


class Turnstile:
    """The rate of each client, and the calls that wait."""

    def __init__(self, allowance: Allowance, clock: Clock | None = None) -> None:
        self._allowance = allowance
        self._clock = clock or SystemClock()
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        self._waiting: dict[str, int] = {}
        self.waiting = 0

    def enter(self, client: str) -> None:
        """Count a request. Raises TooManyRequestsError if the client asks faster than it may."""
        rate = self._allowance.rate_per_client
        if not rate:
            return
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = TokenBucket(rate, self._allowance.burst_per_client or None)
            if len(self._buckets) > _REMEMBERED_MAX:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(client)
        now_s = self._clock.monotonic_s()
        if not bucket.take(now_s):
            raise TooManyRequestsError(
                f"no more than {rate:g} requests a second: ask again later", bucket.wait_s(now_s)
            )

    @contextmanager
    def wait(self, client: str) -> Iterator[None]:
        """Count a call that may wait, while the block runs. Raises TooManyRequestsError if too many do."""
        if self.waiting >= self._allowance.waiting_max:
            raise TooManyRequestsError("too many calls wait at this broker: ask again later", _WAIT_AGAIN_S)
        mine = self._waiting.get(client, 0)
        if mine >= self._allowance.waiting_per_client_max:
            raise TooManyRequestsError(
                f"no more than {mine} calls of one client may wait: ask again later", _WAIT_AGAIN_S
            )
        self._waiting[client] = mine + 1
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client]
