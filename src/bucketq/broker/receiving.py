"""Receiving: a limit to how many messages gRPC receives at a time.

gRPC grants a stream room for a whole message as soon as it is read, and does not return how much of it has
come. So each message that is being received counts as one of the largest size. Before its turn, a stream may
send 4 KiB.
"""

import asyncio
from typing import Any, TypeAlias

import grpc.aio

from bucketq.broker.allowance import Allowance
from bucketq.errors import TooManyRequestsError

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

# A client in Python sends up to 8 MiB, or one job.
_MESSAGE_BYTES_MAX = 16 * 1024 * 1024
_AT_ONCE_MAX = 32
# While others wait, the oldest message ends after this time: so long a client in Python waits for its answer.
_ARRIVES_WITHIN_S = 5.0


class Receiving:
    """Receives messages in turn, for all streams of a server."""

    def __init__(self, allowance: Allowance) -> None:
        self.message_bytes_max = min(allowance.message_bytes_max, _MESSAGE_BYTES_MAX)
        at_once = allowance.held_bytes_max // self.message_bytes_max
        self._turns = asyncio.Semaphore(min(max(1, at_once), _AT_ONCE_MAX))
        self._within_s = allowance.body_within_s
        self._waiting = 0
        # Until when each may arrive while others wait, oldest first.
        self._arriving: dict[asyncio.Timeout, float] = {}

    async def message(self, context: Context) -> bytes | None:
        """The next message of a stream, or None at its end. Raises TooManyRequestsError if it is too slow."""
        try:
            async with asyncio.timeout(self._within_s) as limit:
                self._waiting += 1
                self._hurry()
                try:
                    await self._turns.acquire()
                finally:
                    self._waiting -= 1
                self._arriving[limit] = asyncio.get_running_loop().time() + _ARRIVES_WITHIN_S
                self._hurry()
                try:
                    content: Any = await context.read()
                finally:
                    del self._arriving[limit]
                    self._turns.release()
        except TimeoutError as error:
            raise TooManyRequestsError("this message did not arrive in time: send it again") from error
        return None if content is grpc.aio.EOF else content

    def _hurry(self) -> None:
        if self._waiting and self._turns.locked():
            oldest = next((limit for limit in self._arriving if not limit.expired()), None)
            if oldest is not None:
                oldest.reschedule(min(oldest.when() or 0.0, self._arriving[oldest]))
