"""SimulatedBucket: an object store in virtual time whose network does its worst.

    client ──request──▶ …delay…  ┌─────────┐ …delay…  ──answer──▶ client
                  lost, doubled, │ objects │ lost, turned into an error
                  held for long  └─────────┘

The queue's object and those beside it are never wrong: reads and listings see the last
write, and a conditional write or a create lands if and only if its condition holds at that
moment. Everything on the way there and back may go wrong, as told by `Weather`, by a seeded
generator, so that a run can be repeated.
"""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from bucketq.errors import (
    CASConflictError,
    ObjectExistsError,
    ObjectNotFoundError,
    SlowDownError,
    StorageError,
)
from bucketq.storage.port import ObjectInfo

T = TypeVar("T")

CLIENT_TIMEOUT_S = 3.0
# The server's clock is a VirtualClock's without skew.
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Weather:
    """How likely each mishap is, for one request, and how long requests take."""

    lost_request: float = 0.0
    lost_answer: float = 0.0
    no_answer: float = 0.0
    doubled: float = 0.0
    held: float = 0.0
    conflict: float = 0.0
    slow_down: float = 0.0
    delay_s: float = 0.02


CALM = Weather()


@dataclass(frozen=True)
class Landing:
    """One write that changed the queue's object."""

    at_s: float
    by: str
    content: bytes
    # The names of the objects that were there beside it.
    beside: frozenset[str]


@dataclass(frozen=True)
class SideObject:
    """One object beside the queue."""

    content: bytes
    created_at_s: float


@dataclass(frozen=True)
class Removal:
    """One delete that removed an object beside the queue."""

    at_s: float
    by: str
    name: str


@dataclass
class SimulatedBucket:
    """The queue's object, the objects beside it, and everything that ever happened to them."""

    random: random.Random
    weather: Weather = CALM
    is_out: bool = False
    content: bytes = b""
    etag: str | None = None
    landings: list[Landing] = field(default_factory=list)
    objects: dict[str, SideObject] = field(default_factory=dict)
    # Those since deleted too, so that a run can be checked when it is over.
    created: dict[str, bytes] = field(default_factory=dict)
    removals: list[Removal] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    requests: int = 0
    # Told of each request as it is sent: (client, what).
    on_request: Callable[[str, str], None] | None = None

    def storage(self, client: str) -> "SimulatedStorage":
        """An adapter for one client."""
        return SimulatedStorage(self, client)

    def put(self, client: str, content: bytes, if_match: str | None) -> str:
        """What the server does with a write, in one instant."""
        if if_match != self.etag:
            raise CASConflictError(f"simulated: at {self.etag}, not {if_match}")
        self.content = content
        # A hash, as on S3: equal content would have an equal etag.
        self.etag = hashlib.sha256(content).hexdigest()[:16]
        self.landings.append(Landing(_now_s(), client, content, frozenset(self.objects)))
        return self.etag

    def get(self) -> tuple[bytes, str | None]:
        """What the server does with a read."""
        return self.content, self.etag

    def get_object(self, name: str) -> bytes:
        """What the server does with a read of an object beside the queue."""
        if name not in self.objects:
            raise ObjectNotFoundError(f"simulated: no object {name!r}")
        return self.objects[name].content

    def create_object(self, name: str, content: bytes) -> None:
        """What the server does with a create-only write of an object beside the queue."""
        if name in self.objects:
            raise ObjectExistsError(f"simulated: object {name!r} is already there")
        self.objects[name] = SideObject(content, _now_s())
        self.created[name] = content

    def list_objects(self, prefix: str) -> list[ObjectInfo]:
        """What the server does with a listing: all of this instant, in any order."""
        infos = [
            ObjectInfo(name, len(found.content), EPOCH + timedelta(seconds=found.created_at_s))
            for name, found in self.objects.items()
            if name.startswith(prefix)
        ]
        self.random.shuffle(infos)
        return infos

    def delete_object(self, client: str, name: str) -> None:
        """What the server does with a delete."""
        if self.objects.pop(name, None) is not None:
            self.removals.append(Removal(_now_s(), client, name))

    def send(self, client: str, what: str, act: Callable[[], Any], answer: "asyncio.Future[Any]") -> None:
        """Carry a request there and its answer back, or not.

        `what` is "read" or "write" for the queue's object, else a verb and a name.
        """
        self.requests += 1
        if self.on_request is not None:
            self.on_request(client, what)
        mishap = self._mishap(what)
        note = f"{_now_s():9.3f} {client} {what}"
        self.trace.append(f"{note}: {mishap}" if mishap else note)
        there_s = self._delay_s()
        if mishap == "held":
            # Mostly about as long as the client waits: it may land just before or after the retry.
            longest = self.random.choice([1.3, 1.3, 3])
            there_s += self.random.uniform(0.9, longest) * CLIENT_TIMEOUT_S
        if mishap == "lost request":
            self._later(there_s, _settle, answer, StorageError("simulated: connection refused"))
        elif mishap == "outage":
            self._later(there_s, _settle, answer, StorageError("simulated: outage"))
        elif mishap == "slow down":
            self._later(there_s, _settle, answer, SlowDownError("simulated: 503"))
        elif mishap == "conflict":
            self._later(there_s, _settle, answer, CASConflictError("simulated: 409"))
        else:
            self._later(there_s, self._arrive, what, act, answer, mishap)
            if mishap == "doubled":
                self._later(there_s + self._delay_s() * 5, self._arrive, what, act, answer, None)

    def _arrive(
        self, what: str, act: Callable[[], Any], answer: "asyncio.Future[Any]", mishap: str | None
    ) -> None:
        outcome: Any
        try:
            outcome = act()
        except (CASConflictError, ObjectNotFoundError, ObjectExistsError) as error:
            outcome = error
        if mishap == "no answer":
            return
        if mishap == "lost answer":
            disguises = [StorageError, SlowDownError, *([CASConflictError] if what == "write" else [])]
            outcome = self.random.choice(disguises)("simulated: the answer was lost")
        self._later(self._delay_s(), _settle, answer, outcome)

    def _mishap(self, what: str) -> str | None:
        if self.is_out:
            return "outage"
        weather = self.weather
        verb = what.partition(" ")[0]
        likely = {
            "lost request": weather.lost_request,
            "lost answer": weather.lost_answer if verb in ("write", "create", "delete") else 0,
            "no answer": weather.no_answer,
            "doubled": weather.doubled,
            "held": weather.held,
            "conflict": weather.conflict if what == "write" else 0,
            "slow down": weather.slow_down,
        }
        draw = self.random.random()
        for name, chance in likely.items():
            draw -= chance
            if draw < 0:
                return name
        return None

    def _delay_s(self) -> float:
        return self.random.expovariate(1 / self.weather.delay_s)

    def _later(self, delay_s: float, callback: Callable[..., object], *args: Any) -> None:
        # In a context of its own: the network goes on when the client is dead.
        asyncio.get_running_loop().call_later(delay_s, callback, *args, context=Context())


class SimulatedStorage:
    """One client's adapter: a Bucket."""

    def __init__(self, bucket: SimulatedBucket, client: str) -> None:
        self._bucket = bucket
        self._client = client
        self.objects = SimulatedObjects(bucket, client)

    async def read(self) -> tuple[bytes, str | None]:
        return await _ask(self._bucket, self._client, "read", self._bucket.get)

    async def read_if_changed(self, etag: str | None) -> tuple[bytes, str | None] | None:
        found = await self.read()
        return None if found[1] == etag else found

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        whole = content if isinstance(content, bytes) else b"".join(content)
        bucket, client = self._bucket, self._client
        return await _ask(bucket, client, "write", lambda: bucket.put(client, whole, if_match))


class SimulatedObjects:
    """One client's way to the objects beside the queue, which it shares with every other client."""

    def __init__(self, bucket: SimulatedBucket, client: str) -> None:
        self._bucket = bucket
        self._client = client

    async def read(self, name: str) -> bytes:
        return await self._ask(f"read {name}", lambda: self._bucket.get_object(name))

    async def create(self, name: str, content: bytes) -> None:
        await self._ask(f"create {name}", lambda: self._bucket.create_object(name, content))

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        for info in await self._ask(f"list {prefix}".rstrip(), lambda: self._bucket.list_objects(prefix)):
            yield info

    async def delete(self, name: str) -> None:
        await self._ask(f"delete {name}", lambda: self._bucket.delete_object(self._client, name))

    async def _ask(self, what: str, act: Callable[[], T]) -> T:
        return await _ask(self._bucket, self._client, what, act)


async def _ask(bucket: SimulatedBucket, client: str, what: str, act: Callable[[], T]) -> T:
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    bucket.send(client, what, act, answer)
    try:
        async with asyncio.timeout(CLIENT_TIMEOUT_S):
            return await answer
    except TimeoutError as error:
        raise StorageError("simulated: timeout", error) from error


def _now_s() -> float:
    return asyncio.get_running_loop().time()


def _settle(answer: "asyncio.Future[Any]", outcome: Any) -> None:
    if answer.done():
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
