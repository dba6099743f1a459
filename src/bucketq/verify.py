"""verify: walk everything that a queue consists of, and prove that nothing is lost or doubled.

queue.json, every segment, every payload that is referred to, every object of the archive, as
of one version of the queue, while it may go on working.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from bucketq.archive import Archive
from bucketq.archive_lines import Damage
from bucketq.archive_name import ARCHIVE, ArchiveName, Piece, day_of
from bucketq.archive_selection import Selection
from bucketq.archived_job import original_of
from bucketq.codec import decode
from bucketq.errors import CorruptStateError, ObjectNotFoundError
from bucketq.fingerprint import FINGERPRINT_BYTES, fingerprint, unpack
from bucketq.job import Job, JobStatus
from bucketq.object_name import PAYLOADS
from bucketq.segment import Key, Segment, SegmentKeys, key_of
from bucketq.segment_lines import SegmentLines
from bucketq.side_objects import SideObjects
from bucketq.state import QueueState
from bucketq.storage.port import Bucket, describe

Progress = Callable[[str, int, int], object]


@dataclass
class Verdict:
    """What was found: how much there is, and every problem, with where it is."""

    version: int = 0
    live: int = 0
    archived: int = 0
    segments: int = 0
    payloads: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether everything is there, once, and can be read."""
        return not self.problems


async def verify(storage: Bucket, on_progress: Progress | None = None) -> Verdict:
    """Walk the whole queue; `on_progress` is told (what, how many are done, of how many).

    verdict = await verify(open_storage("file:///var/lib/myapp/queue.json"))
    assert verdict.is_sound, verdict.problems
    """
    return await _Walk(storage, on_progress or (lambda what, done, total: None)).walk()


class _Reference(NamedTuple):
    """A large payload that a job refers to: how long it is, whose, and where that job is."""

    size: int
    job_id: str
    where: str
    # The job's place in line, if it is in a segment.
    key: Key | None = None


class _Doubt(NamedTuple):
    """What is wrong with an object, or a day of the archive, if it is still needed when all is walked."""

    name: str
    problem: str
    reference: _Reference | None = None


class _Walk:
    def __init__(self, storage: Bucket, on_progress: Progress) -> None:
        self._verdict = Verdict()
        self._on_progress = on_progress
        self._archive = Archive(storage, self._damaged)
        self._objects = SideObjects(storage.objects)
        self._storage = storage
        self._seen: dict[str, str] = {}
        self._dead: set[str] = set()
        # The unique keys of jobs that wait or run, and whose they are.
        self._keys: dict[str, str] = {}
        # How many jobs of each batch are not finished.
        self._of_batch: Counter[str] = Counter()
        self._doubts: list[_Doubt] = []
        # Archive objects that are newer than the version that is walked.
        self._ahead: list[ArchiveName] = []

    async def walk(self) -> Verdict:
        try:
            planned, state = await self._archive.plan(Selection())
        except CorruptStateError as error:
            self._problem(str(error))
            return self._verdict
        self._verdict.version = state.version
        if not state.version:
            self._problem(f"there is no queue at {describe(self._storage)}")
            return self._verdict
        self._verdict.live = state.stats.live
        payloads: dict[str, _Reference] = {}
        self._walk_file(state, payloads)
        await self._walk_segments(state, payloads)
        self._count_batches(state)
        await self._look_for_payloads(PAYLOADS, payloads)
        days = await self._walk_archive(planned, state)
        self._compare(state, days)
        await self._look_for_strangers(state)
        await self._settle_doubts()
        return self._verdict

    def _walk_file(self, state: QueueState, payloads: dict[str, _Reference]) -> None:
        for job in state.jobs:
            self._see_live(job, "queue.json")
            if job.payload_object is not None:
                payloads[job.payload_object] = _Reference(job.payload_size, job.id, "queue.json")
        for _, batch in state.batches:
            if batch.then is not None and batch.then.payload_object is not None:
                reference = _Reference(batch.then.payload_size, batch.then.id, "queue.json")
                payloads[batch.then.payload_object] = reference

    async def _walk_segments(self, state: QueueState, payloads: dict[str, _Reference]) -> None:
        segments = list(state.backlog)
        for number, segment in enumerate(segments, 1):
            self._on_progress("segments", number, len(segments))
            self._verdict.segments += 1
            try:
                jobs = list(SegmentLines(segment, await self._objects.read(segment.name)).jobs(segment))
            except (CorruptStateError, ObjectNotFoundError) as error:
                self._doubts.append(_Doubt(segment.name, f"{segment.name}: {error}"))
                continue
            if len(jobs) != segment.count:
                self._problem(f"{segment.name}: {len(jobs)} jobs are left in it, not {segment.count}")
            await self._look_for_keys(segment, jobs)
            for job in jobs:
                self._see_live(job, segment.name)
                if job.payload_object is not None:
                    reference = _Reference(job.payload_size, job.id, segment.name, key_of(job))
                    payloads[job.payload_object] = reference

    async def _walk_archive(self, planned: list[Piece], state: QueueState) -> Counter[str]:
        """Look at every finished job; return how many there are by day, and by none in queue.json."""
        days: Counter[str] = Counter()
        copies: dict[str, dict[str, _Reference]] = {}
        total = len(planned)
        number = 0
        async for hour, jobs in self._archive.read(planned, state.ledger):
            number += 1
            self._on_progress("archive", min(number, total), total)
            days[hour[:10]] += len(jobs)
            where = f"the archive of {hour}" if hour else "queue.json, on its way to the archive"
            for archived in jobs:
                if archived.id in self._dead:
                    # It stays in the queue, to be run again, but may be in the archive only once.
                    self._dead.remove(archived.id)
                    self._seen[archived.id] = where
                else:
                    self._see(archived.id, where)
                if (copy := archived.payload_object or "").startswith(ARCHIVE):
                    # What is on its way has its original still.
                    folder = f"{ARCHIVE}{hour}/{PAYLOADS}" if hour else PAYLOADS
                    reference = _Reference(archived.payload_size, archived.id, where)
                    copies.setdefault(folder, {})[copy if hour else original_of(copy)] = reference
        for folder, payloads in copies.items():
            await self._look_for_payloads(folder, payloads)
        return days

    async def _look_for_keys(self, segment: Segment, jobs: list[Job]) -> None:
        """See that a companion tells of every unique key in its segment."""
        keys = [job.key for job in jobs if job.key is not None and job.status is not JobStatus.DEAD]
        problem = f"{segment.name} holds unique keys of which its entry says nothing"
        if segment.keys:
            name = SegmentKeys(segment).name
            problem = f"{name}, the unique keys of {segment.name}, is missing or damaged"
            try:
                content = await self._objects.read(name)
            except ObjectNotFoundError:
                content = b""
            if len(content) == segment.keys * FINGERPRINT_BYTES:
                told = set(unpack(content))
                keys = [key for key in keys if fingerprint(key) not in told]
            else:
                keys = keys or [""]
        if keys:
            self._doubts.append(_Doubt(segment.name, problem))

    async def _look_for_payloads(self, folder: str, payloads: dict[str, _Reference]) -> None:
        if not payloads:
            return
        there = {info.name: info.size_bytes for info in await self._objects.list(folder)}
        self._verdict.payloads += len(payloads)
        for name, reference in payloads.items():
            if there.get(name) != reference.size:
                found = f"has {there[name]} bytes, not {reference.size}" if name in there else "is missing"
                problem = f"{name}, the payload of job {reference.job_id} in {reference.where}, {found}"
                self._doubts.append(_Doubt(name, problem, reference))

    async def _look_for_strangers(self, state: QueueState) -> None:
        counted = {*state.ledger.archived, *state.ledger.expired}
        strangers = Counter[str]()
        for info in await self._objects.list(ARCHIVE):
            name = ArchiveName.parse(info.name)
            if name is None or info.name in state.ledger.sealed:
                continue
            if name.last > state.version:
                self._ahead.append(name)
            elif day_of(info.name) not in counted:
                strangers[day_of(info.name)] += 1
        for day, count in strangers.items():
            self._verdict.notes.append(
                f"objects of {day} in the archive, though queue.json counts no job of that day: {count}"
            )

    async def _settle_doubts(self) -> None:
        # The queue goes on: what it needed at first may have been used up since, as it should.
        content, etag = await self._objects.insist(self._storage.read)
        try:
            state = decode(content) if etag else QueueState()
            needed = state.object_names()
        except CorruptStateError as error:
            self._problem(f"queue.json was damaged meanwhile: {error}")
            return
        for name in self._ahead:
            if name.last > state.version:
                self._problem(f"{name}: it is newer than queue.json: was that put back?")
        kept = {*state.ledger.archived, *map(day_of, state.ledger.sealed)}
        segments = {segment.name: segment for segment in state.backlog}
        for doubt in self._doubts:
            still_there = doubt.name in needed or doubt.name.startswith("queue.json")
            if doubt.name.startswith(ARCHIVE):
                # What is not kept any more was removed, as it should.
                still_there = day_of(doubt.name) in kept
            if doubt.reference is not None and doubt.reference.key is not None:
                segment = segments.get(doubt.reference.where)
                still_there |= segment is not None and segment.still_holds(doubt.reference.key)
            if still_there:
                self._problem(doubt.problem)

    def _compare(self, state: QueueState, days: Counter[str]) -> None:
        ledger = state.ledger
        self._verdict.archived = days.total()
        for day in sorted(ledger.archived.keys() | days.keys()):
            if day and days[day] != ledger.archived.get(day, 0):
                counted = ledger.archived.get(day, 0)
                problem = f"the archive of {day} holds {days[day]} jobs, and queue.json counts {counted}"
                self._doubts.append(_Doubt(f"{ARCHIVE}{day}", problem))
        finished = state.completed_total + state.dead_total + state.cancelled_total
        known = days.total() + ledger.expired_total
        if known > finished:
            self._problem(f"{known} jobs were archived, but only {finished} are finished")
        elif known < finished:
            self._verdict.notes.append(f"finished jobs that are not in the archive: {finished - known}")

    def _count_batches(self, state: QueueState) -> None:
        if self._doubts:
            return  # what cannot be read cannot be counted
        for batch_id, batch in state.batches:
            if batch.left != self._of_batch[batch_id]:
                found = self._of_batch[batch_id]
                self._problem(
                    f"batch {batch_id}: {found} jobs of it are left, and queue.json says {batch.left}"
                )

    def _see_live(self, job: Job, where: str) -> None:
        self._see(job.id, where)
        if job.status is JobStatus.DEAD:
            self._dead.add(job.id)
            return
        if job.key is not None:
            if job.key in self._keys:
                self._problem(f"jobs {self._keys[job.key]} and {job.id} have the same key, {job.key!r}")
            self._keys[job.key] = job.id
        if job.batch is not None and job.batch != job.id:
            self._of_batch[job.batch] += 1

    def _see(self, job_id: str, where: str) -> None:
        if job_id in self._seen:
            self._problem(f"job {job_id} is twice: in {self._seen[job_id]} and in {where}")
        self._seen[job_id] = where

    def _damaged(self, damage: Damage) -> None:
        self._doubts.append(_Doubt(damage.name, str(damage)))

    def _problem(self, what: str) -> None:
        self._verdict.problems.append(what)
