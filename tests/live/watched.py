"""A queue whose ids and times are the same in every run, for whoever watches it."""

from datetime import UTC, datetime, timedelta
from random import Random

from bucketq import BrokerQueue, InMemoryStorage
from bucketq.live.look import Looker
from bucketq.mint import Mint
from bucketq.retry import GiveUp
from bucketq.testing.still_clock import StillClock

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)


class FrozenClock(StillClock):
    """A clock by which nothing takes any time, until the test moves it."""

    def monotonic_s(self):
        return self.now().timestamp()


class WatchedQueue(BrokerQueue):
    """A queue with its clock, and one for whoever looks."""

    def __init__(self, storage=None, settings=None):
        self.clock, self.looks_by = StillClock(NOON), FrozenClock(NOON)
        super().__init__(
            storage or InMemoryStorage(), settings=settings, clock=self.clock, mint=Mint(Random(7))
        )

    def looker(self):
        return Looker(self.storage, self.looks_by)

    def wait(self, seconds):
        """Let some time pass."""
        for clock in (self.clock, self.looks_by):
            clock.move_to(clock.now() + timedelta(seconds=seconds))

    async def kill(self, entrypoint, error="ConnectionError: refused", trace=None):
        """Let the next job of an entrypoint fail for good."""
        [job] = await self.dequeue(entrypoint)
        await self.nack(job, error=error, trace=trace, retry=lambda failure: GiveUp())
        return job
