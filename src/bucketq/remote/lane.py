"""Lane: many callers, one message.

    caller ──submit──▶ ┐                                   ┌──▶ answer
    caller ──submit──▶ ├─ gather ─▶ batch 7 ─▶ the leader ─┼──▶ answer
    caller ──submit──▶ ┘      ▲                            └──▶ answer
                              └── meanwhile batch 8 gathers

The batches are numbered, and the next one goes when the last one's answers have come. Until
then the same batch may be sent again, to whoever leads: the queue remembers the number of the
last batch that it took from this session, so it is applied once.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Any

from bucketq.clock import Clock
from bucketq.deadline import in_time, last_since_s, refuse_late
from bucketq.errors import OutcomeUnknownError, QueueClosedError, SessionForgottenError
from bucketq.mint import Mint
from bucketq.operation import BATCH_OPERATIONS_MAX, Answers, Operation, Refresh, bytes_of
from bucketq.pending import IfAbandoned, Pending, give_answer, outlast, refuse
from bucketq.remote.brokers import Brokers
from bucketq.remote.seeker import Asking, Seeker

_BYTES_MAX = 8 * 1024 * 1024
# A client that was silent for longer may be forgotten; it is remembered for twice as long.
_IDLE_S = 300.0
# How long the claims of callers that went away are tried to be given back before the end.
_LAST_TRY_S = 2.0

# So many go into one message before another lane is used as well.
_FULL = 256


def choose(lanes: "Sequence[Lane]") -> "Lane":
    """The lane for the next operation: the first one that is not full.

    With few callers that is always the same one, and what one of them asks later never overtakes
    what was asked before. With many, this process prepares one batch while the broker has another.
    """
    for lane in lanes:
        if lane.gathered < _FULL:
            return lane
    return min(lanes, key=lambda lane: lane.gathered)


class Lane:
    """One session with the brokers."""

    def __init__(
        self, brokers: Brokers, seeker: Seeker, retry_for_s: float, clock: Clock, mint: Mint
    ) -> None:
        self._brokers = brokers
        self._seeker = seeker
        self._retry_for_s = retry_for_s
        self._clock = clock
        self._mint = mint
        self._session = mint.token()
        self._number = 0
        self._seen_version = 0
        self._heard_s = float("-inf")
        self._gathered: list[Pending] = []
        self._under_way: list[Pending] = []
        self._parked: asyncio.Future[None] | None = None
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name="bucketq lane")

    @property
    def gathered(self) -> int:
        """How many operations wait for the next batch."""
        return len(self._gathered)

    def submit(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> "asyncio.Future[Any]":
        """Add an operation to the next batch; the future brings its answer."""
        if self._closing or self._task.done():
            raise QueueClosedError("the queue is closed; open a new one with `async with`")
        if asyncio.get_running_loop() is not self._loop:
            raise QueueClosedError("the queue is open in another event loop; open one in this one too")
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._gathered.append(Pending(operation, answer, if_abandoned, since_s=self._clock.monotonic_s()))
        self._unpark()
        return answer

    async def close(self) -> None:
        """Take no more operations, send those already gathered, and stop.

        What nobody waits for any more is not insisted on.
        """
        self._closing = True
        self._unpark()
        await outlast(self._task, _LAST_TRY_S, lambda: (*self._under_way, *self._gathered))

    def _unpark(self) -> None:
        if self._parked is not None and not self._parked.done():
            self._parked.set_result(None)

    async def _run(self) -> None:
        try:
            while self._gathered or not self._closing:
                if not self._gathered:
                    self._parked = self._loop.create_future()
                    await self._parked
                    self._parked = None
                    # Whoever was woken together with the first caller comes along.
                    await asyncio.sleep(0)
                    continue
                batch = self._under_way = self._take()
                asking = Asking(last_since_s(batch, self._clock.monotonic_s()))
                gave_up = partial(self._seeker.gave_up, asking)
                try:
                    sending = self._send(batch, asking)
                    times = asking.since_s, self._retry_for_s
                    answers = await in_time(sending, batch, *times, self._clock, gave_up)
                    self._answer(batch, answers.answers)
                except Exception as error:
                    refuse_late(batch, error, self._clock.monotonic_s())
        finally:
            self._closing = True
            refuse([*self._under_way, *self._gathered], None)

    def _take(self) -> list[Pending]:
        """As much of what is gathered as makes a message."""
        batch: list[Pending] = []
        size = 0
        for number, pending in enumerate(self._gathered):
            if pending.answer is not None and pending.answer.cancelled():
                continue
            size += bytes_of(pending.operation)
            if batch and (size > _BYTES_MAX or len(batch) >= BATCH_OPERATIONS_MAX):
                self._gathered = self._gathered[number:]
                return batch
            batch.append(pending)
        self._gathered = []
        return batch

    async def _send(self, batch: list[Pending], asking: Asking) -> Answers:
        if not batch:
            return Answers(0, [])
        if self._loop.time() > self._heard_s + _IDLE_S:
            await self._learn_version(asking.since_s)
        self._number += 1

        def send(address: str) -> Awaitable[Answers]:
            if not asking.was_sent:
                # A caller that already has its answer may not get its operation applied as well.
                batch[:] = [
                    one._replace(operation=Refresh(), if_abandoned=None)
                    if one.answer and one.answer.done()
                    else one
                    for one in batch
                ]
            return self._batch(address, [one.operation for one in batch])

        try:
            answers = await self._seeker.ask(send, asking=asking)
        except SessionForgottenError as forgotten:
            raise OutcomeUnknownError(str(forgotten), forgotten) from forgotten
        self._seen_version = max(self._seen_version, answers.version)
        self._heard_s = self._loop.time()
        return answers

    async def _learn_version(self, since_s: float) -> None:
        """Learn the queue's version by a batch that changes nothing, and so may be lost or repeated."""
        try:
            refresh = [Refresh()]
            answers = await self._seeker.ask(
                lambda address: self._batch(address, refresh), asking=Asking(since_s)
            )
            self._seen_version = answers.version
        except SessionForgottenError as forgotten:
            self._seen_version = forgotten.version

    async def _batch(self, address: str, operations: Sequence[Operation]) -> Answers:
        number, seen_version = max(1, self._number), self._seen_version
        return await self._brokers.batch(address, self._session, number, seen_version, operations)

    def _answer(self, batch: list[Pending], answers: list[Any]) -> None:
        for pending, outcome in zip(batch, answers, strict=True):
            amends = give_answer(pending, outcome)
            if amends is not None:
                self._gathered.append(Pending(amends, None))
