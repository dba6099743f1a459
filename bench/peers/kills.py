"""Kills: SIGKILL in the middle, several times in a row, and then the count of what is gone.

A kill does not lose what the kernel holds for the disk; a power cut does. So what is acknowledged before it
is flushed survives here, and would not there.
"""

import random
import time
from dataclasses import dataclass

from bench.peers.process import Process
from bench.peers.stage import Stage
from bench.peers.tape import Tape
from bench.peers.toll import Toll, count_toll, unfinished

_START_WITHIN_S = 30.0


@dataclass(frozen=True)
class Plan:
    """How often is killed, and how long is waited for what is missing."""

    kills: int = 5
    jobs: int = 300
    nap_s: float = 0.1
    # After so many seconds without a job, what is missing is lost. While some still come, it is late.
    quiet_s: float = 75.0
    within_s: float = 240.0
    # The same where no worker was killed, and nobody's silence has to be waited for.
    quiet_after_server_s: float = 10.0

    def shortened(self) -> "Plan":
        """The same for a quick look."""
        return Plan(kills=2, jobs=60, nap_s=0.05, quiet_s=8.0, within_s=30.0, quiet_after_server_s=2.0)


def kill_workers(stage: Stage, plan: Plan) -> Toll:
    """Kill one worker after another in the middle of its jobs; each time another takes its place."""
    url, tape = stage.place("kill"), stage.tape()
    stage.ask("fill", url, jobs=plan.jobs)
    killed_at_s = []
    for number in range(plan.kills):
        started = tape.count()
        with stage.start("work", url, tape, plan.nap_s) as worker:
            # As many jobs between two kills. It may be that none is left but those of the dead.
            wanted = 2 * plan.jobs * (number + 1) // (plan.kills + 1)
            _wait_for(worker, tape, wanted, started)
            time.sleep(plan.nap_s / 2)
        killed_at_s.append(time.monotonic())
    # Some new jobs go on coming, as they do in life: a library may look for the dead only then.
    more = {"jobs": 10_000, "per_s": 1, "first": plan.jobs}
    with (
        stage.start("work", url, tape, plan.nap_s) as worker,
        stage.start("trickle", url, stage.tape(), **more),
    ):
        is_over = _wait_for_all(worker, tape, set(range(plan.jobs)), plan.quiet_s, plan.within_s)
    return count_toll(range(plan.jobs), list(tape.events()), killed_at_s, is_over)


def kill_servers(stage: Stage, plan: Plan) -> Toll:
    """Kill the server, or else the producer, while jobs are enqueued; then run what is there."""
    url, sent = stage.place("kill"), stage.tape()
    killed_at_s = []
    # The same moments for all contestants.
    moments = random.Random(1)
    producer = stage.start("insist", url, sent, first=0)
    for _ in range(plan.kills):
        acked = _count(sent, "acked")
        producer.wait_until(lambda acked=acked: _count(sent, "acked") > acked + 10)
        time.sleep(moments.uniform(0.1, 0.5))
        killed_at_s.append(time.monotonic())
        if stage.server.is_served:
            stage.server.kill()
            time.sleep(0.2)
            stage.server.start()
        else:
            producer.kill()
            again = 1 + max((event.number for event in sent.events() if event.what == "acked"), default=-1)
            producer = stage.start("insist", url, sent, first=again)
    acked = _count(sent, "acked")
    producer.wait_until(lambda: _count(sent, "acked") > acked + 10)
    producer.kill()
    tape = stage.tape()
    promised = {event.number for event in sent.events() if event.what == "acked"}
    with stage.start("work", url, tape) as worker:
        if not _wait_for_all(worker, tape, promised, plan.quiet_after_server_s, plan.within_s):
            raise RuntimeError(f"what was enqueued was not run within {plan.within_s:g} s")
    # The servers were killed before this tape begins: no job was interrupted.
    return count_toll(promised, list(tape.events()), killed_at_s)


def _count(tape: Tape, what: str) -> int:
    return sum(event.what == what for event in tape.events())


def _wait_for(worker: Process, tape: Tape, events: int, started: int) -> None:
    """Wait for so many events, and a job in this worker's hands, or for some seconds without anything."""
    seen, since_s = 0, time.monotonic()
    while tape.count() < events or not _is_busy(tape, started):
        if tape.count() > seen:
            seen, since_s = tape.count(), time.monotonic()
        if time.monotonic() - since_s > 15:
            return
        if not worker.is_alive:
            raise RuntimeError(f"the worker has ended:\n{worker.told()}")
        time.sleep(0.002)


def _is_busy(tape: Tape, started: int) -> bool:
    events = list(tape.events())[started:]
    return 2 * sum(event.what == "begun" for event in events) > len(events)


def _wait_for_all(worker: Process, tape: Tape, wanted: set[int], quiet_s: float, within_s: float) -> bool:
    """Wait until all jobs have ended or nothing happens any more; return False if it still went on."""
    began_s = since_s = time.monotonic()
    left, quiet_max_s = len(wanted), max(quiet_s, _START_WITHIN_S)
    while missing := len(unfinished(wanted, tape.events())):
        if missing < left:
            left, since_s, quiet_max_s = missing, time.monotonic(), quiet_s
        now_s = time.monotonic()
        if now_s - since_s > quiet_max_s:
            return True
        if now_s - began_s > within_s:
            return False
        if not worker.is_alive:
            raise RuntimeError(f"the worker has ended:\n{worker.told()}")
        time.sleep(0.1)
    # What is there twice comes at the end, if it comes.
    time.sleep(2)
    return True
