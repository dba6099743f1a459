"""InsideBrokers: the broker on which a dashboard stands, asked from inside by the usual messages.

No socket is between them, and everything else is: the door that looks at the visitor's token, the
roles of each method, and the limits. So a dashboard can do nothing that its visitor could not do
by any other client. What is read comes from the storage itself, also while another broker leads.
"""

from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from google.protobuf.message import Message

from bucketq.broker.access import Caller, Role
from bucketq.broker.redaction import redacted
from bucketq.broker.serving import Inside
from bucketq.remote.message_brokers import MessageBrokers
from bucketq.storage.port import ObjectPage, check_object_name

M = TypeVar("M", bound=Message)


class InsideBrokers(MessageBrokers):
    """One visitor's way to the broker."""

    def __init__(self, inside: Inside, authorization: str | None, peer: str) -> None:
        self._inside = inside
        self._authorization = authorization
        self._peer = peer

    async def read_object(self, address: str, name: str) -> bytes:
        async with self._visit("ReadObject") as caller:
            if name:
                check_object_name(name)
                return await self._inside.storage.objects.read(name)
            content, _ = await self._inside.storage.read()
            return content if caller.may(Role.ADMIN) else redacted(content)

    async def list_objects(self, address: str, prefix: str, after: str) -> ObjectPage:
        async with self._visit("ListObjects"):
            behind = [info async for info in self._inside.storage.objects.list(prefix) if info.name > after]
        return ObjectPage(sorted(behind, key=lambda info: info.name), False)

    async def create_object(self, address: str, name: str, content: bytes) -> None:
        async with self._visit("CreateObject") as caller:
            caller.need_to_create()
            await self._inside.service.create_object(name, content)

    async def close(self) -> None:
        return None

    async def _ask(self, address: str, method: str, request: Message, response: type[M]) -> M:
        async with self._visit(self._inside.rpc.known(method)) as caller:
            content = await self._inside.rpc.call(method, request.SerializeToString(), caller)
        return response.FromString(content)

    def _visit(self, method: str) -> AbstractAsyncContextManager[Caller]:
        return self._inside.door.visit(self._authorization, self._peer, Role.VIEWER, "dashboard", method)
