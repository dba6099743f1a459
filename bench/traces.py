"""Traces: what they cost whoever enqueues and whoever works, off, for one enqueue in a hundred, and for all.

In memory, so that no disk hides it, with an exporter that drops what it gets: that of a collector is
another program's. What counts is CPU time, of which other programs take none. All ways take turns.
"""

import asyncio
import gc
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio

from bench.errands import app, errand, on_run
from bench.finding import Finding
from bucketq import tracing
from bucketq.app.worker import Worker

CONCURRENCY = 100
ARGUMENTS = {"to": "alice@example.com", "text": "x" * 163}
# Off, and then of how many enqueues a trace is made.
WAYS = {"off": None, "1%": 0.01, "all": 1.0}


@dataclass(frozen=True)
class Amount:
    """How much is measured."""

    jobs: int = 10_000
    turns: int = 7

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(jobs=200, turns=1)


def measure(_: Path, amount: Amount) -> list[Finding]:
    """Measure what traces cost, in memory."""
    plays: dict[str, Callable[[int], Coroutine[Any, Any, float]]] = {"enqueue": _enqueue, "run a job": _work}
    took_us: dict[tuple[str, str], list[float]] = {(what, way): [] for what in plays for way in WAYS}
    for _ in range(amount.turns):
        for what, play in plays.items():
            for way, share in WAYS.items():
                gc.collect()
                with _traced(share):
                    took_us[what, way].append(asyncio.run(play(amount.jobs)) * 1e6 / amount.jobs)
    return [
        Finding(
            f"CPU µs to {what}: off, and {way} traced",
            median(took_us[what, "off"]),
            median(took_us[what, way]),
        )
        for what in plays
        for way in list(WAYS)[1:]
    ]


@contextmanager
def _traced(share: float | None) -> Iterator[None]:
    if share is None:
        yield
        return
    provider = TracerProvider(sampler=ParentBasedTraceIdRatio(share), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_Dropping()))
    tracing.enable(provider)
    try:
        yield
    finally:
        tracing.disable()
        provider.shutdown()


class _Dropping(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


async def _enqueue(jobs: int) -> float:
    app.url = "memory://"

    async def call() -> None:
        for _ in range(jobs // CONCURRENCY):
            await errand.enqueue(**ARGUMENTS)

    async with app:
        began_s = time.process_time()
        await asyncio.gather(*(call() for _ in range(CONCURRENCY)))
        return time.process_time() - began_s


async def _work(jobs: int) -> float:
    app.url = "memory://"
    worker = Worker(app, concurrency=CONCURRENCY, entrypoints=["errand"])
    done = 0

    def count() -> None:
        nonlocal done
        done += 1
        if done == jobs:
            worker.stop()

    on_run[:] = [count]
    async with app:
        await asyncio.gather(*(errand.enqueue(**ARGUMENTS) for _ in range(jobs)))
        began_s = time.process_time()
        await worker.run()
        return time.process_time() - began_s
