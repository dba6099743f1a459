"""Events: what a worker tells an app's callbacks."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple, get_args

from bucketq.app.outcome import Outcome
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

    def __contains__(self, name: EventName) -> bool:
        return name in self._by_name

    async def tell(self, event: Event) -> None:
        """Call everybody who wants to know; what they raise is logged, and harms nobody."""
        for callback in self._by_name.get(event.name, ()):
            try:
                answer = callback(event)
                if inspect.isawaitable(answer):
                    await answer
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                    raise
                log.exception(
                    "a callback for %s of job %s failed", event.name, event.job.id, extra=fields_of(event.job)
                )


def is_being_cancelled() -> bool:
    """Whether somebody cancels this task; or else a CancelledError comes from what it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
