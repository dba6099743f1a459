"""REST: enqueues a second over HTTP, beside a FastAPI app that only gives back what it is sent.

The broker, the app and the callers are processes of their own. The two servers take turns, so that
whatever else the machine does slows both.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.brokers import running_broker
from bench.finding import Finding

ENOUGH_PER_S = 3000


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    callers: int = 100
    errands: int = 5_000
    turns: int = 5

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(callers=10, errands=100, turns=1)


def measure(folder: Path, amount: Amount) -> list[Finding]:
    """Measure what HTTP costs."""
    with running_broker(f"file://{folder}/queue.json") as (_, http, _), _echo() as echo:
        broker_port = int(http.rpartition(":")[2])
        rates: dict[str, list[float]] = {"echo": [], "enqueue": [], "work": []}
        # More jobs than are worked on: callers leave in the middle of an errand, and none may find none.
        _rate(broker_port, "enqueue", amount)
        for _ in range(amount.turns):
            for errand, port in (("echo", echo), ("enqueue", broker_port), ("work", broker_port)):
                rates[errand].append(_rate(port, errand, amount))
    callers = f"{amount.callers:,} callers"
    share = median(mine / bare for bare, mine in zip(rates["echo"], rates["enqueue"], strict=True))
    bare = median(rates["echo"])
    return [
        Finding(f"a bare echo, and enqueues a second, {callers}", bare, bare * share, least=0.6),
        Finding(
            f"{ENOUGH_PER_S:,}, and enqueues a second, {callers}",
            ENOUGH_PER_S,
            median(rates["enqueue"]),
        ),
        Finding(
            f"a bare echo, and jobs claimed and completed a second, {callers}", bare, median(rates["work"])
        ),
    ]


def _rate(port: int, errand: str, amount: Amount) -> float:
    command = [sys.executable, "-m", "bench.callers", str(port), errand]
    done = subprocess.run(
        [*command, str(amount.callers), str(amount.errands)], check=True, capture_output=True, text=True
    )
    return amount.errands / float(done.stdout)


@contextmanager
def _echo() -> Iterator[int]:
    """The bare app, and its port."""
    with subprocess.Popen([sys.executable, "-m", "bench.echo"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline())
        finally:
            process.terminate()
