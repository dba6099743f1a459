"""SimulatedBucket: an object store in virtual time whose network does its worst.

    client ──request──▶ …delay…  ┌────────┐ …delay…  ──answer──▶ client
                  lost, doubled, │ object │ lost, turned into an error
                  held for long  └────────┘

The object itself is never wrong: reads see the last write, and a conditional write lands
if and only if its condition holds at that moment. Everything on the way to it and back may
go wrong, as told by `Weather`, by a seeded generator, so that a run can be repeated.
"""

import asyncio
import hashlib
import random
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

from bucketq.errors import CASConflictError, SlowDownError, StorageError
from bucketq.storage.memory import InMemoryObjects

CLIENT_TIMEOUT_S = 3.0


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
    """One write that changed the object."""

    at_s: float
    by: str
    content: bytes


@dataclass
class SimulatedBucket:
    """The one object and everything that ever happened to it."""

    random: random.Random
    weather: Weather = CALM
    is_out: bool = False
    content: bytes = b""
    etag: str | None = None
    landings: list[Landing] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    requests: int = 0

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
        self.landings.append(Landing(asyncio.get_running_loop().time(), client, content))
        return self.etag

    def get(self) -> tuple[bytes, str | None]:
        """What the server does with a read."""
        return self.content, self.etag

    def send(self, client: str, what: str, act: Callable[[], Any], answer: "asyncio.Future[Any]") -> None:
        """Carry a request there and its answer back, or not."""
        self.requests += 1
        mishap = self._mishap(what)
        note = f"{asyncio.get_running_loop().time():9.3f} {client} {what}"
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
            self._later(there_s, self._arrive, act, answer, mishap)
            if mishap == "doubled":
                self._later(there_s + self._delay_s() * 5, self._arrive, act, answer, None)

    def _arrive(self, act: Callable[[], Any], answer: "asyncio.Future[Any]", mishap: str | None) -> None:
        outcome: Any
        try:
            outcome = act()
        except CASConflictError as error:
            outcome = error
        if mishap == "no answer":
            return
        if mishap == "lost answer":
            disguise = self.random.choice([StorageError, SlowDownError, CASConflictError])
            outcome = disguise("simulated: the answer was lost")
        self._later(self._delay_s(), _settle, answer, outcome)

    def _mishap(self, what: str) -> str | None:
        if self.is_out:
            return "outage"
        weather = self.weather
        likely = {
            "lost request": weather.lost_request,
            "lost answer": weather.lost_answer if what == "write" else 0,
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
        self.objects = InMemoryObjects()

    async def read(self) -> tuple[bytes, str | None]:
        found: tuple[bytes, str | None] = await self._ask("read", self._bucket.get)
        return found

    async def read_if_changed(self, etag: str | None) -> tuple[bytes, str | None] | None:
        found = await self.read()
        return None if found[1] == etag else found

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        whole = content if isinstance(content, bytes) else b"".join(content)
        etag: str = await self._ask("write", lambda: self._bucket.put(self._client, whole, if_match))
        return etag

    async def _ask(self, what: str, act: Callable[[], Any]) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._bucket.send(self._client, what, act, answer)
        try:
            async with asyncio.timeout(CLIENT_TIMEOUT_S):
                return await answer
        except TimeoutError as error:
            raise StorageError("simulated: timeout", error) from error


def _settle(answer: "asyncio.Future[Any]", outcome: Any) -> None:
    if answer.done():
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
