"""Injection: a handler's function gets its arguments: those of the payload, and those that are provided.

In a worker, and in a process that it has started for one handler.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from bucketq.app.handler import Handler
from bucketq.app.resources import Resources
from bucketq.app.running import Running


async def open_for(handler: Handler[..., Any], resources: Resources) -> None:
    """Open what a handler asks for. Raises ConfigurationError, and what its provider raises."""
    await resources.open(type_ for type_ in handler.arguments.injected.values() if type_ is not Running)


def bind(handler: Handler[..., Any], running: Running, resources: Resources) -> Callable[[], Any]:
    """The handler's function with all of its arguments, to be called without. Raises PayloadError."""
    arguments = handler.arguments.decode(running.job.payload)
    for name, type_ in handler.arguments.injected.items():
        arguments[name] = running if type_ is Running else resources.get(type_)
    return partial(handler.function, **arguments)
