"""RemoteQueue: a queue that is reached by way of its brokers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from bucketq.account import Spending
from bucketq.clock import Clock, SystemClock
from bucketq.ending import Ending
from bucketq.errors import BucketQError, QueueClosedError
from bucketq.mint import Mint
from bucketq.operation import Operation
from bucketq.pending import IfAbandoned
from bucketq.queue import Queue
from bucketq.remote.brokers import Brokers, UnreachableError
from bucketq.remote.lane import Lane, choose
from bucketq.remote.seeker import Seeker
from bucketq.remote.storage import RemoteStorage
from bucketq.settings import Settings
from bucketq.storage.port import Bucket, ObjectInfo
from bucketq.wanted import Wanted

T = TypeVar("T")

# However long a dequeue waits, now and then it asks anew: the broker may be gone without a word.
_WAIT_AT_MOST_S = 30.0
_WAIT_AFTER_TROUBLE_S = 0.2
_LANES = 2


class RemoteQueue(Queue):
    """A queue by way of its brokers; what `bucketq.connect("grpc://…")`, `http://…` and `ws://…` give.

        async with bucketq.connect("grpc://10.0.0.7:7420,10.0.0.8:7420") as q:
            await q.enqueue("send_email", {"to": "alice@example.com"})

    While the brokers change their leader, calls take longer, and that is all.
    """

    def __init__(
        self,
        open_brokers: Callable[[], Brokers],
        addresses: Sequence[str],
        *,
        scheme: str = "grpc",
        storage: Bucket | None = None,
        discover: Callable[[], Awaitable[str]] | None = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        mint: Mint | None = None,
    ) -> None:
        settings, clock, mint = settings or Settings(), clock or SystemClock(), mint or Mint()
        self.addresses = tuple(addresses)
        self._open_brokers = open_brokers
        self._seeker = Seeker(addresses, discover, settings.retry_for_s, clock, mint)
        self._brokers: Brokers | None = None
        self._lanes: list[Lane] = []
        url = f"{scheme}://{','.join(addresses)}"
        super().__init__(storage or RemoteStorage(self, url), settings, clock, mint)

    async def __aenter__(self) -> Self:
        if self._brokers is not None:
            raise QueueClosedError("this queue is open already")
        self._brokers = self._open_brokers()
        limit_s, clock = self.settings.retry_for_s, self._clock
        self._lanes = [Lane(self._brokers, self._seeker, limit_s, clock, self._mint) for _ in range(_LANES)]
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        lanes, brokers = self._lanes, self._brokers
        self._lanes, self._brokers = [], None
        try:
            for lane in lanes:
                await lane.close()
        finally:
            if brokers is not None:
                await brokers.close()

    async def collect_garbage(self, *, dry_run: bool = False) -> list[ObjectInfo]:
        """As of any queue; the broker does it."""
        return await self.ask(lambda brokers, address: brokers.collect_garbage(address, dry_run=dry_run))

    async def fetch_spending(self) -> Spending:
        """What the broker that leads has asked of the storage, and what that costs."""
        return await self.ask(lambda brokers, address: brokers.spending(address))

    async def ask(self, question: Callable[[Brokers, str], Awaitable[T]]) -> T:
        """Put a question to the leader, without a limit to its answer's time."""
        brokers = self._brokers
        if brokers is None:
            raise QueueClosedError("the queue is not open: use it inside `async with`")
        return await self._seeker.ask(lambda address: question(brokers, address), None)

    def _send(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> "asyncio.Future[Any]":
        if not self._lanes:
            raise QueueClosedError("the queue is not open: use it inside `async with`")
        return choose(self._lanes).submit(operation, if_abandoned)

    async def _find_archived(self, job_id: str) -> Ending | None:
        return await self.ask(lambda brokers, address: brokers.find_archived(address, job_id))

    async def _wait_ready(self, wanted: Wanted, timeout_s: float) -> None:
        wait_s = min(timeout_s, _WAIT_AT_MOST_S)
        try:
            async with asyncio.timeout(timeout_s):
                await self.ask(lambda brokers, address: brokers.wait_ready(address, wanted, wait_s))
        except TimeoutError:
            return
        except (BucketQError, UnreachableError):
            # The dequeue that follows says what is wrong, if it still is.
            await asyncio.sleep(min(timeout_s, _WAIT_AFTER_TROUBLE_S))
