"""Opening the queue that a command is for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from bucketq.cli.configuration import CURRENT, FILE, refuse_secret
from bucketq.errors import ConfigurationError

if TYPE_CHECKING:
    from bucketq.queue import Queue
    from bucketq.state import QueueState

_INTERRUPTED_S = 1.0


def queue_url(at: str = "", url: str = "") -> str:
    """The queue's URL: as an argument, by `--url`, or as it is configured. Raises ConfigurationError."""
    for given in (at, url):
        refuse_secret(given, "the URL")
    if at and url and at != url:
        raise ConfigurationError(f"which queue: {at}, or --url {url}?")
    if given := at or url:
        return given
    if configured := CURRENT.get().used_url():
        return configured
    raise ConfigurationError(
        "which queue? Name it by --url, such as --url file:///var/lib/myapp/queue.json, set BUCKETQ_URL, or"
        f" let `bucketq init` make a {FILE}"
    )


@asynccontextmanager
async def opened(at: str = "", url: str = "") -> "AsyncIterator[Queue]":
    """The queue, open, with the settings of the environment and of bucketq.toml."""
    import asyncio

    from bucketq.url import connect

    url = queue_url(at, url)
    if url.startswith("memory://"):
        raise ConfigurationError(
            "memory:// is gone when this command ends; a queue that stays is a file, such as"
            " file:///var/lib/myapp/queue.json, or in a bucket"
        )
    queue = await connect(url, settings=CURRENT.get().settings()).__aenter__()
    patience_s = None
    try:
        yield queue
    except asyncio.CancelledError:
        # After Ctrl-C, what was begun gets a moment; a lock, or a storage, may be away for long.
        patience_s = _INTERRUPTED_S
        raise
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await queue.__aexit__(None, None, None)


@asynccontextmanager
async def opened_existing(at: str = "", url: str = "") -> "AsyncIterator[Queue]":
    """The queue, open. Raises ConfigurationError if there is none: it must not be taken for an empty one."""
    async with opened(at, url) as queue:
        await read_existing(queue)
        yield queue


async def read_existing(queue: "Queue") -> "QueueState":
    """queue.json without its backlog. Raises ConfigurationError if there is none: the URL may be misspelt."""
    from bucketq.storage.port import describe

    state = await queue.read_file()
    if not state.version:
        raise ConfigurationError(
            f"there is no queue at {describe(queue.storage)}; is the URL right? `bucketq enqueue` makes one"
        )
    return state
