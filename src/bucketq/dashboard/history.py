"""History: the figures of the last minutes, one point a look, for the charts."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from bucketq.job import JobStatus
from bucketq.live.look import Look
from bucketq.live.trend import Times, Trend

# Ten minutes, of one look a second.
POINTS_MAX = 600


class Point(NamedTuple):
    """How a queue stood at one moment, and how fast it went. What is not known is None."""

    at_ms: int
    version: int
    queued: int | None = None
    running: int | None = None
    scheduled: int | None = None
    blocked: int | None = None
    dead: int | None = None
    enqueued_per_s: float | None = None
    completed_per_s: float | None = None
    wait_median_s: float | None = None
    wait_most_s: float | None = None
    run_median_s: float | None = None
    run_most_s: float | None = None
    # Attempts that failed and are made again, jobs that died, and those cancelled or expired: since the
    # point before.
    failed: int | None = None
    died: int | None = None
    cancelled: int | None = None


class History:
    """The points of the last looks."""

    def __init__(self) -> None:
        self._points: deque[Point] = deque(maxlen=POINTS_MAX)
        self._last: Look | None = None
        self._failing: set[tuple[str, int]] = set()

    def add(self, look: Look, trend: Trend) -> None:
        """Take in the next look, and how it went up to it."""
        stats, at_ms = look.state.stats, int(look.at.timestamp() * 1000)
        while self._points and self._points[0].at_ms < at_ms - 1000 * POINTS_MAX:
            self._points.popleft()
        was = self._last.state.stats if self._last is not None else stats
        waits, runs = trend.waits, trend.runs
        failed = self._count_failed(look)
        self._last = look
        self._points.append(
            Point(
                at_ms,
                look.state.version,
                stats.queued,
                stats.in_progress,
                stats.scheduled,
                stats.blocked,
                stats.dead,
                round(trend.enqueued_per_s, 2),
                round(trend.completed_per_s, 2),
                *_both(waits),
                *_both(runs),
                failed,
                # A queue that was replaced by another one begins to count anew.
                max(0, stats.dead_total - was.dead_total),
                max(0, stats.cancelled_total - was.cancelled_total),
            )
        )

    def interrupt(self) -> None:
        """Nobody has looked for a while: no line leads over it, and what has failed meanwhile is not told."""
        self._last = None
        if self._points:
            last = self._points[-1]
            self._points.append(Point(last.at_ms + 1, last.version))

    def _count_failed(self, look: Look) -> int:
        """Attempts of jobs that wait again, as far as queue.json shows them."""
        if self._last is not None and self._last.state is look.state:
            return 0
        waiting = look.state.with_status(JobStatus.QUEUED, JobStatus.SCHEDULED)
        known, self._failing = self._failing, {(job.id, len(job.history)) for job in waiting if job.history}
        return len(self._failing - known) if self._last is not None else 0

    @property
    def commits_per_s(self) -> float:
        """How often queue.json was written, by whomever, in the time that is remembered."""
        if len(self._points) < 2:
            return 0.0
        first, last = self._points[0], self._points[-1]
        return max(0, last.version - first.version) / max(0.001, (last.at_ms - first.at_ms) / 1000)

    @property
    def points(self) -> Sequence[Point]:
        """All of them, the newest last."""
        return tuple(self._points)

    def since(self, at_ms: int) -> list[Point]:
        """Those that came after a moment."""
        newer: list[Point] = []
        for point in reversed(self._points):
            if point.at_ms <= at_ms:
                break
            newer.append(point)
        return newer[::-1]


def _both(times: Times | None) -> tuple[float | None, float | None]:
    return (None, None) if times is None else (round(times.median_s, 4), round(times.most_s, 4))
