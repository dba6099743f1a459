"""ServedQueue: the queue that a leading broker serves."""

from bucketq.election import Leader, Result
from bucketq.embedded import BrokerQueue
from bucketq.operation import Answers, Batch, Beat, Elect, Heartbeat, Operation, StepDown


class ServedQueue(BrokerQueue):
    """A BrokerQueue that also takes part in elections and takes in the batches of clients."""

    async def stand(self, broker: str, address: str, stale: Leader | None) -> Result:
        """Let a broker stand for election."""
        result: Result = await self._submit(Elect(broker, address, stale, self._clock.now()))
        return result

    async def beat(self, broker: str) -> Leader | None:
        """Say that the broker lives; tell who leads."""
        leader: Leader | None = await self._submit(Beat(broker, self._clock.now()))
        return leader

    async def resign(self, broker: str) -> None:
        """Finish what was begun, let nobody lead, and close."""
        try:
            await self._submit(StepDown(broker))
        finally:
            await self.__aexit__(None, None, None)

    def abandon(self) -> None:
        """Close without finishing what was begun; whoever waits is told nothing."""
        group, self._group = self._group, None
        if group is not None:
            group.abandon()

    async def perform(
        self, session: str, number: int, seen_version: int, operations: tuple[Operation, ...]
    ) -> Answers:
        """Apply a client's numbered batch, once. Its heartbeats may ride along with a later write."""
        group = self._opened()
        left = tuple(
            None if isinstance(operation, Heartbeat) and group.ride(operation) else operation
            for operation in operations
        )
        if not any(left):
            return Answers(0, [None] * len(left))
        answers: Answers = await self._submit(Batch(session, number, seen_version, left, self._clock.now()))
        return answers

    async def wait_ready(self, entrypoint: str | None, timeout_s: float) -> None:
        """Return once a dequeue may find something, or when the time is up."""
        await self._wait_ready(entrypoint, timeout_s)
