"""What the demo shows: a live picture on a terminal, plain lines anywhere else, then a summary."""

import asyncio
import os
import sys
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, Protocol

from bucketq.demo.picture import Picture
from bucketq.demo.story import Story


class Display(Protocol):
    """Shows the story as it stands, every `interval_s`."""

    interval_s: float

    def running(self) -> AbstractContextManager[Any]:
        """Hold the screen while the block runs."""
        ...

    def show(self, story: Story) -> None:
        """Show the story as it stands."""
        ...


async def watch(story: Story) -> None:
    """Show the story while it runs."""
    display = _choose_display()
    print(f"One producer and three workers share {story.path}\n", flush=True)
    with display.running():
        while True:
            await story.look()
            display.show(story)
            if story.over.is_set():
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(story.over.wait(), display.interval_s)


def print_summary(story: Story) -> None:
    """Say how it ended, and what to try next."""
    stats, tally = story.state.stats, story.tally
    dead = stats.dead_total - story.before.stats.dead_total
    left = stats.queued + stats.in_progress
    verdict = "yes" if story.is_conserved() else "NO"
    per_write = tally.operations / max(story.commits, 1)
    print(f"""
Summary
  enqueued   {tally.enqueued:6}
  completed  {tally.completed:6}
  retried    {tally.retries:6}  after a failed attempt, or the crash
  dead       {dead:6}  out of attempts
  left       {left:6}  waiting or running
  conserved  {verdict:>6}  in the file: {stats.enqueued_total} = {stats.completed_total} completed\
 + {stats.dead_total} dead + {left} left
  commits    {story.commits:6}  for {tally.operations} operations: {per_write:.1f} shared each write

The whole queue is one readable file. The dead job is still in it:
  cat {story.path}
To watch the file change while the queue works, name it and look at it meanwhile:
  make demo ARGS='--file queue.json'""")


def _choose_display() -> Display:
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return Lines()
    return Picture()


class Lines:
    """A line for each event and one a second; for pipes, logs and plain terminals."""

    interval_s = 1.0

    def __init__(self) -> None:
        self._told = 0

    def running(self) -> AbstractContextManager[Any]:
        """Nothing to hold."""
        return nullcontext()

    def show(self, story: Story) -> None:
        """Print what is new."""
        for line in story.news[self._told :]:
            print(line)
        self._told = len(story.news)
        stats = story.state.stats
        print(
            f"{story.elapsed_s:4.1f} s  {stats.queued} waiting, {stats.in_progress} running,"
            f" {story.tally.completed} completed; {story.commits} commits,"
            f" {story.size_bytes() / 1000:.1f} kB",
            flush=True,
        )
