"""Archive: the finished jobs of a queue, read back.

A reader sees the archive as it was at one version of the queue, each job exactly once: what
queue.json holds on its way to the archive, and every batch that was sealed by then. While it
reads, batches may be compacted; then it finds the same batches in the compacted object.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Self, TypeVar

import msgspec

from bucketq.archive_lines import ArchiveLines, Damage
from bucketq.archive_name import ARCHIVE, ArchiveName, Piece, pieces
from bucketq.archive_selection import Selection
from bucketq.archived_job import ArchivedJob, FinishedStatus, batch_of, decode_archived, original_of
from bucketq.clock import Clock
from bucketq.codec import decode
from bucketq.errors import ConfigurationError, CorruptStateError, ObjectNotFoundError
from bucketq.job import Claim, Job
from bucketq.ledger import Ledger, SealedBatch, batch_lines
from bucketq.mint import time_of
from bucketq.side_objects import SideObjects
from bucketq.state import QueueState
from bucketq.storage import Bucket, ObjectStoragePort, open_storage
from bucketq.storage.port import describe

# Whoever reads it wants to know what damage is, and imports both from here.
__all__ = ["Archive", "Damage"]

log = logging.getLogger("bucketq")

T = TypeVar("T")

# Further back nobody waits for; `jobs` reads all.
_LOOKED_MAX = 20_000
# An hour of the archive may be one object with a million lines.
_DECODED_AT_ONCE = 1000

OnDamage = Callable[[Damage], object]


class Archive:
    """Reads the finished jobs of the queue on a storage.

        archive = Archive.open("s3://my-bucket/jobs.json")
        async for job in archive.jobs(since=yesterday, entrypoint="mail", status="dead"):
            print(job.id, job.error, [attempt.outcome for attempt in job.attempts])

    Damage in an object is logged, or given to `on_damage`, and everything else is still read.
    """

    def __init__(
        self, storage: ObjectStoragePort, on_damage: OnDamage | None = None, clock: Clock | None = None
    ) -> None:
        if not isinstance(storage, Bucket):
            raise ConfigurationError(
                "a storage of two methods has no archive; open the queue with one of bucketq's own adapters"
            )
        self._storage = storage
        self._objects = SideObjects(storage.objects, clock=clock)
        self._on_damage = on_damage or (lambda damage: log.warning("archive: %s", damage))

    @classmethod
    def open(cls, url: str, on_damage: OnDamage | None = None, **storage_options: Any) -> Self:
        """The archive of the queue at a storage URL, with the options of `open_storage`."""
        return cls(open_storage(url, **storage_options), on_damage)

    async def jobs(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        entrypoint: str | None = None,
        status: FinishedStatus | str | None = None,
        newest_first: bool = False,
    ) -> AsyncIterator[ArchivedJob]:
        """The jobs that finished from `since` on and before `until`, hour by hour, the oldest hour first.

        With `newest_first` the last hour comes first, and in it those that were settled last. Each thousand
        of them is in the order of their ends; a worker that settles thousands at once may settle them in any
        other. Either way, it reads an object of the archive only when its turn comes.
        """
        selection = Selection.of(since, until, entrypoint, status)
        async for jobs in self._batches(selection, newest_first):
            for job in jobs:
                yield job

    def jobs_sync(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        entrypoint: str | None = None,
        status: FinishedStatus | str | None = None,
        newest_first: bool = False,
    ) -> Iterator[ArchivedJob]:
        """The same for code without an event loop."""
        selection = Selection.of(since, until, entrypoint, status)
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise ConfigurationError("an event loop is running here: use `async for … in archive.jobs()`")
        for jobs in in_sync(self._batches(selection, newest_first)):
            yield from jobs

    async def newest(
        self, limit: int, *, entrypoint: str | None = None, status: FinishedStatus | str | None = None
    ) -> list[ArchivedJob]:
        """The jobs that finished last, the newest first, as far as they are among the last 20,000."""
        selection = Selection.of(entrypoint=entrypoint, status=status)
        found: list[ArchivedJob] = []
        looked = 0
        async for jobs in self._backwards(selection):
            found += selection.among(jobs[: _LOOKED_MAX - looked])
            looked += len(jobs)
            # In the order of batches: between those of two brokers, times may differ.
            if len(found) >= limit or looked >= _LOOKED_MAX:
                break
        return _newest_first(found)[:limit]

    async def find(self, job: Job | str) -> ArchivedJob | None:
        """The finished job with this id, or None. Its id tells from when on to look for it."""
        job_id = Claim.of(job).job_id
        planned, state = await self.plan(Selection(finished_since([job_id])))
        # Decoding all would keep a broker, on whose dashboard somebody looks for it, from its work.
        sought = msgspec.json.encode(job_id)

        def find_in(lines: ArchiveLines) -> ArchivedJob | None:
            near = self._decoded(lines.where(lambda line: sought in line))
            return next((one for one in near if one.id == job_id), None)

        async for lines in self._lines_on_the_way(state.ledger):
            if found := find_in(lines):
                return found
        for piece in planned:
            if found := find_in(await self.lines(piece)):
                return found
        return None

    async def fetch_payload(self, job: ArchivedJob) -> bytes:
        """The payload of an archived job, also a large one, as long as it is kept.

        Raises ObjectNotFoundError if it is not (see `archive_payloads`), PayloadError if it was cut short.
        """
        if job.payload_object is None:
            return job.payload
        try:
            return await self._objects.read_payload(job.payload_object, job.payload_size)
        except ObjectNotFoundError:
            # Until the archive has the job, its copy is not made.
            original = original_of(job.payload_object)
            if original == job.payload_object:
                raise
            return await self._objects.read_payload(original, job.payload_size)

    async def state(self) -> QueueState:
        """The queue as queue.json has it now, without its backlog."""
        content, etag = await self._objects.insist(self._storage.read)
        return QueueState() if etag is None else decode(content, describe(self._storage))

    async def plan(self, selection: Selection) -> tuple[list[Piece], QueueState]:
        """The pieces to read, and what is still in queue.json, as of one version."""
        state = await self.state()
        listed = await self._listed(state.ledger.archived, selection)
        if ahead := [name for name in listed if name.last > state.version]:
            # Archived since, most likely.
            version = (await self.state()).version
            for name in ahead:
                if name.last > version:
                    reason = "it is newer than queue.json: was that put back?"
                    self._on_damage(Damage(str(name), None, reason))
        return pieces(listed, 1, state.version, without=_sealed(state.ledger)), state

    async def read(
        self, planned: Iterable[Piece], ledger: Ledger
    ) -> AsyncIterator[tuple[str, list[ArchivedJob]]]:
        """The hour, and the jobs, of each piece of a plan; then, of no hour, what was still in queue.json."""
        for piece in planned:
            yield piece.name.hour, list(self._decoded(await self.lines(piece)))
        async for lines in self._lines_on_the_way(ledger):
            yield "", list(self._decoded(lines))

    async def lines(self, piece: Piece) -> ArchiveLines:
        """The lines of a piece, wherever it is now."""
        name = piece.name
        try:
            content = await self._objects.read(str(name))
        except ObjectNotFoundError as error:
            held = ArchiveName(name.hour, piece.first, piece.last)
            for other in await self.objects_of(name.hour):
                if other != name and other.covers(held):
                    return await self.lines(piece._replace(name=other))
            self._on_damage(Damage(str(name), None, f"it is gone: {error}"))
            return ArchiveLines.of(str(name), [])
        lines = ArchiveLines.of(str(name), self._split(name, content))
        if name.first < name.last and not piece.is_whole:
            return lines.where(lambda line: piece.has(batch_of(line) or name.last))
        return lines

    async def sealed_lines(self, name: str, batch: SealedBatch) -> ArchiveLines:
        """The lines of a batch that was on its way to the archive, wherever it is now."""
        lines = list(batch.lines)
        for part in batch.parts:
            try:
                lines += part.lines(await self._objects.read(part.name))
            except ObjectNotFoundError:
                # It has arrived meanwhile, most likely.
                found = ArchiveName.parse(name)
                assert found is not None
                return await self.lines(Piece(found, found.first, found.last))
            except CorruptStateError as error:
                self._on_damage(Damage(part.name, None, str(error)))
        return ArchiveLines.of(name, lines)

    async def objects_of(self, day: str) -> dict[ArchiveName, int]:
        """The objects of a day, or of an hour, with how long they are."""
        found = {}
        for info in await self._objects.list(f"{ARCHIVE}{day}"):
            if name := ArchiveName.parse(info.name):
                found[name] = info.size_bytes
        return found

    async def _batches(self, selection: Selection, newest_first: bool) -> AsyncIterator[list[ArchivedJob]]:
        if newest_first:
            async for jobs in self._backwards(selection):
                yield list(selection.among(jobs))
            return
        planned, state = await self.plan(selection)
        async for _, jobs in self.read(planned, state.ledger):
            yield list(selection.among(jobs))

    async def _lines_on_the_way(self, ledger: Ledger) -> AsyncIterator[ArchiveLines]:
        for name, batch in ledger.sealed.items():
            yield await self.sealed_lines(name, batch)
        yield ArchiveLines.of_finished(ledger.finished)

    async def _backwards(self, selection: Selection) -> AsyncIterator[list[ArchivedJob]]:
        """All jobs of the hours of a selection, some at a time, the newest first."""
        async for lines in self._lines_backwards(selection):
            for some in lines.backwards(_DECODED_AT_ONCE):
                yield _newest_first(self._decoded(some))

    async def _lines_backwards(self, selection: Selection) -> AsyncIterator[ArchiveLines]:
        state = await self.state()
        ledger = state.ledger
        yield ArchiveLines.of_finished(ledger.finished)
        for name, batch in reversed(ledger.sealed.items()):
            yield await self.sealed_lines(name, batch)
        for day in sorted(ledger.archived, reverse=True):
            listed = await self._listed([day], selection)
            there = pieces(listed, 1, state.version, without=_sealed(ledger))
            for piece in sorted(there, key=lambda piece: (piece.name.hour, piece.last), reverse=True):
                yield await self.lines(piece)

    async def _listed(self, days: Iterable[str], selection: Selection) -> dict[ArchiveName, int]:
        listed: dict[ArchiveName, int] = {}
        for day in sorted(days):
            if selection.overlaps(f"{day}T00", f"{day}T23"):
                listed |= await self.objects_of(day)
        return {name: size for name, size in listed.items() if selection.overlaps(name.hour, name.hour)}

    def _split(self, name: ArchiveName, content: bytes) -> list[bytes]:
        if (whole := batch_lines(content)) is not None:
            return whole
        first, *lines = content.split(b"\n")
        if first != b"[":
            self._on_damage(Damage(str(name), 1, "it is no JSON array"))
            return []
        self._on_damage(Damage(str(name), len(lines) + 1, "it ends too soon"))
        return [line.removesuffix(b",") for line in lines]

    def _decoded(self, lines: ArchiveLines) -> Iterator[ArchivedJob]:
        for number, line in lines.numbered():
            try:
                yield decode_archived(line)
            except CorruptStateError as error:
                self._on_damage(Damage(lines.name, number, str(error)))


def _newest_first(jobs: Iterable[ArchivedJob]) -> list[ArchivedJob]:
    return sorted(jobs, key=lambda job: job.finished_at, reverse=True)


def finished_since(job_ids: Iterable[str]) -> datetime | None:
    """No job of these ids was finished before this time; None if that cannot be told, or there are none."""
    made_at = [time_of(job_id) for job_id in job_ids]
    first = min((moment for moment in made_at if moment is not None), default=None)
    if first is None or None in made_at:
        return None
    # A day earlier: the clocks of those who make and finish jobs may differ.
    return datetime.fromtimestamp(max(0.0, first.timestamp() - 86400), UTC)


def _sealed(ledger: Ledger) -> list[ArchiveName]:
    """The batches that are on their way: an object may be there, and is not read."""
    return [name for batch in ledger.sealed if (name := ArchiveName.parse(batch))]


def in_sync(items: AsyncIterator[T]) -> Iterator[T]:
    """The items of an asynchronous iterator, where no event loop runs."""
    found: list[T] = []

    async def look() -> bool:
        async for item in items:
            # Not returned: asyncio would spell out what a task returns, to set a signal handler.
            found.append(item)
            return True
        return False

    with asyncio.Runner() as runner:
        while runner.run(look()):
            yield found.pop()
