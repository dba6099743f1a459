"""Watch: one look a second for all who have a page open, and none while nobody has.

    storage ──Looker──▶ Look ──▶ Trend, History ──▶ every open page, each second

A look that fails leaves the last one in place, with the reason why there is no newer one.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from bucketq.clock import Clock, SystemClock
from bucketq.dashboard.history import History
from bucketq.election import Leader
from bucketq.errors import BucketQError
from bucketq.live.look import Look, Looker
from bucketq.live.trend import Trend
from bucketq.storage.port import Bucket

log = logging.getLogger("bucketq")

_EVERY_S = 1.0
# Whoever opens a page gets what is known, unless that is older.
_FRESH_S = 1.5
# While brokers change their leader an answer takes long, and nobody should wait for it in the dark.
_SLOW_S = 1.5
# A leader beats every 3 s, or as it is set. It has gone silent when a beat and a half are missing; as long
# as nobody knows how fast it beats, after this time.
_SILENT_S = 5.0
_BEATS_REMEMBERED = 5
# Nobody had a page open for so long, or the queue was out of reach: what happened meanwhile was not seen.
_GAP_S = 5.0


class Trouble(NamedTuple):
    """Why there is no newer look, and for how long there has been none."""

    reason: str
    error: Exception | None
    since_s: float


class Pulse:
    """For how long the leader's heart has stood still, by this process's own clock."""

    def __init__(self) -> None:
        self._seen: Leader | None = None
        self._since_s = 0.0
        self._has_beaten = False
        self._gaps_s: deque[float] = deque(maxlen=_BEATS_REMEMBERED)

    def observe(self, leader: Leader | None, now_s: float) -> None:
        """Take note of a beat."""
        if leader == self._seen:
            return
        if leader is not None and self._seen is not None and leader.epoch == self._seen.epoch:
            # What was seen first was no beat: nobody knows for how long it had been there.
            if self._has_beaten:
                self._gaps_s.append(now_s - self._since_s)
            self._has_beaten = True
        else:
            self._gaps_s.clear()
            self._has_beaten = False
        self._seen, self._since_s = leader, now_s

    def silent_s(self, now_s: float) -> float:
        """How long ago the last beat was seen; 0 if nobody leads."""
        return now_s - self._since_s if self._seen is not None else 0.0

    def is_silent(self, now_s: float) -> bool:
        """Whether that is longer than usual. A beat is seen up to a second later."""
        usual_s = 1.5 * max(self._gaps_s) + 1.0 if self._gaps_s else _SILENT_S
        return self.silent_s(now_s) > max(_SILENT_S / 2, usual_s)


class Watch:
    """The last look at a queue, what led to it, and those who are told of each new one."""

    def __init__(self, storage: Bucket, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._looker = Looker(storage, self._clock)
        self.look: Look | None = None
        self.trouble: Trouble | None = None
        self.trend = Trend()
        self.history = History()
        self.pulse = Pulse()
        self.had_leader = False
        self._readers: dict[object, Callable[[], None]] = {}
        self._task: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._soon = asyncio.Event()

    def __len__(self) -> int:
        return len(self._readers)

    @property
    def now(self) -> datetime:
        """The time of day: what was just read may be newer than the last look."""
        return self._clock.now()

    @property
    def now_s(self) -> float:
        """The time by the clock of the looks."""
        return self._clock.monotonic_s()

    def join(self, who: object, tell: Callable[[], None]) -> None:
        """Call `tell` after each look, which is every second, until `who` leaves."""
        self._readers[who] = tell
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="bucketq dashboard watch")

    def leave(self, who: object) -> None:
        """Tell `who` no more; when the last one has gone nobody looks any more."""
        self._readers.pop(who, None)
        if not self._readers and self._task is not None:
            self._task.cancel()
            self._task = None

    async def fresh(self) -> None:
        """Wait, not for long, until there is a look that can be shown."""
        if self.look is None or self.now_s - self.look.at_s > _FRESH_S:
            await self._look()

    def look_soon(self) -> None:
        """Look now: somebody has just changed something."""
        self._soon.set()

    async def close(self) -> None:
        """Stop looking."""
        self._readers.clear()
        tasks = [task for task in (self._task, self._looking) if task is not None]
        self._task = self._looking = None
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            began_s = self.now_s
            await self._look()
            for tell in list(self._readers.values()):
                try:
                    tell()
                except Exception:
                    # One page that cannot be drawn must not keep the others from it.
                    log.exception("a page of the dashboard could not be drawn")
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.05, _EVERY_S - (self.now_s - began_s))):
                    await self._soon.wait()
            self._soon.clear()

    async def _look(self) -> None:
        """Look, or go on waiting, but not for long, for a look that takes long."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._take_look(), name="bucketq dashboard look")
        done, _ = await asyncio.wait([self._looking], timeout=_SLOW_S)
        if done:
            self._looking = None
            done.pop().result()
        elif self.trouble is None:
            self.trouble = Trouble("the queue takes long to answer", None, self.now_s - _SLOW_S)

    async def _take_look(self) -> None:
        try:
            look = await self._looker.look()
        except (BucketQError, OSError) as error:
            since_s = self.now_s if self.trouble is None else self.trouble.since_s
            self.trouble = Trouble(str(error), error, since_s)
            return
        if self.look is not None and look.at_s - self.look.at_s > _GAP_S:
            self.trend, self.pulse = Trend(), Pulse()
            self.history.interrupt()
        self.trend.add(look)
        self.history.add(look, self.trend)
        self.pulse.observe(look.state.leader, look.at_s)
        self.had_leader |= look.state.leader is not None
        self.look, self.trouble = look, None
