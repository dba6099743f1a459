"""Real processes on one real queue, killed with SIGKILL at random, then checked like a simulation.

make soak                         a minute and a series of failovers on a file, and the same on SeaweedFS
make soak ARGS='--seconds 600'    longer
"""

import argparse
import asyncio
import logging
import random
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from bucketq import BrokerQueue, open_storage
from bucketq.archive import Archive
from bucketq.codec import decode
from tests.contract.servers import BUCKET, seaweedfs
from tests.sim.checkers import UNTIMED, check
from tests.sim.chronicle import Chronicle, read_pickles, read_versions
from tests.sim.crew import soak_settings
from tests.sim.record import Record, ViolationError
from tests.sim.recorded_queue import RecordedQueue
from tests.sim.story import tell

ROOT = Path(__file__).parents[2]
CREW = [sys.executable, "-m", "tests.sim.crew"]
STALE_AFTER_S = 2.0
# Longer than processes take to begin on a machine that is very busy.
COMMIT_WITHIN_S = 120.0
KINDS = ["broker", "broker", "direct"]


class Member:
    """One place in the crew: whenever its process is killed, another takes over."""

    def __init__(self, folder, name, kind, url, options, within=()):
        self._within = within
        self._folder = folder
        self._name = name
        self._tail = [kind, str(STALE_AFTER_S), url, *(f"{key}={value}" for key, value in options.items())]
        self._lives = 0
        self._process = None

    def start(self):
        self._lives += 1
        name = f"{self._name}{self._lives}"
        command = [*self._within, *CREW, str(self._folder), name, *self._tail]
        # By its standard input it knows when a run is cut short, and ends.
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE)

    def signal(self, number):
        self._process.send_signal(number)

    def wait(self, limit_s):
        """Wait until it has ended by itself; return its exit code."""
        self._process.wait(limit_s)
        self._process.stdin.close()
        self._process.stderr.close()
        return self._process.returncode

    def kill(self):
        ended_early = self._process.poll() is not None
        self._process.kill()
        stderr = self._process.communicate()[1].decode()
        if ended_early:
            raise AssertionError(f"{self._name} ended by itself:\n{stderr}")


def soak(folder, seconds, url, commits=0, **options):
    """Let the crew work and die for some seconds, and until there were so many commits; return the record."""
    storage = open_storage(url, **options)
    crew = [Member(folder, f"{kind}{n}-", kind, url, options) for n, kind in enumerate(KINDS)]
    for member in crew:
        member.start()
    until_s = time.monotonic() + seconds
    version = 0
    while (left_s := until_s - time.monotonic()) > 0 or version <= commits:
        time.sleep(min(max(left_s, 0.5), random.uniform(0.5, 1.5)))
        # On a busy machine processes begin slowly. Were they killed before they get to work, none ever would.
        version = wait_for_commit(storage, version)
        member = random.choice(crew)
        member.kill()
        member.start()
    for member in crew:
        member.kill()
    return finish(folder, url, options)


def wait_for_commit(storage, version):
    """Wait for a later version of the queue than this one; return it."""
    until_s = time.monotonic() + COMMIT_WITHIN_S
    while (now := asyncio.run(version_of(storage))) <= version:
        assert time.monotonic() < until_s, f"nobody has got to work within {COMMIT_WITHIN_S:g} s"
        time.sleep(0.05)
    return now


async def version_of(storage):
    """The version of the queue, which each commit raises by one."""
    content, etag = await storage.read()
    return 0 if etag is None else decode(content).version


def finish(folder, url, options):
    """Finish what is left, and put the record together."""
    record = Record(0, STALE_AFTER_S, 0.0)
    with closing(Chronicle(open_storage(url, **options), folder / "finisher.writes")) as storage:
        final = asyncio.run(drain(storage, record))
        record.archived = list(Archive(storage, record.damages.append).jobs_sync())
    for log in sorted(folder.glob("*.calls")):
        record.calls.update((call.number, call) for call in read_pickles(log))
    record.versions = read_versions(folder, final)
    return record


class Finisher:
    """The world of the last worker, which has nothing to fear."""

    is_over = False

    def __init__(self, record):
        self._record = record

    def now_s(self):
        return time.monotonic()

    def began(self, call):
        self._record.calls[call.number] = call

    def ended(self, call):
        pass


async def drain(storage, record):
    """Finish what is left; return the content of the queue after that."""
    settings = soak_settings(STALE_AFTER_S)
    async with BrokerQueue(storage, settings=settings) as q:
        recorded = RecordedQueue(q, Finisher(record), "finisher", STALE_AFTER_S)
        while not record.is_drained:
            jobs = await recorded.dequeue(None, batch_size=100, wait=1)
            await asyncio.gather(*(recorded.ack(job) for job in jobs))
            stats = await q.stats()
            record.is_drained = stats.queued + stats.in_progress == 0
    return (await storage.read())[0]


def judge(record):
    """The story of what went wrong, or None."""
    try:
        check(record, UNTIMED)
    except ViolationError as violation:
        return tell(record, violation)
    return None


def main():
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="how long, on each storage")
    seconds = parser.parse_args().seconds
    logging.getLogger("bucketq").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as name, seaweedfs(make_folder(name, "server")) as server:
        places = {
            "a file": (f"file://{make_folder(name, 'queue')}/queue.json", {}),
            "SeaweedFS": (
                f"s3://{BUCKET}/soak.json",
                {**server.options, "endpoint_url": server.endpoint_url},
            ),
        }
        for place, (url, options) in places.items():
            print(f"{seconds:g} s on {place}: processes work and are killed", flush=True)
            record = soak(make_folder(name, place), seconds, url, **options)
            if story := judge(record):
                print(story)
                return 1
            print(f"  {len(record.calls)} calls, {len(record.versions) - 1} commits: every promise was kept")
            print(f"brokers on {place}: the leader is killed 20 times, stopped 5 times, told to go 5 times")
            url = url.replace(".json", "-of-brokers.json")
            folder = make_folder(name, f"brokers on {place}")
            record, took_s = failover(folder, url, kills=20, pauses=5, handovers=5, **options)
            if story := judge_failover(record):
                print(story)
                return 1
            print(f"  {len(record.calls)} calls, {len(record.versions) - 1} commits: every promise was kept")
            for trial, times in took_s.items():
                print(f"  without a leader after a {trial}: at most {max(times):.1f} s")
    return 0


def make_folder(*parts):
    folder = Path(*parts)
    folder.mkdir()
    return folder


if __name__ == "__main__":
    from tests.sim.failover import failover, judge_failover

    sys.exit(main())
