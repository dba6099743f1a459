"""Election: which broker leads, decided by compare-and-set on queue.json.

    nobody leads ──────────────────────────▶ ELECTED, epoch + 1
    I lead ────────────────────────────────▶ ALREADY_LEADER, with another beat
    another leads, its heart beats ────────▶ OTHER_LEADER
    another leads, its heart stands still ─▶ ELECTED, epoch + 1
    others kept writing faster ────────────▶ CONFLICT: look again

Whose heart stands still is judged by whoever waits, on its own monotonic clock: for how long
has *it* seen the same beat? So no clock that is wrong can elect a second leader. And if two
do believe that they lead, compare-and-set keeps the queue right: the one of the older epoch
learns it with its next commit.
"""

from enum import StrEnum
from typing import NamedTuple

import msgspec

from bucketq.job import Count, Moment


class Leader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who leads: a broker's own id for this run, where clients reach it, and its last heartbeat.

    `address` is for gRPC, `http` for HTTP and WebSocket.
    """

    epoch: Count
    broker: str
    address: str
    beat_at: Moment
    http: str = ""


class Election(StrEnum):
    """How an election ended for the candidate."""

    ELECTED = "elected"
    ALREADY_LEADER = "already_leader"
    OTHER_LEADER = "other_leader"
    CONFLICT = "conflict"


class Result(NamedTuple):
    """How an election ended, and who leads now, as far as is known."""

    outcome: Election
    leader: Leader | None


class LeaderWatch:
    """Remembers since when the leader's heart has stood still, by the clock of whoever watches."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._seen: Leader | None = None
        self._since_s = 0.0

    def observe(self, leader: Leader | None, now_s: float) -> None:
        """Take note of who leads."""
        if leader != self._seen:
            self._seen, self._since_s = leader, now_s

    def stale(self, now_s: float) -> Leader | None:
        """The leader as last seen, if that was too long ago."""
        return self._seen if now_s >= self._since_s + self._timeout_s else None
