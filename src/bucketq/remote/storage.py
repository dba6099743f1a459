"""RemoteStorage: a queue's storage as its brokers show it to clients that do not reach it."""

import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from bucketq.errors import ConfigurationError
from bucketq.remote.brokers import Brokers
from bucketq.storage.port import ObjectInfo, ObjectPage

T = TypeVar("T")


class Asks(Protocol):
    """Whoever puts questions to the broker that leads."""

    async def ask(self, question: Callable[[Brokers, str], Awaitable[T]]) -> T:
        """Put a question to the leader."""
        ...


class RemoteStorage:
    """Reads everything, and creates segments and payloads; what changes the queue is an operation."""

    def __init__(self, client: Asks, url: str) -> None:
        self.url = url
        self.objects = RemoteObjects(client)

    async def read(self) -> tuple[bytes, str | None]:
        content = await self.objects.read("")
        # There is a queue as soon as a broker leads it. Nobody writes by this etag, but a reader
        # that finds a segment gone sees by it whether the queue has moved on.
        return content, f"{len(content)}-{zlib.crc32(content)}"

    async def read_if_changed(self, etag: str | None) -> tuple[bytes, str | None] | None:
        return await self.read()

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        raise ConfigurationError(
            "a client of a broker does not write queue.json; open the queue's storage itself"
        )


class RemoteObjects:
    """The objects beside the queue, by way of the broker that leads."""

    def __init__(self, client: Asks) -> None:
        self._client = client

    async def read(self, name: str) -> bytes:
        return await self._client.ask(lambda brokers, address: brokers.read_object(address, name))

    async def create(self, name: str, content: bytes) -> None:
        await self._client.ask(lambda brokers, address: brokers.create_object(address, name, content))

    async def delete(self, name: str) -> None:
        # What nothing refers to is left to the broker's own collector.
        return None

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        after, has_more = "", True
        while has_more:
            page = await self._next_page(prefix, after)
            for info in page.objects:
                yield info
            after, has_more = page.objects[-1].name if page.objects else "", page.has_more

    async def _next_page(self, prefix: str, after: str) -> ObjectPage:
        return await self._client.ask(lambda brokers, address: brokers.list_objects(address, prefix, after))
