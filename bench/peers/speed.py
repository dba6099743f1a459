"""Speed: how many jobs a second go in and out, how soon one begins, and the CPU of it all."""

import os
import time
from dataclasses import dataclass, replace
from statistics import median, quantiles
from typing import Any

from bench.peers.process import Process, cpu_s
from bench.peers.stage import Stage
from bench.peers.tape import Tape

_START_WITHIN_S = 60.0


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    enqueue_s: float = 1.0
    jobs: int = 3000
    drain_s: float = 3.0
    trickled: int = 100
    per_s: float = 50.0
    turns: int = 3

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(enqueue_s=0.2, jobs=100, drain_s=2.0, trickled=10, turns=1)


@dataclass(frozen=True)
class Turn:
    """What was measured once."""

    one_per_s: float
    many_per_s: float
    drained_per_s: float
    latencies_ms: list[float]
    # Of one job: producer and server while it is enqueued alone, worker and server while it is run.
    cpu_in_ms: float
    cpu_out_ms: float


@dataclass(frozen=True)
class Speed:
    """The medians of all turns; the latencies are those of all turns together."""

    one_per_s: float
    many_per_s: float
    drained_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float

    @classmethod
    def of(cls, turns: list[Turn]) -> "Speed":
        """What the turns come to."""
        latencies = sorted(one for turn in turns for one in turn.latencies_ms)
        return cls(
            median(turn.one_per_s for turn in turns),
            median(turn.many_per_s for turn in turns),
            median(turn.drained_per_s for turn in turns),
            median(latencies),
            quantiles(latencies, n=100, method="inclusive")[-1],
            median(turn.cpu_in_ms + turn.cpu_out_ms for turn in turns),
        )


def measure(stage: Stage, amount: Amount) -> Turn:
    """Measure one contestant once. Who cannot keep up with the trickle gets half of what it can do."""
    one, one_cpu_s = _enqueue(stage, "one", amount)
    many, _ = _enqueue(stage, "many", amount)
    drained_per_s, drained_cpu_s = _drain(stage, amount)
    return Turn(
        one["jobs"] / one["seconds"],
        many["jobs"] / many["seconds"],
        drained_per_s,
        _trickle(stage, replace(amount, per_s=min(amount.per_s, drained_per_s / 2))),
        one_cpu_s * 1000,
        drained_cpu_s * 1000,
    )


def _enqueue(stage: Stage, way: str, amount: Amount) -> tuple[dict[str, float], float]:
    url = stage.place(way)
    os.sync()
    before_s = cpu_s(stage.server.pids)
    told = stage.ask("enqueue", url, way=way, seconds=amount.enqueue_s)
    server_s = cpu_s(stage.server.pids) - before_s
    return told, (told["cpu_s"] + server_s) / told["jobs"]


def _drain(stage: Stage, amount: Amount) -> tuple[float, float]:
    """Jobs a second of one worker, and the CPU seconds of each, its start not counted."""
    url, tape = stage.place("drain"), stage.tape()
    filled: dict[str, Any] = {"fill": amount.jobs} if stage.entry.in_process else {}
    if not filled:
        stage.ask("fill", url, jobs=amount.jobs)
    os.sync()
    with stage.start("work", url, tape, **filled) as worker:
        worker.wait_until(lambda: tape.count() > 0, _START_WITHIN_S)
        first, before_s = tape.count(), cpu_s([worker.pid, *stage.server.pids])
        _wait(worker, tape, 2 * amount.jobs, amount.drain_s)
        last, after_s = tape.count(), cpu_s([worker.pid, *stage.server.pids])
    ended = [event.at_s for event in tape.events() if event.what == "ended"]
    if len(ended) < 2:
        raise RuntimeError("hardly a job was done")
    # In half jobs: each has a beginning and an end.
    spent_s = (after_s - before_s) / max(1, (last - first) / 2)
    return (len(ended) - 1) / (ended[-1] - ended[0]), spent_s


def _trickle(stage: Stage, amount: Amount) -> list[float]:
    """The milliseconds from each call of enqueue to the beginning of its job, in a worker that waits."""
    url, tape = stage.place("trickle"), stage.tape()
    told: dict[str, Any] = {"per_s": amount.per_s}
    within_s = amount.trickled / amount.per_s + 30
    if stage.entry.in_process:
        sent = tape
        with stage.start("work", url, tape, trickle=amount.trickled, **told) as both:
            both.wait_until(lambda: tape.count() > 0, _START_WITHIN_S)
            _wait(both, tape, 3 * amount.trickled, within_s)
    else:
        sent = stage.tape()
        # One job beforehand, to see that the worker is there.
        stage.ask("fill", url, jobs=1)
        told |= {"jobs": amount.trickled, "first": 1}
        with stage.start("work", url, tape) as worker:
            worker.wait_until(lambda: tape.count() >= 2, _START_WITHIN_S)
            with stage.start("trickle", url, sent, **told):
                _wait(worker, tape, tape.count() + 2 * amount.trickled, within_s)
    called_s = {event.number: event.at_s for event in sent.events() if event.what == "sent"}
    begun = [event for event in tape.events() if event.what == "begun" and event.number in called_s]
    if len(begun) < 2:
        raise RuntimeError("hardly a job of the trickle has begun")
    return [(event.at_s - called_s[event.number]) * 1000 for event in begun]


def _wait(worker: Process, tape: Tape, events: int, within_s: float) -> None:
    deadline_s = time.monotonic() + within_s
    while tape.count() < events and time.monotonic() < deadline_s and worker.is_alive:
        time.sleep(0.005)
