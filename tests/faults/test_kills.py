"""Real processes on one file, killed with SIGKILL at random: nothing lost, nothing doubled."""

import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

from bucketq import DirectQueue, LocalFileSystemStorage, Settings

CREW = Path(__file__).with_name("crew.py")
SECONDS = 8


class Member:
    """One place in the crew: whenever its process is killed, another takes over."""

    def __init__(self, url, kind, log):
        self.command = [sys.executable, str(CREW), url, kind, kind]
        self.log = log
        self.process = None

    def start(self):
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(self.command, stdout=output, stderr=subprocess.PIPE)

    def kill(self):
        early = self.process.poll()
        self.process.kill()
        stderr = self.process.communicate()[1].decode()
        assert early is None, f"the process ended by itself:\n{stderr}"


def test_two_brokers_and_a_direct_queue_survive_kills(tmp_path):
    path = tmp_path / "queue.json"
    crew = [
        Member(f"file://{path}", kind, tmp_path / f"{number}.log")
        for number, kind in enumerate(["broker", "broker", "direct"])
    ]
    for member in crew:
        member.start()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        time.sleep(random.uniform(0.3, 0.9))
        member = random.choice(crew)
        member.kill()
        member.start()
    for member in crew:
        member.kill()

    confirmed = Counter()
    for member in crew:
        # A kill can cut a line short; the next process continues on it, so look for whole ones.
        for line in member.log.read_text().split("\n"):
            words = line.split(" ")
            if len(words) == 2 and words[0] in {"enqueued", "acked"} and len(words[1]) == 36:
                confirmed[line] += 1
    enqueued = {line.split()[1] for line in confirmed if line.startswith("enqueued")}
    acked = [line for line in confirmed.elements() if line.startswith("acked")]
    assert len(enqueued) > 50, "the crew did work"
    assert len(acked) > 20, "the crew did work"
    assert len(acked) == len(set(acked)), "no job was acknowledged twice"

    live = asyncio.run(drain(path, {line.split()[1] for line in acked}))
    missing = enqueued - live - {line.split()[1] for line in acked}
    state = asyncio.run(DirectQueue(LocalFileSystemStorage(path)).read_state())
    # An ack can have landed just before the kill that silenced its worker: at most the
    # operations that were under way at each kill.
    assert state.stats.completed_total == state.stats.enqueued_total, "everything drained"
    assert len(missing) <= state.stats.completed_total - len(live) - len(acked)


async def drain(path, acked):
    """Finish what is left, and return its ids; none of them may have been acked before."""
    q = DirectQueue(LocalFileSystemStorage(path), settings=Settings(retry_for_s=60))
    state = await q.read_state()
    assert state.is_conserved()
    seen = set()
    await q.requeue_stale(timedelta(seconds=-60))
    while jobs := await q.dequeue(batch_size=500):
        places = [(job.priority, job.sequence) for job in jobs]
        assert places == sorted(places), "order kept"
        ids = {job.id for job in jobs}
        assert not ids & seen, "no job twice"
        assert not ids & acked, "an acknowledged job is gone for good"
        seen |= ids
        assert await q.ack_many(jobs) == []
    return seen
