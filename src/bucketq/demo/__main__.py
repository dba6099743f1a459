"""Runs the demo: chooses the folder, shows the tour, and checks at the end that nothing was lost."""

import argparse
import asyncio
import logging
import os
import sys
import tempfile
import termios
from functools import partial
from pathlib import Path

from bucketq.app.signals import told_by_signals
from bucketq.closed_pipe import leave_closed_pipe
from bucketq.demo.cast import Cast
from bucketq.demo.display import is_drawable, watch
from bucketq.demo.summary import Summary
from bucketq.demo.tour import Tour
from bucketq.errors import BucketQError

_INTERRUPTED = 130


def main() -> int:
    """Give the tour once; 0 if everything is accounted for."""
    parser = argparse.ArgumentParser(
        prog="python -m bucketq.demo",
        description="A tour of bucketq at work, on this machine alone: two brokers, three workers, the leader"
        " killed in the middle, and a report by Spark.",
    )
    parser.add_argument(
        "--folder", type=Path, metavar="PATH", help="where to put the queue (default: a new temporary one)"
    )
    parser.add_argument("--no-report", action="store_true", help="leave out the data pipeline")
    options = parser.parse_args()
    # What is set up for queues of one's own is not for the tour.
    for name in [name for name in os.environ if name.startswith("BUCKETQ_")]:
        del os.environ[name]
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="bucketq-demo-"))).absolute()
    # Else what the producer says while nobody leads would be in the middle of the picture.
    log = logging.FileHandler(folder / "logs" / "tour.log", "w", delay=True)
    logging.basicConfig(handlers=[log], format="%(asctime)s %(levelname)-7s %(message)s")
    try:
        return _run(folder, has_report=not options.no_report)
    except BrokenPipeError:
        return leave_closed_pipe()


def _run(folder: Path, *, has_report: bool) -> int:
    try:
        return asyncio.run(_guide(folder, has_report=has_report))
    except BrokenPipeError:
        raise
    except (BucketQError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except (asyncio.CancelledError, KeyboardInterrupt):
        told = f"demo: stopped, and nothing is left running. What was not finished is in {folder}"
        print(f"\n{told}", flush=True)
        return _INTERRUPTED


async def _guide(folder: Path, *, has_report: bool) -> int:
    guiding = asyncio.current_task()
    assert guiding is not None
    # At a second signal those who still run are left to themselves: they end when this process has.
    with told_by_signals(partial(_cancel, guiding), lambda: None):
        async with Cast(folder) as cast:
            tour = Tour(folder, cast)
            await tour.open()
            print(f"A tour of bucketq, in {folder}; Ctrl-C ends it.\n", flush=True)
            await _play(tour, has_report=has_report)
            summary = await Summary.of(tour)
            print(f"{summary.text()}\n{summary.places()}", flush=True)
            if is_drawable() and sys.stdin.isatty():
                await _stay_open(tour.dashboard)
    troubles = [*summary.troubles(), *cast.troubles()]
    for trouble in troubles:
        print(f"demo: {trouble}", file=sys.stderr)
    print("\nAll processes have ended.", flush=True)
    return 1 if troubles else 0


async def _play(tour: Tour, *, has_report: bool) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(watch(tour))
            group.create_task(tour.play(has_report=has_report))
    except ExceptionGroup as failed:
        # The first that went wrong; the other has ended because of it.
        raise failed.exceptions[0] from None


async def _stay_open(dashboard: str) -> None:
    """Keep what still runs, until Enter or Ctrl-C."""
    print(f"\nThe dashboard is still there: {dashboard}\nPress Enter, or Ctrl-C, to end it.", flush=True)
    enough, loop = asyncio.Event(), asyncio.get_running_loop()
    # What was typed before was not meant for this.
    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    loop.add_reader(sys.stdin, enough.set)
    try:
        with told_by_signals(enough.set, None):
            await enough.wait()
    finally:
        loop.remove_reader(sys.stdin)


def _cancel(task: "asyncio.Task[int]") -> None:
    task.cancel()


if __name__ == "__main__":
    sys.exit(main())
