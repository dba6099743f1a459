"""Brokers: which one leads, and which batches of their clients have been applied."""

from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from bucketq.election import Election, Leader, Result
from bucketq.sessions import SessionMark
from bucketq.state.contents import Contents

_TICK = timedelta(microseconds=1)


class WithBrokers(Contents):
    """Elections, and the sessions of clients."""

    def elect(self, broker: str, address: str, stale: Leader | None, now: datetime, http: str = "") -> Result:
        """Let a broker lead if nobody does, or only one whose heart stands still: `stale`."""
        leader = self.leader
        if leader is not None and leader.broker == broker:
            # Whoever comes back to it has to show that it lives, as with every beat.
            return Result(Election.ALREADY_LEADER, self.beat(broker, now))
        if leader is not None and leader != stale:
            return Result(Election.OTHER_LEADER, leader)
        self.epoch += 1
        self.leader = Leader(epoch=self.epoch, broker=broker, address=address, beat_at=now, http=http)
        self.changes += 1
        return Result(Election.ELECTED, self.leader)

    def beat(self, broker: str, now: datetime) -> Leader | None:
        """The leader lives. Who leads is told, should it be another one."""
        if self.leader is not None and self.leader.broker == broker:
            # It always grows, so that a beat shows on any clock.
            beat_at = max(now, self.leader.beat_at + _TICK)
            self.leader = replace(self.leader, beat_at=beat_at)
            self.changes += 1
        return self.leader

    def step_down(self, broker: str) -> None:
        """Nobody leads any more, if this broker did."""
        if self.leader is not None and self.leader.broker == broker:
            self.leader = None
            self.changes += 1

    def remember(self, session: str, number: int, answers: dict[str, Any], now: datetime) -> None:
        """Note that a client's batch is applied, with the answers that could not be told later."""
        mark = SessionMark(number, self.version + 1, int(now.timestamp()), answers)
        self.sessions.remember(session, mark)
        self.changes += 1
