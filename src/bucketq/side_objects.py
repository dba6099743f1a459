"""SideObjects: the segments and payloads beside a queue, written and read patiently.

No name is ever used twice, so each request may be repeated: a create that finds its object
there already has landed before.
"""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from os.path import commonprefix
from typing import Generic, TypeVar

from bucketq.clock import Clock, SystemClock
from bucketq.errors import ObjectExistsError, ObjectNotFoundError, PayloadError, UnusableStorageError
from bucketq.fingerprint import FINGERPRINT_BYTES, fingerprint, pack
from bucketq.job import Job
from bucketq.ledger import StagedPart
from bucketq.mint import Mint
from bucketq.object_name import payload_name, segment_name
from bucketq.patience import Patience
from bucketq.retry import EXPONENTIAL
from bucketq.segment import Needed, Segment, SegmentKeys, lost
from bucketq.segment_claim import CompletedJobs, given_back
from bucketq.segment_lines import SegmentLines, SegmentWriter
from bucketq.settings import Settings
from bucketq.storage.port import ObjectInfo, Objects

T = TypeVar("T")

# After so many jobs the others on the event loop have their turn.
_JOBS_AT_A_STRETCH = 50
_DELETES_AT_ONCE = 16


class SideObjects:
    """What bucketq asks of the objects beside one queue.

    `version`, where it is asked for, is a version of the queue from before the object was
    begun; it goes into the object's name.
    """

    def __init__(
        self,
        objects: Objects,
        settings: Settings | None = None,
        clock: Clock | None = None,
        mint: Mint | None = None,
    ) -> None:
        self._objects = objects
        self._settings = settings or Settings()
        self._clock = clock or SystemClock()
        self._mint = mint or Mint()

    async def create_segments(
        self, jobs: AsyncIterable[Job], version: int
    ) -> AsyncIterator[tuple[Segment, tuple[Job, ...]]]:
        """Write the jobs of one entrypoint, which come in order, to as many segments as it takes."""
        writer, written = SegmentWriter(), list[Job]()
        async for job in jobs:
            writer.add(job)
            written.append(job)
            if (
                len(written) >= self._settings.segment_jobs_max
                or writer.size >= self._settings.segment_bytes_max
            ):
                yield await self.create_segment(writer, version), tuple(written)
                writer, written = SegmentWriter(), []
            elif len(written) % _JOBS_AT_A_STRETCH == 0:
                await asyncio.sleep(0)
        if written:
            yield await self.create_segment(writer, version), tuple(written)

    async def create(self, name: str, content: bytes) -> bool:
        """Store an object. False if there is one of that name: this very one, if no other can have it."""
        try:
            await self.insist(lambda: self._objects.create(name, content))
        except ObjectExistsError:
            return False
        return True

    async def insist(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Ask the storage something, patiently."""
        patience = Patience(self._settings.retry_for_s, EXPONENTIAL, self._clock, self._mint)
        return await patience.insist(attempt)

    async def create_payload(self, content: bytes, version: int) -> str:
        """Store a payload and return its name."""
        name = payload_name(version, self._mint.token())
        await self.create(name, content)
        return name

    async def read(self, name: str) -> bytes:
        """Return an object's content. Raises ObjectNotFoundError."""
        return await self.insist(lambda: self._objects.read(name))

    async def read_payload(self, name: str, size: int) -> bytes:
        """Return a payload. Raises ObjectNotFoundError, or PayloadError if it was cut short."""
        content = await self.read(name)
        if len(content) != size:
            raise PayloadError(f"{name} has {len(content)} bytes, not {size}")
        return content

    async def payloads_of(self, segment: Segment) -> set[str]:
        """The payloads that the jobs in a segment refer to. Raises ObjectNotFoundError."""
        if not segment.payloads:
            return set()
        lines = SegmentLines(segment, await self.read(segment.name))
        names = set()
        for number, job in enumerate(lines.jobs(segment)):
            if number % _JOBS_AT_A_STRETCH == 0:
                await asyncio.sleep(0)
            if job.payload_object is not None:
                names.add(job.payload_object)
        return names

    async def sizes(self, names: Collection[str]) -> dict[str, int]:
        """The bytes of the objects that are there, by name: one list, which ends with the last of them."""

        async def find() -> dict[str, int]:
            sizes: dict[str, int] = {}
            async for info in self._objects.list(commonprefix(list(names))):  # noqa: RUF071 (text)
                if info.name in names:
                    sizes[info.name] = info.size_bytes
                    if len(sizes) == len(names):
                        break
            return sizes

        return await self.insist(find)

    async def list(self, prefix: str) -> list[ObjectInfo]:
        """The objects whose name begins with `prefix`."""

        async def names() -> list[ObjectInfo]:
            return [info async for info in self._objects.list(prefix)]

        return await self.insist(names)

    async def delete(self, names: Iterable[str]) -> None:
        """Remove objects, one try each. Raises the first failure when all were tried."""
        turns = asyncio.Semaphore(_DELETES_AT_ONCE)

        async def delete(name: str) -> None:
            async with turns:
                await self._objects.delete(name)

        outcomes = await asyncio.gather(*map(delete, names), return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def create_segment(self, writer: SegmentWriter, version: int) -> Segment:
        """Write what was collected to a segment."""
        segment, content = writer.finish(segment_name(version, self._mint.token()))
        if segment.keys:
            await self.create(SegmentKeys(segment).name, writer.keys_content)
        await self.create(segment.name, content)
        return segment

    async def create_staged(self, completed: CompletedJobs, version: int) -> tuple[StagedPart, ...]:
        """Write the lines of completed jobs of a claimed segment, for the archive."""
        parts = completed.finish(version, self._mint.token)
        for part, content in parts:
            await self.create(part.name, content)
        return tuple(part for part, _ in parts)

    async def create_rest(self, jobs: Iterable[Job], version: int) -> tuple[Segment, ...]:
        """Write jobs of a claimed segment that were not begun, for others to take."""
        waiting = each(given_back(jobs))
        return tuple([segment async for segment, _ in self.create_segments(waiting, version)])

    async def read_needed(self, needed: Needed) -> bytes:
        """Return the content of a segment or a staged part, or of a companion. Raises ObjectNotFoundError."""
        if not isinstance(needed, SegmentKeys):
            return await self.read(needed.name)
        with suppress(ObjectNotFoundError):
            content = await self.read(needed.name)
            if len(content) == needed.segment.keys * FINGERPRINT_BYTES:
                return content
        # Lost, or damaged: the segment tells the same.
        segment = needed.segment
        jobs = SegmentLines(segment, await self.read(segment.name)).jobs(segment)
        return pack(fingerprint(job.key) for job in jobs if job.key is not None)


class LiveSegments(Generic[T]):
    """Reads segments of a queue that others use up meanwhile.

    One that is missing was used up, unless the queue still names it when it is looked at again. So the
    first time it raises ObjectNotFoundError, and whoever reads looks at the queue again.
    """

    def __init__(self, read: Callable[[Segment], Awaitable[T]]) -> None:
        self._read = read
        self._missing: set[str] = set()

    async def read(self, segment: Segment) -> T:
        """What is read of a segment. Raises ObjectNotFoundError, and CorruptStateError the second time."""
        try:
            return await self._read(segment)
        except ObjectNotFoundError as error:
            if segment.name in self._missing:
                raise lost(segment, str(error)) from error
            self._missing.add(segment.name)
            raise


async def each(jobs: Iterable[Job]) -> AsyncIterator[Job]:
    """Jobs that are at hand, for whoever awaits them one by one."""
    for job in jobs:
        yield job


def unreachable(what_is: str) -> UnusableStorageError:
    """The error for a storage that has no objects beside the queue."""
    return UnusableStorageError(
        f"{what_is} in an object beside the queue, which a storage of two methods cannot reach;"
        " open the queue with one of bucketq's own adapters"
    )
