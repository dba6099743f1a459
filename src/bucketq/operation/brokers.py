"""Operations of brokers: which one leads."""

from datetime import datetime

import msgspec

from bucketq.election import Leader, Result
from bucketq.state import QueueState


class Elect(msgspec.Struct, frozen=True, gc=False):
    """Let a broker lead, if nobody does, or only one whose heart stands still."""

    broker: str
    address: str
    stale: Leader | None
    now: datetime
    http: str = ""

    def __call__(self, state: QueueState) -> Result:
        return state.elect(self.broker, self.address, self.stale, self.now, self.http)


class Beat(msgspec.Struct, frozen=True, gc=False):
    """Say that the leader lives; tell who leads."""

    broker: str
    now: datetime

    def __call__(self, state: QueueState) -> Leader | None:
        return state.beat(self.broker, self.now)


class StepDown(msgspec.Struct, frozen=True, gc=False):
    """Let nobody lead, if this broker did."""

    broker: str

    def __call__(self, state: QueueState) -> None:
        state.step_down(self.broker)
