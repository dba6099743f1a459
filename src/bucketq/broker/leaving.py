"""Leaving: somebody who waits for an answer may go away, and then nothing more is to be done for them."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

T = TypeVar("T")


async def unless_gone(work: Awaitable[T], receive: Receive) -> T:
    """Do something for a caller; cancel it when their connection is closed. Raises ClientDisconnect.

    A job that is claimed for them in that very moment goes back at once.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_wait_gone(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))
            raise ClientDisconnect
        return working.result()
    finally:
        leaving.cancel()
        working.cancel()


async def _wait_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
