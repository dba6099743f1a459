"""Sessions: who has signed in, by a random id that only their browser knows.

A session keeps the visitor, and with it the token, in memory alone. It ends with its token, when its
visitor signs out, when it has been idle for long, and with the process.
"""

import secrets
from collections import OrderedDict

from bucketq.clock import Clock, SystemClock
from bucketq.dashboard.visitor import Visitor

# A working day, without a request or an open page.
_IDLE_S = 12 * 3600.0
# More than there are people who look after one queue. The one that was idle for longest goes first.
_SESSIONS_MAX = 1000
# One token must not push out the sessions of others.
_SESSIONS_PER_TOKEN_MAX = 20


class Sessions:
    """The visitors who have signed in."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._visitors: OrderedDict[str, tuple[Visitor, float]] = OrderedDict()

    async def begin(self, visitor: Visitor) -> str:
        """Remember a visitor; return the id of their session."""
        await self._end_idle()
        session = secrets.token_urlsafe(32)
        self._visitors[session] = visitor, self._clock.monotonic_s()
        same = [one for one, (other, _) in self._visitors.items() if other.name == visitor.name]
        if len(same) > _SESSIONS_PER_TOKEN_MAX:
            await self.end(same[0])
        if len(self._visitors) > _SESSIONS_MAX:
            await self.end(next(iter(self._visitors)))
        return session

    def find(self, session: str | None) -> Visitor | None:
        """Whose session this is; None if it is nobody's, or has ended, or their token has."""
        visitor, seen_s = self._visitors.get(session or "", (None, 0.0))
        if visitor is None or self._is_idle(seen_s) or not visitor.is_welcome():
            return None
        self.keep(session)
        return visitor

    def keep(self, session: str | None) -> None:
        """Take note that somebody is there."""
        if session is not None and session in self._visitors:
            visitor, _ = self._visitors.pop(session)
            self._visitors[session] = visitor, self._clock.monotonic_s()

    async def end(self, session: str | None) -> None:
        """Forget a visitor."""
        visitor, _ = self._visitors.pop(session or "", (None, 0.0))
        if visitor is not None:
            visitor.is_welcome = _never
            await visitor.leaving.aclose()

    async def close(self) -> None:
        """Forget everybody."""
        for session in list(self._visitors):
            await self.end(session)

    async def _end_idle(self) -> None:
        for session, (visitor, seen_s) in list(self._visitors.items()):
            if self._is_idle(seen_s) or not visitor.is_welcome():
                await self.end(session)

    def _is_idle(self, seen_s: float) -> bool:
        return self._clock.monotonic_s() - seen_s > _IDLE_S


def _never() -> bool:
    return False
