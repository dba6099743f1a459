"""`bucketq top`: watch a queue live, on the whole terminal."""

import sys
from typing import Annotated

import typer

from bucketq.cli.opened import opened
from bucketq.cli.options import At, Url
from bucketq.errors import ConfigurationError


async def top(
    at: At = "",
    url: Url = "",
    every: Annotated[float, typer.Option(metavar="N", help="Look at the queue every so many seconds.")] = 1.0,
) -> int:
    """Watch a queue live: entrypoints, workers and jobs, throughput and latency.

    Keys filter and inspect jobs, retry and cancel them, and pause the queue; ? lists them, q quits.
    """
    try:
        from bucketq.top.screen import Top
    except ModuleNotFoundError:
        raise ConfigurationError("top takes an extra: pip install 'bucketq[top]'") from None
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigurationError("top needs a terminal; `bucketq stats` prints how the queue stands")
    async with opened(at, url) as queue:
        screen = Top(queue, every_s=every)
        await screen.run_async()
    return screen.return_code or 0
