"""Run the simulator: `make sim`, for a number of seeds or seconds, or one seed again.

make sim                          10,000 fresh seeds
make sim ARGS='--seeds 500'       as many as you like
make sim ARGS='--seconds 600'     for ten minutes
make sim SEED=1234                one seed again, to the byte
"""

import argparse
import logging
import os
import random
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import count

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.sim.checkers import check
from tests.sim.life import promises_of
from tests.sim.record import ViolationError
from tests.sim.story import tell
from tests.sim.world import simulate

CHUNK = 20


def main():
    parser = argparse.ArgumentParser(prog="make sim", description="Search for a seed that breaks a promise.")
    parser.add_argument("--seed", type=int, help="run this seed alone and show it")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many to run")
    parser.add_argument("--seconds", type=float, help="run for so long instead")
    parser.add_argument("--start", type=int, help="the first seed; random if not given")
    options = parser.parse_args()
    quieten()
    if options.seed is not None:
        return replay(options.seed)
    start = random.randrange(1_000_000_000) if options.start is None else options.start
    return search(start, options.seeds, options.seconds)


def quieten():
    """The engine complains about the weather, as it should; here the weather is always bad."""
    for name in ("bucketq", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def replay(seed):
    """Run one seed and print its whole trace; the digest is the same every time."""
    record = simulate(seed)
    print("\n".join(record.trace))
    print(f"seed {seed}: {len(record.calls)} calls, {len(record.versions) - 1} versions, {record.digest()}")
    try:
        check(record, promises_of(record.seed))
    except ViolationError as violation:
        print(f"\n{tell(record, violation)}")
        return 1
    print("every promise was kept")
    return 0


def search(start, seeds, seconds):
    """Run many seeds on all cores; stop at the first that breaks a promise."""
    console = Console()
    console.print(f"seeds from {start}; repeat one with: make sim SEED=…")
    until_s = time.monotonic() + seconds if seconds else float("inf")
    total = None if seconds else seeds
    columns = [TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    first_seeds = count(start, CHUNK) if seconds else iter(range(start, start + seeds, CHUNK))
    done = 0
    workers = os.cpu_count() or 1
    with (
        Progress(*columns, console=console) as progress,
        ProcessPoolExecutor(workers, initializer=quieten) as pool,
    ):
        bar = progress.add_task("seeds", total=total)
        running = set()
        while True:
            while len(running) < 2 * workers and time.monotonic() < until_s:
                first = next(first_seeds, None)
                if first is None:
                    break
                last = first + CHUNK if seconds else min(first + CHUNK, start + seeds)
                running.add(pool.submit(run_seeds, first, last))
            if not running:
                break
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                ran, story = future.result()
                done += ran
                progress.update(bar, completed=done)
                if story:
                    progress.stop()
                    print(story)
                    pool.shutdown(cancel_futures=True)
                    return 1
    console.print(f"{done} seeds, every promise was kept in all of them")
    return 0


def run_seeds(first, last):
    """Run the seeds of one chunk; return how many, and the story of the first violation."""
    for seed in range(first, last):
        try:
            record = simulate(seed)
        except Exception as error:
            return seed - first + 1, f"seed {seed}: the run itself failed with {error!r}"
        try:
            check(record, promises_of(record.seed))
        except ViolationError as violation:
            return seed - first + 1, tell(record, violation)
    return last - first, None


if __name__ == "__main__":
    sys.exit(main())
