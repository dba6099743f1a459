"""The jobs of the tour: quick emails, slow reports and one long film; some fail once, one report always."""

import asyncio

from bucketq.app import App, Running, provided
from bucketq.retry import fixed
from bucketq.settings import Settings

# A worker that is silent for so long is given up: more than a change of leaders takes.
STALE_AFTER_S = 5.0
UNKNOWN_CUSTOMER = 1

# Where the brokers are is known when they are up.
app = App("grpc://127.0.0.1", settings=Settings(stale_after_s=STALE_AFTER_S))


@app.job(priority=5, retry=fixed(1.0))
async def email(number: int, running: Running = provided()) -> str:
    """Send an email; the mail server is busy now and then."""
    await asyncio.sleep(0.25)
    if number % 50 == 20 and running.attempt == 1:
        raise ConnectionError("the mail server is busy")
    return "sent"


@app.job(retry=fixed(1.0))
async def report(number: int, running: Running = provided()) -> str:
    """Write a report, page by page; one customer is not known, however often one tries."""
    if number == UNKNOWN_CUSTOMER:
        raise LookupError("no such customer")
    return await _take(10, "page", running)


@app.job
async def film(number: int, running: Running = provided()) -> str:
    """Cut a film, which takes longer than anything else."""
    return await _take(40, "scene", running)


async def _take(steps: int, what: str, running: Running) -> str:
    for step in range(steps):
        running.report(step / steps, f"{what} {step + 1}")
        await asyncio.sleep(0.25)
    return f"{steps} {what}s"
