"""An app whose jobs do nothing, so that only the worker is measured."""

import time
from collections.abc import Callable

from bucketq import App

app = App("memory://")
on_run: list[Callable[[], None]] = []


@app.job
async def errand(to: str, text: str) -> None:
    """Do nothing, and tell whoever counts."""
    for tell in on_run:
        tell()


@app.job
async def age(sent_s: float) -> float:
    """How long ago the job was sent, when it begins."""
    return time.monotonic() - sent_s
