"""A live line about a worker, on a terminal where rich is installed."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from bucketq.app.worker import Worker
from bucketq.errors import BucketQError
from bucketq.spark import Fleet

_INTERVAL_S = 1.0
# jobs/s are those of the last few seconds.
_WINDOW = 5


@asynccontextmanager
async def live_line(worker: Worker | Fleet, console: Console) -> AsyncIterator[None]:
    """Show how it goes inside the block; what is logged meanwhile appears above the line."""
    with Live(Text("starting"), console=console, auto_refresh=False, transient=True) as live:
        drawing = asyncio.create_task(_draw(worker, live), name="bucketq live line")
        try:
            yield
        finally:
            drawing.cancel()
            await asyncio.wait([drawing])


async def _draw(worker: Worker | Fleet, live: Live) -> None:
    samples = [(time.monotonic(), 0)]
    waiting = 0
    queue = await worker.app.opened()
    while True:
        running, done, failed = worker.counts
        with suppress(BucketQError, OSError, TimeoutError):
            async with asyncio.timeout(_INTERVAL_S):
                waiting = (await queue.stats()).queued
        samples = [*samples[-_WINDOW:], (time.monotonic(), done + failed)]
        (began_s, before), (now_s, after) = samples[0], samples[-1]
        rate = (after - before) / (now_s - began_s) if now_s > began_s else 0.0
        mine = f"{running} running · {done:,} done · {failed:,} failed"
        live.update(Text(f"{mine} · {waiting:,} waiting · {rate:,.0f} jobs/s"), refresh=True)
        await asyncio.sleep(_INTERVAL_S)
