"""WatchedQueue: a queue in memory that tells of every job that is enqueued."""

from collections.abc import Awaitable, Callable
from typing import Any

from bucketq.clock import Clock
from bucketq.embedded import DirectQueue
from bucketq.job import Job
from bucketq.operation import Operation, enqueued_by
from bucketq.pending import IfAbandoned
from bucketq.settings import Settings
from bucketq.storage.memory import InMemoryStorage

# Nothing overflows into segments or objects, so that all jobs are seen, with their payloads.
_ALL_IN_ONE = Settings(
    hot_jobs_max=10**9, hot_bytes_max=10**12, payload_inline_max=10**12, queue_bytes_max=10**12
)


class WatchedQueue(DirectQueue):
    """Any event loop and any thread may use it; `on_enqueued` is awaited after each commit that adds jobs."""

    def __init__(self, clock: Clock, on_enqueued: Callable[[list[Job]], Awaitable[None]]) -> None:
        super().__init__(InMemoryStorage(), _ALL_IN_ONE, clock)
        self._on_enqueued = on_enqueued

    async def _submit(self, operation: Operation, if_abandoned: IfAbandoned | None = None) -> Any:
        answer = await super()._submit(operation, if_abandoned)
        if asked := enqueued_by(operation):
            # With a key, it may be that another job was there.
            await self._on_enqueued([job for job in asked if job.key is None or await self.find(job)])
        return answer
