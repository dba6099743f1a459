"""Call: one thing that may be asked of a broker in JSON.

    REST        POST /v1/jobs/7/complete {"workerId": "w"}                         ┐
                                                                                   ├▶ perform ──▶ answer
    WebSocket   {"id": 1, "method": "completeJob", "params": {"jobId": "7", …}}    ┘

What is asked is a Struct: over REST its fields come from the path, the query and the body, over
WebSocket all of them are in `params`.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar, get_origin, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from bucketq.broker.access import Caller, Role
from bucketq.broker.served import ServedQueue
from bucketq.broker.service import Service
from bucketq.errors import BrokerProtocolError, ConfigurationError
from bucketq.job import Claim
from bucketq.jobline import UNREADABLE

T = TypeVar("T")
A = TypeVar("A", bound="Asked")


class Asked(msgspec.Struct, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What comes with a call. What is in the path has a default, and is never empty.

    `rules` say in JSON Schema which fields go together, for OpenAPI.
    """

    rules: ClassVar[dict[str, Any]] = {}


@dataclass(frozen=True)
class Visit:
    """One call of one caller."""

    service: Service
    caller: Caller

    async def lead(
        self,
        work: Callable[[ServedQueue], Awaitable[T]],
        if_abandoned: Callable[[ServedQueue, T], object] | None = None,
    ) -> T:
        """Have something done by the queue, if this broker leads it. Raises NotLeaderError."""
        return await self.service.broker.lead(work, if_abandoned)

    def worker(self, worker_id: str) -> str:
        """What the queue calls a worker. Two with different tokens are never the same."""
        return f"{worker_id}@{self.caller.name}" if self.caller.name else worker_id

    async def claim(self, job_id: str, token: str | None, worker_id: str | None) -> Claim:
        """The claim that a worker holds, by its token or by its name. Raises ClaimLostError."""
        if token is not None:
            return Claim(job_id, token)
        if worker_id is None:
            raise ConfigurationError("whose claim is it? Give the token that came with the job, or workerId")
        return await self.lead(lambda queue: queue.claim_of(job_id, self.worker(worker_id)))


Perform = Callable[[Visit, Any], Awaitable[Any]]


@dataclass(frozen=True)
class Call:
    """One thing that may be asked: its names, who may, and what is done."""

    name: str
    method: str
    path: str
    role: Role
    perform: Perform

    @cached_property
    def asked(self) -> type[Asked]:
        """What comes with it."""
        asked: type[Asked] = get_type_hints(self.perform)["asked"]
        return asked

    @cached_property
    def told(self) -> Any:
        """The type of its answer; NoneType if there is none."""
        return get_type_hints(self.perform)["return"]

    @cached_property
    def in_path(self) -> tuple[str, ...]:
        """The fields that are in the path."""
        return tuple(re.findall(r"{(\w+)", self.path))

    @property
    def is_by_query(self) -> bool:
        """Whether REST has its fields in the query, not in a body."""
        return self.method in ("GET", "DELETE")

    async def answer(self, visit: Visit, asked: Asked) -> Any:
        """Do what is asked, within what the broker allows.

        Raises TooLargeError and TooManyRequestsError, and what the call itself raises.
        """
        for name in self._lists:
            visit.service.check_amount(len(getattr(asked, name)))
        with visit.service.wait(visit.caller, getattr(asked, "wait", 0.0)):
            return await self.perform(visit, asked)

    @cached_property
    def _lists(self) -> list[str]:
        # A list is of jobs, or of claims; what else there are several of is a tuple.
        fields = msgspec.structs.fields(self.asked)
        return [field.name for field in fields if get_origin(field.type) is list]

    @cached_property
    def _fields(self) -> dict[str, str]:
        return {field.encode_name: field.name for field in msgspec.structs.fields(self.asked)}

    @cached_property
    def _decoder(self) -> "msgspec.json.Decoder[Asked]":
        return msgspec.json.Decoder(self.asked)

    def decode(self, params: bytes) -> Asked:
        """What is asked, all of it in JSON. Raises BrokerProtocolError."""
        asked = self._decode(params)
        for name in self.in_path:
            if not getattr(asked, self._fields[name]):
                raise BrokerProtocolError(f"{self.name} needs {name}")
        return asked

    def decode_rest(self, path: Mapping[str, str], query: Mapping[str, str], body: bytes) -> Asked:
        """What is asked, by path, query and body. Raises BrokerProtocolError."""
        if self.is_by_query:
            return decode_query(self.asked, {**query, **path})
        if not body and not path:
            # A body that was lost on its way must not become a job, or a pause of the whole queue.
            raise BrokerProtocolError(f"{self.method} {self.path} takes a JSON object; send {{}} for none")
        asked = self._decode(body)
        for name, value in path.items():
            if getattr(asked, self._fields[name]):
                raise BrokerProtocolError(f"{name} is in the path: leave it out of the body")
            setattr(asked, self._fields[name], value)
        return asked

    def _decode(self, content: bytes) -> Asked:
        try:
            return self._decoder.decode(content or b"{}")
        except UNREADABLE as error:
            what = f"{self.name} ({self.method} {self.path})"
            raise BrokerProtocolError(f"{what} does not take this: {error}") from error


def given(value: T | UnsetType) -> T | None:
    """A field, or None if it was left out."""
    return None if value is UNSET else value


def decode_query(kind: type[A], query: Mapping[str, str]) -> A:
    """What is asked by a query. Raises BrokerProtocolError."""
    try:
        return msgspec.convert(dict(query), kind, strict=False)
    except msgspec.MsgspecError as error:
        raise BrokerProtocolError(f"the query does not fit: {error}") from error


def call(name: str, route: str, role: Role) -> Callable[[Perform], Call]:
    """Make a function a call, with a name for WebSocket and a route for REST."""
    method, path = route.split(" ")
    return lambda perform: Call(name, method, path, role, perform)
