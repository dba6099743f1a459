"""MessageBrokers: brokers that are asked by the messages of proto/bucketq/v1/queue.proto.

    GrpcBrokers   a call of gRPC
    HttpBrokers   POST /v1/rpc/{method}; objects by GET and PUT /v1/objects/{name}
    WsBrokers     a Frame on a WebSocket; objects as HttpBrokers

They differ in what carries a message. What is in it is written and read here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import NamedTuple, TypeVar

import msgspec
from google.protobuf.message import DecodeError, Message

from bucketq.account import Spending
from bucketq.ending import Ending
from bucketq.errors import ConfigurationError
from bucketq.operation import Answers, Operation, Refresh
from bucketq.remote.brokers import UnreachableError
from bucketq.storage.port import ObjectInfo, ObjectPage
from bucketq.v1 import queue_pb2 as pb
from bucketq.wanted import Wanted, names_of
from bucketq.wire import answer_of, ending_of, info_of, operation_message, spending_of

M = TypeVar("M", bound=Message)


class MessageBrokers(ABC):
    """Puts questions into messages, and takes answers out of them."""

    async def batch(
        self, address: str, session: str, number: int, seen_version: int, operations: Sequence[Operation]
    ) -> Answers:
        request = pb.BatchRequest(session=session, number=number, seen_version=seen_version)
        unsent: dict[int, ConfigurationError] = {}
        for place, operation in enumerate(operations):
            try:
                request.operations.append(operation_message(operation))
            except (ValueError, TypeError) as error:
                # Such as a name that is no text. The others must not suffer from it.
                request.operations.append(operation_message(Refresh()))
                unsent[place] = ConfigurationError(f"this cannot be sent to a broker: {error}")
        response = await self._ask(address, "Batch", request, pb.BatchResponse)
        with understanding(address):
            answers = [answer_of(*both) for both in zip(operations, response.answers, strict=True)]
        return Answers(response.version, [unsent.get(place, answer) for place, answer in enumerate(answers)])

    async def wait_ready(self, address: str, wanted: Wanted, timeout_s: float) -> None:
        request = pb.WaitReadyRequest(entrypoints=names_of(wanted), timeout_us=int(timeout_s * 1e6))
        await self._ask(address, "WaitReady", request, pb.Done)

    async def list_objects(self, address: str, prefix: str, after: str) -> ObjectPage:
        request = pb.ListObjectsRequest(prefix=prefix, after=after)
        response = await self._ask(address, "ListObjects", request, pb.ListObjectsResponse)
        with understanding(address):
            page = ObjectPage(list(map(info_of, response.objects)), response.has_more)
            names = [after, *(info.name for info in page.objects)]
            # The last name of a page asks for the next one: out of order, that would be asked for ever.
            if any(one >= next_one for one, next_one in pairwise(names)) or (
                page.has_more and not page.objects
            ):
                raise ValueError("a listing that does not go on")
            return page

    async def collect_garbage(self, address: str, *, dry_run: bool) -> list[ObjectInfo]:
        request = pb.CollectGarbageRequest(dry_run=dry_run)
        response = await self._ask(address, "CollectGarbage", request, pb.CollectGarbageResponse)
        with understanding(address):
            return list(map(info_of, response.removed))

    async def find_archived(self, address: str, job_id: str) -> Ending | None:
        request = pb.FindArchivedRequest(job_id=job_id)
        response = await self._ask(address, "FindArchived", request, pb.FindArchivedResponse)
        with understanding(address):
            return ending_of(response.ending) if response.HasField("ending") else None

    async def spending(self, address: str) -> Spending:
        response = await self._ask(address, "Spending", pb.SpendingRequest(), pb.SpendingResponse)
        return spending_of(response)

    async def who_am_i(self, address: str) -> "Introduction":
        """Ask the broker at an address whom it takes the caller for."""
        response = await self._ask(address, "Leader", pb.LeaderRequest(), pb.LeaderResponse)
        return Introduction(response.caller, frozenset(response.roles))

    @abstractmethod
    async def _ask(self, address: str, method: str, request: Message, response: type[M]) -> M:
        """Call a method of the broker at an address."""

    @abstractmethod
    async def read_object(self, address: str, name: str) -> bytes:
        """Read an object beside the queue, or the queue itself, whose name is empty."""

    @abstractmethod
    async def create_object(self, address: str, name: str, content: bytes) -> None:
        """Create a segment or a payload."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of all connections."""


class Introduction(NamedTuple):
    """Whom a broker takes a caller for: the name of their token, and the roles that it has."""

    name: str
    roles: frozenset[str]


@contextmanager
def understanding(address: str) -> Iterator[None]:
    """Raise UnreachableError for an answer that is none: something stands between, or is no broker."""
    try:
        yield
    except (DecodeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise UnreachableError(f"{address} gave an answer that is none: {error}", was_sent=True) from error
