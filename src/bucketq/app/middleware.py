"""Middleware: code around every enqueue by an app or a handler, and around every run.

    @app.around_enqueue
    async def stamp(call, enqueue):
        return await enqueue(call._replace(priority=call.priority + 1))

    @app.around_run
    async def timed(running, run):
        started = time.monotonic()
        try:
            return await run()
        finally:
            print(running.job.entrypoint, time.monotonic() - started)

The first one that was added is the outermost. What `Running.enqueue` adds to a job's completion, and the
ticks of schedules, pass no middleware: nobody waits for them who could hear what it raises.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from bucketq.app.call import Call
from bucketq.app.running import Running
from bucketq.job import Job

Enqueue = Callable[[Call], Awaitable[Job]]
AroundEnqueue = Callable[[Call, Enqueue], Awaitable[Job]]
Run = Callable[[], Awaitable[Any]]
AroundRun = Callable[[Running, Run], Awaitable[Any]]


def wrap_enqueue(middleware: Sequence[AroundEnqueue], enqueue: Enqueue) -> Enqueue:
    """The enqueue, with everything around it."""
    for around in reversed(middleware):
        enqueue = partial(_enqueue_through, around, enqueue)
    return enqueue


def wrap_run(middleware: Sequence[AroundRun], running: Running, run: Run) -> Run:
    """The run of one job, with everything around it."""
    for around in reversed(middleware):
        run = partial(around, running, run)
    return run


def _enqueue_through(around: AroundEnqueue, enqueue: Enqueue, call: Call) -> Awaitable[Job]:
    return around(call, enqueue)
