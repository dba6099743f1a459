"""The requests: how often a queue talks to its storage, counted, not timed."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from bench.workloads import ENTRYPOINT, Workload, fill, play
from bucketq import BrokerQueue, InMemoryStorage, Settings


@dataclass
class Requests:
    """How many requests of each kind reached the storage."""

    writes: int = 0
    reads: int = 0
    conditional_reads: int = 0


@dataclass(frozen=True)
class Count:
    """What a case needed, and what it may need."""

    name: str
    commits: int
    found: Requests
    expected: Requests

    @property
    def is_met(self) -> bool:
        """Whether it is exactly what was expected."""
        return self.found == self.expected

    def as_dict(self) -> dict[str, object]:
        """For the JSON report."""
        return asdict(self) | {"is_met": self.is_met}


class CountingStorage(InMemoryStorage):
    """Memory that counts its requests. Still a `Bucket`, so a queue treats it as one."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = Requests()

    async def read(self) -> tuple[bytes, str | None]:
        self.requests.reads += 1
        return await super().read()

    async def read_if_changed(self, etag: str | None) -> tuple[bytes, str | None] | None:
        self.requests.conditional_reads += 1
        # Not by way of our own `read`: an answer with content is still one request.
        return None if etag == self._etag() else await super().read()

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        self.requests.writes += 1
        return await super().write(content, if_match)


async def count_all(rounds: int) -> list[Count]:
    """Count every case."""
    # Small, so that nothing overflows into segments meanwhile.
    small = Workload(name="", kind="enqueue", operations=10 * rounds, payload_bytes=10)
    together = replace(small, name="enqueue", callers=10)
    alone = replace(small, name="work", kind="work", filled=small.operations)
    mixed = replace(small, name="mixed", kind="mixed", callers=10, filled=10)
    sole_writer = Settings(sole_writer=True)
    return [
        await _count("enqueue, 10 callers", together, commits=rounds),
        await _count("dequeue+ack, 1 caller", alone, commits=2 * small.operations),
        await _count("mixed, 10 callers", mixed, commits=2 * rounds),
        await _count_empty("dequeue, empty queue, sole writer", sole_writer, Requests()),
        await _count_empty("dequeue, empty queue", Settings(), Requests(conditional_reads=1)),
    ]


async def _count(name: str, workload: Workload, commits: int) -> Count:
    storage = CountingStorage()
    async with BrokerQueue(storage) as queue:
        await queue.enqueue(ENTRYPOINT, b"", priority=1)  # the one read that opens the queue
        await fill(queue, workload)
        version_before = (await queue.read_state()).version
        storage.requests = Requests()
        await play(queue, workload)
        found, storage.requests = storage.requests, Requests()
        # The queue's own count of its commits, so that a commit without a write would show.
        commits_made = (await queue.read_state()).version - version_before
    assert commits_made == commits, f"{name}: {commits_made} commits instead of {commits}"
    return Count(name, commits, found, Requests(writes=commits))


async def _count_empty(name: str, settings: Settings, expected: Requests) -> Count:
    storage = CountingStorage()
    async with BrokerQueue(storage, settings=settings) as queue:
        job = await queue.enqueue(ENTRYPOINT, b"")
        await queue.dequeue(ENTRYPOINT)
        await queue.ack(job.id)
        storage.requests = Requests()
        assert await queue.dequeue(ENTRYPOINT) == []
        return Count(name, 0, storage.requests, expected)
