"""Events: what a worker tells an app's callbacks."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple, get_args

from bucketq.app.outcome import Completed, Outcome
from bucketq.errors import ConfigurationError
from bucketq.job import Job
from bucketq.log_fields import fields_of

log = logging.getLogger("bucketq")

EventName = Literal["claimed", "completed", "failed"]


class Event(NamedTuple):
    """Something that happened to a job: `claimed`, `completed`, or `failed` (rejected too).

    `outcome` is None until the attempt has ended.
    """

    name: EventName
    job: Job
    outcome: Outcome | None = None


Callback = Callable[[Event], Awaitable[None] | None]


class Callbacks:
    """Who wants to hear of what."""

    def __init__(self) -> None:
        self._by_name: dict[str, list[Callback]] = {}

    def add(self, name: EventName, callback: Callback) -> None:
        """Tell the callback of each such event from now on. Raises ConfigurationError."""
        if name not in get_args(EventName):
            raise ConfigurationError(f"an event is claimed, completed or failed, not {name!r}")
        self._by_name.setdefault(name, []).append(callback)

    async def tell_claimed(self, job: Job) -> None:
        """Call everybody who wants to know that an attempt begins."""
        await self._tell("claimed", job)

    async def tell_ended(self, job: Job, outcome: Outcome) -> None:
        """Call everybody who wants to know how an attempt ended."""
        await self._tell("completed" if isinstance(outcome, Completed) else "failed", job, outcome)

    async def _tell(self, name: EventName, job: Job, outcome: Outcome | None = None) -> None:
        """What callbacks raise is logged, and harms nobody."""
        for callback in self._by_name.get(name, ()):
            try:
                answer = callback(Event(name, job, outcome))
                if inspect.isawaitable(answer):
                    await answer
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                    raise
                log.exception("a callback for %s of job %s failed", name, job.id, extra=fields_of(job))


def is_being_cancelled() -> bool:
    """Whether somebody cancels this task; or else a CancelledError comes from what it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
