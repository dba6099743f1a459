"""What the tour shows while it goes on: a live picture on a terminal, plain lines anywhere else."""

import asyncio
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from bucketq.demo.picture import Picture
from bucketq.demo.tour import Tour
from bucketq.words import spell_size

_INTERVAL_S = 0.2
_LINE_EVERY_S = 2.0


class Display(Protocol):
    """Shows the tour as it stands, again and again."""

    def running(self) -> AbstractContextManager[Any]:
        """Hold the screen while the block runs."""
        ...

    def show(self, tour: Tour) -> None:
        """Show the tour as it stands."""
        ...


async def watch(tour: Tour) -> None:
    """Show the tour until it is over."""
    display: Display = Picture() if is_drawable() else Lines()
    with display.running():
        while not tour.is_over:
            await tour.look()
            display.show(tour)
            await asyncio.sleep(_INTERVAL_S)
        display.show(tour)


def is_drawable() -> bool:
    """Whether there is a terminal that a picture can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


class Lines:
    """A line for each event, and now and then how the queue stands; for pipes, logs and plain terminals."""

    def __init__(self) -> None:
        self._told = 0
        self._last_s = 0.0
        self._version = 0

    def running(self) -> AbstractContextManager[Any]:
        """Nothing to hold."""
        return nullcontext()

    def show(self, tour: Tour) -> None:
        """Print what is new."""
        for line in tour.news.lines[self._told :]:
            print(line, flush=True)
        self._told = len(tour.news.lines)
        elapsed_s, stats = tour.news.elapsed_s, tour.state.stats
        if tour.enqueued and stats.live and elapsed_s >= self._last_s + _LINE_EVERY_S:
            self._last_s = elapsed_s
            print(
                f"{elapsed_s:5.1f} s  {stats.queued} waiting, {stats.in_progress} running,"
                f" {tour.completed} completed; {tour.commits} commits,"
                f" {spell_size(tour.size_bytes())}",
                flush=True,
            )
