"""Archive: the finished jobs of a queue, read back.

A reader sees the archive as it was at one version of the queue, each job exactly once: what
queue.json holds on its way to the archive, and every batch that was sealed by then. While it
reads, batches may be compacted; then it finds the same batches in the compacted object.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from bucketq.archive_name import ARCHIVE, ArchiveName, Piece, hour_began, hour_ended, pieces
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

log = logging.getLogger("bucketq")

T = TypeVar("T")

# Further back nobody waits for; `jobs` reads all.
_LOOKED_MAX = 20_000


class Damage(NamedTuple):
    """Something in the archive that cannot be read: where, and why."""

    name: str
    # 1 is the line of the opening bracket; None if it is the whole object.
    line: int | None
    reason: str

    def __str__(self) -> str:
        return f"{self.name}{f', line {self.line}' if self.line else ''}: {self.reason}"


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
    ) -> AsyncIterator[ArchivedJob]:
        """The jobs that finished from `since` on and before `until`, hour by hour."""
        wanted = _wanted(since, until, entrypoint, status)
        async for jobs in self._batches(wanted):
            for job in jobs:
                yield job

    def jobs_sync(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        entrypoint: str | None = None,
        status: FinishedStatus | str | None = None,
    ) -> Iterator[ArchivedJob]:
        """The same for code without an event loop."""
        wanted = _wanted(since, until, entrypoint, status)
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise ConfigurationError("an event loop is running here: use `async for … in archive.jobs()`")
        for jobs in in_sync(self._batches(wanted)):
            yield from jobs

    async def newest(
        self, limit: int, *, entrypoint: str | None = None, status: FinishedStatus | str | None = None
    ) -> list[ArchivedJob]:
        """The jobs that finished last, the newest first, as far as they are among the last 20,000."""
        wanted = _wanted(None, None, entrypoint, status)
        found: list[ArchivedJob] = []
        looked = 0
        async for lines in self._lines_backwards():
            jobs = list(self._decoded(lines.last(_LOOKED_MAX - looked)))
            looked += len(jobs)
            found += wanted.among(jobs)
            # In the order of batches: within one, and between those of two brokers, times may differ.
            if len(found) >= limit or looked >= _LOOKED_MAX:
                break
        return sorted(found, key=lambda job: job.finished_at, reverse=True)[:limit]

    async def _lines_backwards(self) -> "AsyncIterator[ArchiveLines]":
        state = await self.state()
        ledger = state.ledger
        yield ArchiveLines.of("queue.json, finished", [entry.line for entry in ledger.finished])
        for name, batch in reversed(ledger.sealed.items()):
            yield await self.sealed_lines(name, batch)
        without = [parsed for batch in ledger.sealed if (parsed := ArchiveName.parse(batch))]
        for day in sorted(ledger.archived, reverse=True):
            there = pieces(await self.objects_of(day), 1, state.version, without=without)
            for piece in sorted(there, key=lambda piece: (piece.name.hour, piece.last), reverse=True):
                yield await self.lines(piece)

    async def find(self, job: Job | str) -> ArchivedJob | None:
        """The finished job with this id, or None. Its id tells from when on to look for it."""
        job_id = Claim.of(job).job_id
        made_at = time_of(job_id)
        # A day earlier: the clocks of those who make and finish jobs may differ.
        since = made_at and datetime.fromtimestamp(max(0.0, made_at.timestamp() - 86400), UTC)
        pieces, state = await self.plan(Wanted(since))
        on_the_way = Ledger(state.ledger.finished, state.ledger.sealed)
        # Decoding all would keep a broker, on whose dashboard somebody looks for it, from its work.
        sought = msgspec.json.encode(job_id)
        async for _, lines in _chained(self._lines_of([], on_the_way), self._lines_of(pieces, Ledger())):
            for found in self._decoded(lines.where(lambda line: sought in line)):
                if found.id == job_id:
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

    async def _batches(self, wanted: "Wanted") -> AsyncIterator[list[ArchivedJob]]:
        pieces, state = await self.plan(wanted)
        async for _, jobs in self.read(pieces, state.ledger):
            yield list(wanted.among(jobs))

    async def read(
        self, pieces: Iterable[Piece], ledger: Ledger
    ) -> AsyncIterator[tuple[str, list[ArchivedJob]]]:
        """The hour, and the jobs, of each piece of a plan, and of what was still in queue.json."""
        async for hour, lines in self._lines_of(pieces, ledger):
            yield hour, list(self._decoded(lines))

    async def _lines_of(
        self, pieces: Iterable[Piece], ledger: Ledger
    ) -> "AsyncIterator[tuple[str, ArchiveLines]]":
        for piece in pieces:
            yield piece.name.hour, await self.lines(piece)
        for name, batch in ledger.sealed.items():
            yield "", await self.sealed_lines(name, batch)
        finished = [entry.line for entry in ledger.finished]
        yield "", ArchiveLines.of("queue.json, finished", finished)

    async def state(self) -> QueueState:
        """The queue as queue.json has it now, without its backlog."""
        content, etag = await self._objects.insist(self._storage.read)
        return QueueState() if etag is None else decode(content, describe(self._storage))

    async def plan(self, wanted: "Wanted") -> tuple[list[Piece], QueueState]:
        """The pieces to read, and what is still in queue.json, as of one version."""
        state = await self.state()
        sealed = [name for batch in state.ledger.sealed if (name := ArchiveName.parse(batch))]
        listed = await self._listed(state.ledger, wanted)
        if ahead := [name for name in listed if name.last > state.version]:
            # Archived since, most likely.
            version = (await self.state()).version
            for name in ahead:
                if name.last > version:
                    reason = "it is newer than queue.json: was that put back?"
                    self._on_damage(Damage(str(name), None, reason))
        return pieces(listed, 1, state.version, without=sealed), state

    async def lines(self, piece: Piece) -> "ArchiveLines":
        """The lines of a piece, wherever it is now."""
        name = piece.name
        try:
            content = await self._objects.read(str(name))
        except ObjectNotFoundError as error:
            found = [
                ArchiveName.parse(info.name) for info in await self._objects.list(f"{ARCHIVE}{name.hour}/")
            ]
            for other in found:
                if (
                    other is not None
                    and other != name
                    and other.first <= piece.first
                    and piece.last <= other.last
                ):
                    return await self.lines(piece._replace(name=other))
            self._on_damage(Damage(str(name), None, f"it is gone: {error}"))
            return ArchiveLines.of(str(name), [])
        lines = ArchiveLines.of(str(name), self._split(name, content))
        if name.first < name.last and not piece.is_whole:
            return lines.where(lambda line: piece.has(batch_of(line) or name.last))
        return lines

    async def sealed_lines(self, name: str, batch: SealedBatch) -> "ArchiveLines":
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

    async def _listed(self, ledger: Ledger, wanted: "Wanted") -> dict[ArchiveName, int]:
        listed: dict[ArchiveName, int] = {}
        for day in sorted(ledger.archived):
            if wanted.overlaps(f"{day}T00", f"{day}T23"):
                listed |= await self.objects_of(day)
        return {name: size for name, size in listed.items() if wanted.overlaps(name.hour, name.hour)}

    async def objects_of(self, day: str) -> dict[ArchiveName, int]:
        """The objects of a day, with how long they are."""
        found = {}
        for info in await self._objects.list(f"{ARCHIVE}{day}"):
            if name := ArchiveName.parse(info.name):
                found[name] = info.size_bytes
        return found

    def _split(self, name: ArchiveName, content: bytes) -> list[bytes]:
        if (whole := batch_lines(content)) is not None:
            return whole
        first, *lines = content.split(b"\n")
        if first != b"[":
            self._on_damage(Damage(str(name), 1, "it is no JSON array"))
            return []
        self._on_damage(Damage(str(name), len(lines) + 1, "it ends too soon"))
        return [line.removesuffix(b",") for line in lines]

    def _decoded(self, lines: "ArchiveLines") -> Iterator[ArchivedJob]:
        for number, line in zip(lines.numbers, lines.lines, strict=True):
            try:
                yield decode_archived(line)
            except CorruptStateError as error:
                self._on_damage(Damage(lines.name, number, str(error)))


class ArchiveLines(NamedTuple):
    """Lines of an object, or of queue.json, each with its number there."""

    name: str
    lines: Sequence[bytes]
    numbers: Sequence[int]

    @classmethod
    def of(cls, name: str, lines: Sequence[bytes]) -> Self:
        """All lines of an object."""
        return cls(name, lines, range(2, 2 + len(lines)))

    def last(self, number: int) -> "ArchiveLines":
        """The last of them."""
        first = max(0, len(self.lines) - number)
        return ArchiveLines(self.name, self.lines[first:], self.numbers[first:])

    def where(self, is_wanted: Callable[[bytes], bool]) -> "ArchiveLines":
        """Some of them."""
        places = [place for place, line in enumerate(self.lines) if is_wanted(line)]
        return ArchiveLines(
            self.name, [self.lines[place] for place in places], [self.numbers[place] for place in places]
        )


class Wanted(NamedTuple):
    """Which finished jobs somebody asks for."""

    since: datetime | None = None
    until: datetime | None = None
    entrypoint: str | None = None
    status: FinishedStatus | None = None

    def overlaps(self, first_hour: str, last_hour: str) -> bool:
        """Whether jobs that finished in these hours can be wanted."""
        begins_too_late = self.until is not None and hour_began(first_hour) >= self.until
        ends_too_soon = self.since is not None and hour_ended(last_hour) <= self.since
        return not begins_too_late and not ends_too_soon

    def among(self, jobs: Iterable[ArchivedJob]) -> Iterator[ArchivedJob]:
        for job in jobs:
            if (
                (self.since is None or job.finished_at >= self.since)
                and (self.until is None or job.finished_at < self.until)
                and self.entrypoint in (None, job.entrypoint)
                and self.status in (None, job.status)
            ):
                yield job


async def _chained(*iterators: AsyncIterator[T]) -> AsyncIterator[T]:
    for iterator in iterators:
        async for item in iterator:
            yield item


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


def _wanted(
    since: datetime | None, until: datetime | None, entrypoint: str | None, status: str | None
) -> Wanted:
    for moment in (since, until):
        if moment is not None and not isinstance(moment, datetime):
            raise ConfigurationError(f"since and until are datetimes with a time zone, not {moment!r}")
        if moment is not None and moment.tzinfo is None:
            raise ConfigurationError(f"{moment} has no time zone; give one, such as datetime.UTC")
    if status is not None and status not in list(FinishedStatus):
        raise ConfigurationError(f"a finished job is one of {', '.join(FinishedStatus)}, not {status!r}")
    return Wanted(since, until, entrypoint, None if status is None else FinishedStatus(status))
