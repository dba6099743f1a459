"""Ticker: has the ticks of schedules fired in time, also when nobody dequeues.

Every open queue has one, and they do not know of each other. That is no danger: a tick is fired
by one commit, and whoever comes second finds nothing to do. Where a broker leads, the others let
it go first.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

from bucketq.clock import Clock
from bucketq.commit import Committer
from bucketq.errors import QueueClosedError
from bucketq.operation import Operation
from bucketq.operation.schedules import Fire
from bucketq.pending import ignore

_HEAD_START_S = 5.0
_AGAIN_AFTER_S = 10.0
# However far away a tick is, the time of day is looked at now and then: it may be set.
_LOOK_EVERY_S = 60.0


class Ticker:
    """Sets a timer by the cached state; `leads` says that this is the leading broker's."""

    def __init__(
        self,
        committer: Committer,
        clock: Clock,
        submit: "Callable[[Operation], asyncio.Future[Any]]",
        *,
        leads: bool,
    ) -> None:
        self._committer = committer
        self._clock = clock
        self._submit = submit
        self._leads = leads
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._set_for: datetime | None = None
        self._loop = asyncio.get_running_loop()

    def after_commit(self) -> None:
        """Set the timer anew if another tick is the next one now."""
        state = self._committer.state
        if state is not None and state.schedules.next_at != self._set_for:
            self._set(state.schedules.next_at)

    def close(self) -> None:
        """Fire nothing more."""
        self._is_closed = True
        self._set(None)

    def _set(self, tick: datetime | None, later_s: float = 0.0) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._set_for = tick
        if tick is not None and not self._is_closed:
            wait_s = max(later_s, self._left_s(tick))
            self._timer = self._loop.call_later(min(wait_s, _LOOK_EVERY_S), self._look, tick)

    def _left_s(self, tick: datetime) -> float:
        state = self._committer.state
        is_anothers = state is not None and state.leader is not None and not self._leads
        left_s = (tick - self._clock.now()).total_seconds()
        return left_s + _HEAD_START_S if is_anothers else left_s

    def _look(self, tick: datetime) -> None:
        if self._left_s(tick) > 0:
            self._set(tick)
            return
        # Should this come to nothing, it is tried again.
        self._set(tick, _AGAIN_AFTER_S)
        try:
            self._submit(Fire(self._clock.now())).add_done_callback(ignore)
        except QueueClosedError:
            self.close()
