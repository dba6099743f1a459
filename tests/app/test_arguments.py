"""Arguments of handlers: what goes into a payload, comes back as the type that the function asks for."""

import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from bucketq import App, ConfigurationError, PayloadError, provided
from bucketq.app import Rejected
from bucketq.app.attempt import Attempts


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@dataclass
class Address:
    street: str
    tags: list[str] = field(default_factory=list)


class Point(msgspec.Struct):
    x: int
    y: int = 0


class Pair(NamedTuple):
    left: int
    right: str


class Options(TypedDict, total=False):
    deep: bool


class Customer(pydantic.BaseModel):
    name: str
    since: datetime
    addresses: list[Address] = []


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CUSTOMER = Customer(name="Ada", since=NOON, addresses=[Address("Mill Lane")])

KINDS: dict[str, tuple[Any, Any]] = {
    "str": (str, "héllo"),
    "int": (int, -7),
    "float": (float, 1.5),
    "bool": (bool, True),
    "bytes": (bytes, b"\x00\xff"),
    "None": (int | None, None),
    "Any": (Any, {"deep": [1, 2]}),
    "dataclass": (Address, Address("Mill Lane", ["home"])),
    "Struct": (Point, Point(1, 2)),
    "pydantic": (Customer, CUSTOMER),
    "list of pydantic": (list[Customer], [CUSTOMER]),
    "optional pydantic": (Customer | None, CUSTOMER),
    "datetime": (datetime, NOON),
    "date": (date, date(2026, 3, 1)),
    "timedelta": (timedelta, timedelta(minutes=3)),
    "UUID": (uuid.UUID, uuid.UUID(int=7)),
    "Decimal": (Decimal, Decimal("0.10")),
    "Enum": (Colour, Colour.RED),
    "IntEnum": (Level, Level.HIGH),
    "set": (set[str], {"a", "b"}),
    "frozenset": (frozenset[int], frozenset({1, 2})),
    "tuple": (tuple[int, str], (1, "a")),
    "NamedTuple": (Pair, Pair(1, "a")),
    "TypedDict": (Options, {"deep": True}),
    "Literal": (Literal["small", "large"], "small"),
    "dict": (dict[str, list[int]], {"a": [1]}),
    "dict by int": (dict[int, str], {1: "a"}),
    "constrained": (Annotated[int, msgspec.Meta(ge=0)], 0),
}


def handler_of(type_: Any) -> Any:
    async def handle(value: Any) -> None: ...

    handle.__annotations__["value"] = type_
    return App("memory://").job(handle)


def handler_with_default(type_: Any) -> Any:
    async def handle(value: Any = None) -> None: ...

    handle.__annotations__["value"] = type_
    return App("memory://").job(handle)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("handler_for", [handler_of, handler_with_default])
def test_a_value_comes_back_as_it_was(kind: str, handler_for: Callable[[Any], Any]) -> None:
    type_, value = KINDS[kind]
    handler = handler_for(type_)
    found = handler.arguments.decode(handler.call(value).payload)["value"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (str, 1),
        (int, "1"),
        (Literal["small", "large"], "medium"),
        (tuple[int, str], (1, 2)),
        (Address, {"street": 1}),
        (Point, Address("Mill Lane")),
        (Customer, {"name": "Ada"}),
        (datetime, "yesterday"),
        (uuid.UUID, "7"),
        (Colour, "blue"),
        (Annotated[int, msgspec.Meta(ge=0)], -1),
    ],
)
def test_what_does_not_fit_is_refused_and_the_parameter_named(type_: Any, value: Any) -> None:
    with pytest.raises(PayloadError, match=r"(?s)do not fit .*handle\(value\): .*at `\$\.value"):
        handler_of(type_).call(value)


def test_a_value_that_is_not_json_is_refused() -> None:
    with pytest.raises(PayloadError, match=r"handle\(\) cannot be JSON.*object"):
        handler_of(Any).call(object())


app = App("memory://")


class Database: ...


@app.resource
def database() -> Database:
    return Database()


@app.job
async def send(
    to: str, subject: str = "Hi", *, urgent: bool = False, database: Database = provided()
) -> None: ...


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("alice",), {"urgent": True}),
        ((), {"to": "alice", "urgent": True}),
    ],
)
def test_arguments_by_place_and_by_name(args: Any, kwargs: Any) -> None:
    assert msgspec.json.decode(send.call(*args, **kwargs).payload) == {"to": "alice", "urgent": True}


def test_what_is_left_out_is_not_in_the_payload() -> None:
    assert send.arguments.decode(send.call("alice").payload) == {"to": "alice"}


@pytest.mark.parametrize(
    ("args", "kwargs", "reason"),
    [
        ((), {}, "missing required field `to`"),
        (("alice", "Hi", True), {}, "3 are too many without their names"),
        (("alice",), {"to": "bob"}, "`to` is given twice"),
        (("alice",), {"cc": "bob"}, "unknown field `cc`"),
    ],
)
def test_calls_that_python_would_refuse_too(args: Any, kwargs: Any, reason: str) -> None:
    with pytest.raises(PayloadError, match=rf"do not fit send\(to, subject, urgent\): .*{reason}"):
        send.call(*args, **kwargs)


def test_parameters_that_no_payload_can_fill() -> None:
    strange = App("memory://")

    @strange.job
    async def star(*names: str) -> None: ...

    @strange.job
    async def only_by_place(name: str, /) -> None: ...

    @strange.job
    async def two_models(value: Address | Point) -> None: ...

    with pytest.raises(ConfigurationError, match=r"star\(\) takes \*names"):
        star.call("a")
    with pytest.raises(ConfigurationError, match=r"only_by_place\(\) takes name"):
        only_by_place.call("a")
    with pytest.raises(ConfigurationError, match=r"two_models\(\) cannot be checked"):
        two_models.call(Point(1))


def test_annotations_that_cannot_be_read() -> None:
    @App("memory://").job
    async def lost(value: "NoSuchType") -> None: ...  # noqa: F821

    with pytest.raises(ConfigurationError, match=r"annotations of .*lost\(\) cannot be read.*NoSuchType"):
        lost.call(1)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({"to": 7}, "Expected `str`, got `int` - at `$.to`"),
        ({}, "missing required field `to`"),
        ({"to": "alice", "cc": "bob"}, "unknown field `cc`"),
        (["alice"], "Expected `object`, got `array`"),
        (b"\xff\xfe", "invalid"),
        (b"", "missing required field `to`"),
    ],
)
async def test_a_payload_that_does_not_fit_is_rejected_with_the_reason(payload: Any, reason: str) -> None:
    async with app, Attempts(app) as attempts:
        queue = await app.opened()
        await queue.enqueue("send", payload)
        [job] = await queue.dequeue("send")
        outcome = await attempts.attempt(job)
        assert isinstance(outcome, Rejected)
        assert "do not fit send(to, subject, urgent)" in outcome.error
        assert reason.lower() in outcome.error.lower()


class Strange:
    """Nothing that msgspec or pydantic know of."""


def test_a_type_that_cannot_be_made_of_json() -> None:
    with pytest.raises(PayloadError, match=r"a Strange cannot be made of JSON - at `\$\.value"):
        handler_of(Strange).call({"a": 1})
