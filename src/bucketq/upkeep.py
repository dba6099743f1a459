"""Upkeep: what keeps queue.json small, done beside the commits so that nobody waits for it.

    too many jobs wait in queue.json ──▶ write the last ones to segments, swap by a commit
    many small or overlapping segments ──▶ write them as one, swap by a commit
    scheduled jobs in a segment are due ──▶ sort them into segments of waiting jobs, swap by a commit
    the turn of a segment comes soon ──▶ put it on the shelf
    a batch of finished jobs is sealed ──▶ create it in the archive, let go of it by a commit
    objects not referred to any more ──▶ delete them; now and then collect what crashes left

Each step writes first and refers later. A crash in between leaves an object that nothing
refers to, and the collector finds it.
"""

import asyncio
import heapq
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from msgspec.structs import replace

from bucketq.admission import Admission
from bucketq.archive_upkeep import tidy
from bucketq.archived_job import kept_payloads
from bucketq.clock import Clock
from bucketq.collect import collect
from bucketq.commit import Committer
from bucketq.errors import BucketQError, ObjectNotFoundError, StorageError
from bucketq.job import Job, JobStatus
from bucketq.ledger import SealedBatch, batch_content
from bucketq.operation import Operation
from bucketq.operation.chores import DropArchived, Merge, Seal, SortOut, Spill
from bucketq.segment import DueSegment, Key, Needed, Segment, SegmentKeys, key_of
from bucketq.segment_lines import SegmentLines
from bucketq.settings import Settings
from bucketq.shelf import Shelf
from bucketq.side_objects import SideObjects, each, unreachable
from bucketq.state import QueueState
from bucketq.state.backlog import WaitingPart
from bucketq.turns import dealt

log = logging.getLogger("bucketq")

_COLLECT_EVERY_S = 3600.0
_READ_AGAIN_AFTER_S = 60.0
_FINISHING_S = 5.0
_SEE_TO_OTHERS_AFTER_S = 10.0
_DROP_AFTER_S = 30.0
_ARCHIVE_AGAIN_AFTER_S = 30.0
_WORKS = ("delete", "archive", "spill", "merge", "collect")
_TIMERS = ("seal", "drop")
# A process that may end with its next call bears more before it begins something, and tells
# by the commits since, not by the time, that nobody has seen to a batch.
_BRIEF_TOLERANCE = 2
_BRIEF_SEGMENTS = 32
_UNLIMITED = 1 << 62
# After so many jobs the event loop runs other tasks.
_JOBS_AT_A_STRETCH = 50


class Upkeep:
    """Looks after the backlog of one committer; `submit` has an operation committed.

    `stays_open` says that the process will be there for a while: then it also looks ahead.
    """

    def __init__(
        self,
        committer: Committer,
        objects: SideObjects | None,
        settings: Settings,
        clock: Clock,
        submit: "Callable[[Operation], asyncio.Future[Any]]",
        *,
        stays_open: bool,
        submit_at_once: "Callable[[Operation], asyncio.Future[Any]] | None" = None,
    ) -> None:
        self._committer = committer
        self._objects = objects
        self._settings = settings
        self._clock = clock
        self._submit = submit
        # For what a caller waits for.
        self._submit_at_once = submit_at_once or submit
        self._admission = Admission(committer.shelf.capacity_bytes)
        self._stays_open = stays_open
        self._is_closing = False
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # What is being read though nobody waits for it yet, with its bytes: only as much as finds room.
        self._ahead: dict[str, int] = {}
        # What did not help is not tried again before there is more of it.
        self._futile_jobs = self._futile_bytes = 0
        self._futile_segments = 0
        # Segments that could not be read, and until when that is taken for granted.
        self._unreadable: dict[str, float] = {}
        self._collected_s = clock.monotonic_s()
        self._batch_due_s: dict[str, float] | None = None

    async def fetch(self, segments: Sequence[Needed]) -> None:
        """Put segments on the shelf, and wait for the first. If that is gone, it is noted there.

        The first one stays until `release`, so that an operation that needs it finds it there. Many that
        need different ones take turns.
        """
        first, *others = segments
        shelf = self._committer.shelf
        await self._admission.enter(_size_of(first))
        shelf.pin(first.name)
        try:
            if isinstance(first, DueSegment):
                work = self._start(f"sort {first.name}", partial(self._sort_out, first))
            elif first not in shelf:
                work = self._start(first.name, partial(self._read, first))
                self._read_ahead(others)
            else:
                return
            await asyncio.shield(work)
        except ObjectNotFoundError:
            shelf.miss(first)
        except BaseException:
            self.release([first])
            raise

    def release(self, fetched: Iterable[Needed]) -> None:
        """Let go of segments that were fetched, when the operations that need them were tried again."""
        for needed in fetched:
            self._committer.shelf.unpin(needed.name)
            self._admission.leave(_size_of(needed))

    def after_commit(self) -> None:
        """Start what is due."""
        if self._objects is None:
            return
        if self._committer.dropped:
            self._start("delete", partial(self._delete_dropped, self._objects))
        if self._is_closing or (state := self._committer.state) is None:
            return
        if batches := self._batches_due():
            self._start("archive", partial(self._archive, self._objects, batches))
        if self._is_overflowing(state, tolerance=1 if self._stays_open else _BRIEF_TOLERANCE):
            self._start("spill", partial(self._spill, self._objects))
        self._futile_segments = min(self._futile_segments, len(state.backlog))
        least = max(self._futile_segments, 0 if self._stays_open else _BRIEF_SEGMENTS)
        if len(state.backlog) > least or state.backlog.holey():
            self._start("merge", partial(self._merge, self._objects))
        if self._stays_open:
            if state.ledger.finished:
                self._start("seal", self._seal_in_time)
            self._read_ahead(state.upcoming_segments())
            every_s = min(_COLLECT_EVERY_S, self._settings.collect_after_s)
            if self._clock.monotonic_s() > self._collected_s + every_s:
                self._collected_s = self._clock.monotonic_s()
                self._start("collect", partial(self._collect, self._objects))

    async def finish(self) -> None:
        """Wait for what was begun to be finished, but not for long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINISHING_S):
                while works := self._works():
                    await asyncio.wait(works)

    async def close(self) -> None:
        """Finish what was begun, or leave it undone if that takes long, and begin nothing more."""
        self._is_closing = True
        await self.finish()
        for work in self._works():
            work.cancel()

    def abandon(self) -> None:
        """Leave whatever was begun, reads included."""
        for task in self._tasks.values():
            task.cancel()

    def _works(self) -> "list[asyncio.Task[None]]":
        return [task for what, task in self._tasks.items() if what in _WORKS]

    def _start(self, what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        task = self._tasks.get(what)
        if task is None or task.done():
            task = self._tasks[what] = asyncio.create_task(work(), name=f"bucketq {what}")
            task.add_done_callback(partial(self._ended, what))
        return task

    def _ended(self, what: str, done: "asyncio.Task[None]") -> None:
        if self._tasks.get(what) is done:
            del self._tasks[what]
        error = None if done.cancelled() else done.exception()
        if error is not None and what not in (*_WORKS, *_TIMERS):
            self._unreadable[what] = self._clock.monotonic_s() + _READ_AGAIN_AFTER_S
        if isinstance(error, ObjectNotFoundError):
            return  # used up by another process, most likely; who needs it will look again
        if isinstance(error, BucketQError | OSError):
            # Nothing is lost by it, and a later commit gives the next occasion.
            log.warning("upkeep (%s) did not succeed this time: %s", what, error)
        elif error is not None:
            log.error("upkeep (%s) failed", what, exc_info=error)

    def _is_overflowing(self, state: QueueState, tolerance: int = 1) -> bool:
        jobs_max, bytes_max = self._settings.hot_jobs_max, self._settings.hot_bytes_max
        if len(state.backlog):
            # One more segment costs a line only, and the jobs for it cost in every commit.
            jobs_max, bytes_max = jobs_max // 2, bytes_max // 2
        if state.spillable() <= jobs_max and state.live_size <= bytes_max:
            self._futile_jobs = self._futile_bytes = 0
        jobs_max, bytes_max = max(jobs_max, self._futile_jobs), max(bytes_max, self._futile_bytes)
        return state.spillable() > tolerance * jobs_max or state.live_size > tolerance * bytes_max

    def _batches_due(self) -> dict[str, SealedBatch]:
        """Batches to be created: our own, those found at first, others that nobody sees to for a while."""
        state = self._committer.state
        if state is None or self._committer.is_busy:
            # What a commit under way has sealed may never land; after it, this is asked again.
            return {}
        now_s = self._clock.monotonic_s()
        later_s = now_s if self._batch_due_s is None else now_s + _SEE_TO_OTHERS_AFTER_S
        known = self._batch_due_s or {}
        own = self._committer.sealed
        self._batch_due_s = {
            name: known.get(name, now_s if name in own else later_s) for name in state.ledger.sealed
        }
        return {
            name: batch
            for name, batch in state.ledger.sealed.items()
            if self._batch_due_s[name] <= now_s and name not in self._committer.archived
        }

    async def _archive(self, objects: SideObjects, batches: dict[str, SealedBatch]) -> None:
        while batches:
            for name, batch in batches.items():
                try:
                    await self._archive_batch(objects, name, batch)
                except (BucketQError, OSError) as error:
                    log.warning("%s could not be archived yet: %s", name, error)
                    if self._batch_due_s is not None:
                        self._batch_due_s[name] = self._clock.monotonic_s() + _ARCHIVE_AGAIN_AFTER_S
                else:
                    self._committer.archived.add(name)
                    if self._stays_open:
                        self._start("drop", self._drop_in_time)
                    else:
                        # There may be no other commit in this process, nor in any later one.
                        await self._submit(DropArchived((name,)))
            batches = self._batches_due()

    async def _archive_batch(self, objects: SideObjects, name: str, batch: SealedBatch) -> None:
        for payload, copy in kept_payloads(batch.lines):
            # If it is gone, another process has done this before.
            with suppress(ObjectNotFoundError):
                await objects.create(copy, await objects.read(payload))
        lines = list(batch.lines)
        for part in batch.parts:
            try:
                lines += part.lines(await objects.read(part.name))
            except ObjectNotFoundError:
                # The same, if the batch is there.
                await objects.read(name)
                return
        content = batch_content(lines)
        if not await objects.create(name, content) and await objects.read(name) != content:
            raise StorageError(
                "there is an object of this name already, from another queue.json that was deleted or"
                " replaced. The batch stays in queue.json; move the old archive away"
            )

    async def _drop_in_time(self) -> None:
        # Mostly another commit comes first, and takes it along.
        await asyncio.sleep(_DROP_AFTER_S)
        if self._committer.archived:
            await self._submit(DropArchived(tuple(self._committer.archived)))

    async def _seal_in_time(self) -> None:
        await asyncio.sleep(self._settings.archive_after_s)
        await self._submit(Seal(self._clock.now() - timedelta(seconds=self._settings.archive_after_s)))

    async def _spill(self, objects: SideObjects) -> None:
        while (state := self._committer.state) is not None and self._is_overflowing(state):
            self._futile_jobs, self._futile_bytes = state.spillable() * 5 // 4, state.live_size * 5 // 4
            version, lines = state.version, state.overflow()
            parts = []
            for line in lines:
                parts += [part async for part in objects.create_segments(each(line), version)]
            if parts and await self._swap(objects, Spill(tuple(parts))):
                self._futile_jobs = self._futile_bytes = 0

    async def _merge(self, objects: SideObjects) -> None:
        while (state := self._committer.state) is not None and (
            len(state.backlog) > self._futile_segments or state.backlog.holey()
        ):
            self._futile_segments = len(state.backlog)
            version, old = state.version, state.backlog.worth_merging(self._settings, self._hopeless())
            if not old:
                return
            contents = Shelf(_UNLIMITED)
            for segment in old:
                try:
                    contents.put(segment, await objects.read(segment.name))
                except BucketQError:
                    self._unreadable[segment.name] = self._clock.monotonic_s() + _READ_AGAIN_AFTER_S
                    raise
            jobs = heapq.merge(*map(contents.jobs, old), key=key_of)
            new = [segment async for segment, _ in objects.create_segments(each(jobs), version)]
            if await self._swap(objects, Merge(tuple(old), tuple(new))):
                self._futile_segments = 0
            elif state.backlog.holey():
                return  # a later commit gives the next occasion

    async def _sort_out(self, due: DueSegment) -> None:
        """Write the due jobs of a scheduled segment in the order in which they will be served."""
        state = self._committer.state
        if self._objects is None:
            raise unreachable("scheduled jobs are")
        # As it stands now: who asked for it may have taken jobs out of it in vain.
        segment = next((one for one in state.backlog if one.name == due.name), None) if state else None
        if state is None or segment is None or segment.status is not JobStatus.SCHEDULED:
            return  # another caller, or another process, has done it
        version = state.version
        waiting, rest, places = list[Job](), list[Job](), dict[int, Key]()
        lines = SegmentLines(segment, await self._objects.read(segment.name))
        for number, job in enumerate(lines.jobs(segment)):
            if number % _JOBS_AT_A_STRETCH == 0:
                await asyncio.sleep(0)
            places[job.sequence] = key_of(job)
            is_due = places[job.sequence] <= due.until
            (waiting if is_due else rest).append(replace(job, status=JobStatus.QUEUED) if is_due else job)
        parts, left, stood = list[WaitingPart](), list[Segment](), list[tuple[Key, ...]]()
        for dealt_jobs, ahead, last in list(dealt(waiting, state.turns)):
            async for part, jobs in self._objects.create_segments(each(dealt_jobs), version):
                parts.append(WaitingPart(part, ahead, last))
                stood.append(tuple(places[job.sequence] for job in jobs))
        async for part, jobs in self._objects.create_segments(each(rest), version):
            left.append(part)
            stood.append(tuple(places[job.sequence] for job in jobs))
        operation = SortOut(segment, tuple(parts), tuple(left), tuple(stood))
        await self._swap(self._objects, operation, self._submit_at_once)

    async def _swap(
        self,
        objects: SideObjects,
        operation: Spill | Merge | SortOut,
        submit: "Callable[[Operation], asyncio.Future[Any]] | None" = None,
    ) -> bool:
        """Have it committed; remove what was not taken in. False if nothing was."""
        refused: list[Segment] = await (submit or self._submit)(operation)
        await self._delete(objects, (name for segment in refused for name in segment.objects))
        new = operation.parts if isinstance(operation, Spill) else operation.new
        return len(refused) < len(new)

    async def _delete_dropped(self, objects: SideObjects) -> None:
        while names := self._committer.dropped:
            self._committer.dropped = []
            for name in names:
                self._committer.shelf.remove(name)
            await self._delete(objects, names)

    async def _delete(self, objects: SideObjects, names: Iterable[str]) -> None:
        # What is left will be collected.
        with suppress(StorageError, OSError):
            await objects.delete(names)

    async def _collect(self, objects: SideObjects) -> None:
        older_than = self._clock.now() - timedelta(seconds=self._settings.collect_after_s)
        await collect(objects, self._submit, older_than=older_than, dry_run=False)
        await tidy(objects, self._submit, self._settings, self._clock.now())

    def _read_ahead(self, segments: Iterable[Needed]) -> None:
        shelf, hopeless = self._committer.shelf, self._hopeless()
        under_way = {name for name, task in self._tasks.items() if not task.done()}
        self._ahead = {name: size for name, size in self._ahead.items() if name in under_way}
        for segment in segments:
            if segment in shelf or segment.name in self._ahead or segment.name in hopeless:
                continue
            if shelf.has_room_for(segment, sum(self._ahead.values())):
                self._ahead[segment.name] = _size_of(segment)
                self._start(segment.name, partial(self._read, segment))

    def _hopeless(self) -> Collection[str]:
        if self._unreadable:
            now_s = self._clock.monotonic_s()
            self._unreadable = {
                name: until_s for name, until_s in self._unreadable.items() if until_s > now_s
            }
        return self._unreadable.keys()

    async def _read(self, segment: Needed) -> None:
        if self._objects is None:
            raise unreachable("waiting jobs are")
        self._committer.shelf.put(segment, await self._objects.read_needed(segment))
        self._unreadable.pop(segment.name, None)


def _size_of(needed: Needed) -> int:
    """How much memory it takes; the companion of a segment stays there anyway."""
    if isinstance(needed, SegmentKeys):
        return 0
    return needed.segment.size if isinstance(needed, DueSegment) else needed.size
