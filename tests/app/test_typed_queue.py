"""TypedQueue: values go in and come out as their type; what does not fit is dead, and says why."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import pydantic
import pytest

from bucketq import (
    ClaimLostError,
    ConfigurationError,
    DirectQueue,
    HeartbeatManager,
    InMemoryStorage,
    JobNotFoundError,
    PayloadError,
    Queue,
    TypedQueue,
)
from bucketq.retry import fixed


@dataclass
class Email:
    to: str
    at: datetime | None = None


class Order(pydantic.BaseModel):
    number: int


class Point(msgspec.Struct):
    x: int


@pytest.fixture
def queue() -> Queue:
    return DirectQueue(InMemoryStorage())


@pytest.mark.parametrize(
    "value", [Email("alice", datetime(2026, 3, 1, tzinfo=UTC)), Order(number=7), Point(3)]
)
async def test_values_come_back_as_their_type(queue: Queue, value: Email | Order | Point) -> None:
    values = TypedQueue(queue, type(value))
    job = await values.enqueue(value, priority=2, max_attempts=7)
    assert (job.entrypoint, job.priority, job.max_attempts) == (type(value).__name__, 2, 7)
    [item] = await values.dequeue()
    assert (item.value, type(item.value), item.job.id) == (value, type(value), job.id)
    await values.ack(item, result="sent")
    assert await queue.result(job) == "sent"


async def test_many_and_in_batches(queue: Queue) -> None:
    emails = TypedQueue(queue, Email)
    ids = await emails.enqueue_many(Email(f"user {n}") for n in range(3))
    items = await emails.dequeue(batch_size=2)
    assert [(item.job.id, item.value.to) for item in items] == [(ids[0], "user 0"), (ids[1], "user 1")]


async def test_types_do_not_take_each_others_values(queue: Queue) -> None:
    emails, orders = TypedQueue(queue, Email), TypedQueue(queue, Order, "orders.new")
    await orders.enqueue(Order(number=7))
    assert await emails.dequeue() == []
    assert (await queue.find((await orders.dequeue())[0].job)).entrypoint == "orders.new"


async def test_nack_tries_again(queue: Queue) -> None:
    emails = TypedQueue(queue, Email)
    await emails.enqueue(Email("alice"), max_attempts=3)
    [item] = await emails.dequeue()
    assert (await emails.nack(item, ValueError("full"))).status == "queued"
    [item] = await emails.dequeue()
    assert (await emails.nack(item, "full", retry=fixed(60))).status == "scheduled"
    assert item.job.error == "ValueError: full"


async def test_heartbeats_keep_a_value_and_say_when_it_is_lost(queue: Queue) -> None:
    emails = TypedQueue(queue, Email)
    await emails.enqueue(Email("alice"))
    [item] = await emails.dequeue()
    for claimed in (item, item.job):
        await emails.heartbeat(claimed, progress=0.5, note="half")
    found = await queue.find(item.job)
    assert (found.progress, found.note) == (0.5, "half")
    lost: asyncio.Future[JobNotFoundError] = asyncio.get_running_loop().create_future()
    async with HeartbeatManager(emails, item, interval=0.001, on_lost=lost.set_result):
        await queue.requeue_stale(timedelta(0))
        assert isinstance(await asyncio.wait_for(lost, 20), ClaimLostError)
    with pytest.raises(ClaimLostError):
        await emails.heartbeat(item)


async def test_a_value_that_does_not_fit_its_type_is_refused(queue: Queue) -> None:
    emails = TypedQueue(queue, Email)
    for wrong in (Email(7), Point(3), Email("alice", at=object())):
        with pytest.raises(PayloadError, match="Email"):
            await emails.enqueue(wrong)
    with pytest.raises(PayloadError, match="Email"):
        await emails.enqueue_many([Email("alice"), Email(7)])
    assert (await queue.stats()).enqueued_total == 0


async def test_a_payload_that_does_not_fit_is_dead_and_not_returned(queue: Queue) -> None:
    emails = TypedQueue(queue, Email)
    await queue.enqueue("Email", {"to": 7}, max_attempts=9)
    await queue.enqueue("Email", b"\xff")
    await emails.enqueue(Email("alice"))
    [item] = await emails.dequeue()
    assert item.value == Email("alice")
    errors = [job.error or "" async for job in queue.dead()]
    assert errors[0] == "the payload is no Email: Expected `str`, got `int` - at `$.to`"
    assert errors[1].startswith("the payload is no Email: ")
    assert await emails.dequeue() == []


def test_a_type_that_json_cannot_hold(queue: Queue) -> None:
    with pytest.raises(ConfigurationError, match="pairs cannot be read from JSON"):
        TypedQueue(queue, Email | Point, "pairs")
