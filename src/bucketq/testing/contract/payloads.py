"""Payloads: what may be enqueued, and what is refused."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import msgspec

from bucketq.errors import ConfigurationError, PayloadError
from bucketq.testing.contract.suite import QueueSuite, raises


@dataclass
class Mail:
    """A payload as a dataclass."""

    to: str


class Picture(msgspec.Struct):
    """A payload as a msgspec Struct."""

    width: int


class Payloads(QueueSuite):
    """What may be enqueued, and what is refused."""

    async def test_payloads_are_bytes_or_json(self) -> None:
        async with self.open() as q:
            given: list[Any] = [b"\x00\xff", {"n": [1, None]}, Mail("alice"), Picture(3), "text", 7]
            await q.enqueue_many("any", given)
            jobs = await q.dequeue(batch_size=9)
            assert jobs[0].payload == b"\x00\xff"
            assert [job.json() for job in jobs[1:4]] == [{"n": [1, None]}, {"to": "alice"}, {"width": 3}]
            assert [job.json() for job in jobs[4:]] == ["text", 7]
            assert jobs[2].json(Mail) == Mail("alice")
            assert jobs[3].json(Picture) == Picture(3)

    async def test_bad_input_is_refused_and_nothing_is_enqueued(self) -> None:
        async with self.open() as q:
            for refused in (
                q.enqueue("mail", object()),
                q.enqueue("mail", b"x" * (q.settings.payload_bytes_max + 1)),
                q.enqueue_many("mail", [b"fine", {1, object()}]),
            ):
                with raises(PayloadError):
                    await refused
            anything: Any = [True, 1.5, "high", None, 2**60]
            wrong_calls: list[Coroutine[Any, Any, Any]] = [
                q.enqueue(""),
                q.enqueue("\ud800"),
                *(q.enqueue("mail", priority=wrong) for wrong in anything),
                *(q.enqueue("mail", max_attempts=wrong) for wrong in [0, *anything]),
                *(q.enqueue_many("mail", wrong) for wrong in ("abc", b"abc", {"a": 1})),
                *(q.ack(wrong) for wrong in anything if not isinstance(wrong, str)),
                q.dequeue(batch_size=0),
            ]
            for wrong_call in wrong_calls:
                with raises(ConfigurationError):
                    await wrong_call
            assert (await q.read_state()).stats.enqueued_total == 0

    async def test_an_error_is_a_text_or_an_exception(self) -> None:
        async with self.open() as q:
            errors: list[tuple[Any, str | None]] = [
                ("boom", "boom"),
                (ValueError("bad"), "ValueError: bad"),
                (None, None),
            ]
            for error, kept in errors:
                await q.enqueue("mail")
                [job] = await q.dequeue()
                assert (await q.nack(job, error=error)).error == kept
                [job] = await q.dequeue()
                wrong: Any = 404
                with raises(ConfigurationError):
                    await q.nack(job, error=wrong)
                await q.ack(job)

    async def test_deeply_nested_json_comes_back(self) -> None:
        async with self.open() as q:
            brackets = b"[" * 2000 + b"]" * 2000
            hidden = b'["' + b"]" * 2000 + b'",' + brackets + b"]"
            await q.enqueue_many("mail", [brackets, hidden])
            assert [job.payload for job in await q.dequeue(batch_size=2)] == [brackets, hidden]
            assert (await q.read_state()).stats.in_progress == 2
