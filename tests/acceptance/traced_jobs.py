"""An app whose handlers make spans and write to the log."""

import logging
import os

from opentelemetry import trace

from bucketq import App

app = App(os.environ["TRACED_URL"])
log = logging.getLogger("shop")
tracer = trace.get_tracer("shop")


@app.job
async def mail(to: str) -> None:
    with tracer.start_as_current_span("smtp"):
        log.info("connected")
        await audit.enqueue("mail sent")


@app.job
def audit(what: str) -> None: ...


@app.job(max_attempts=1)
async def broken() -> None:
    raise LookupError("no such customer")


@app.job(runs_in="process")
def crunch(n: int) -> int:
    with tracer.start_as_current_span("crunching"):
        log.warning("heavy")
    return n
