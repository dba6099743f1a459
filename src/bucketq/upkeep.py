"""Upkeep: what keeps queue.json small, done beside the commits so that nobody waits for it.

    too many jobs wait in queue.json ──▶ write the last ones to a segment, swap by a commit
    many small or overlapping segments ──▶ write them as one, swap by a commit
    the turn of a segment comes soon ──▶ put it on the shelf
    objects not referred to any more ──▶ delete them; now and then collect what crashes left

Each step writes first and refers later. A crash in between leaves an object that nothing
refers to, and the collector finds it.
"""

import asyncio
import heapq
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from bucketq.backlog import OutdatedSegmentError, overflow
from bucketq.clock import Clock
from bucketq.collect import collect
from bucketq.commit import Committer
from bucketq.errors import BucketQError, ObjectNotFoundError, StorageError
from bucketq.job import Job
from bucketq.operation import Merge, Operation, Spill
from bucketq.segment import Segment, key_of
from bucketq.settings import Settings
from bucketq.shelf import Shelf
from bucketq.side_objects import SideObjects, unreachable
from bucketq.state import QueueState

log = logging.getLogger("bucketq")

_COLLECT_EVERY_S = 3600.0
_CLOSING_S = 5.0
_WORKS = ("delete", "spill", "merge", "collect")
_UNLIMITED = 1 << 62


class Upkeep:
    """Looks after the backlog of one committer; `submit` has an operation committed."""

    def __init__(
        self,
        committer: Committer,
        objects: SideObjects | None,
        settings: Settings,
        clock: Clock,
        submit: "Callable[[Operation], asyncio.Future[Any]]",
    ) -> None:
        self._committer = committer
        self._objects = objects
        self._settings = settings
        self._clock = clock
        self._submit = submit
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_closing = False
        # What did not help is not tried again before there is more of it.
        self._futile_jobs = self._futile_bytes = 0
        self._futile_segments = 0
        self._collected_s = clock.monotonic_s()

    async def fetch(self, segments: Iterable[Segment]) -> None:
        """Put segments on the shelf. If one is gone, that is noted there."""
        for read in [self._start(segment.name, partial(self._read, segment)) for segment in segments]:
            await asyncio.shield(read)

    def notice(self) -> None:
        """After a commit: start what is due."""
        if self._objects is None or self._is_closing:
            return
        if self._committer.dropped:
            self._start("delete", partial(self._delete_dropped, self._objects))
        if (state := self._committer.state) is None:
            return
        if self._is_overflowing(state):
            self._start("spill", partial(self._spill, self._objects))
        self._futile_segments = min(self._futile_segments, len(state.backlog))
        if len(state.backlog) > self._futile_segments:
            self._start("merge", partial(self._merge, self._objects))

    def look_ahead(self) -> None:
        """For a queue that stays open: read what is needed soon, and collect now and then."""
        if self._is_closing:
            return
        state, shelf = self._committer.state, self._committer.shelf
        if state is not None and not shelf.is_full:
            for segment in state.upcoming_segments():
                if segment not in shelf:
                    self._start(segment.name, partial(self._read, segment))
        every_s = min(_COLLECT_EVERY_S, self._settings.collect_after_s)
        if self._objects is not None and self._clock.monotonic_s() > self._collected_s + every_s:
            self._collected_s = self._clock.monotonic_s()
            self._start("collect", partial(self._collect, self._objects))

    async def relieve(self) -> None:
        """For a process that may end with this call: wait for what cannot be left undone for long."""
        state = self._committer.state
        is_urgent = state is not None and self._is_overflowing(state, tolerance=2)
        urgent = [self._tasks.get("delete"), self._tasks.get("spill") if is_urgent else None]
        if begun := [task for task in urgent if task is not None]:
            await asyncio.wait(begun)

    async def close(self) -> None:
        """Finish what was begun, or leave it if that takes long, and begin nothing more."""
        self._is_closing = True
        works = [task for what, task in self._tasks.items() if what in _WORKS]
        if works:
            await asyncio.wait(works, timeout=_CLOSING_S)
        for work in works:
            work.cancel()

    def abandon(self) -> None:
        """Leave whatever was begun, reads included."""
        for task in self._tasks.values():
            task.cancel()

    def _start(self, what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
        task = self._tasks.get(what)
        if task is None:
            task = self._tasks[what] = asyncio.create_task(work(), name=f"bucketq {what}")
            task.add_done_callback(partial(self._ended, what))
        return task

    def _ended(self, what: str, done: "asyncio.Task[None]") -> None:
        del self._tasks[what]
        error = None if done.cancelled() else done.exception()
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
        if state.waiting_in_file() <= jobs_max and state.size <= bytes_max:
            self._futile_jobs = self._futile_bytes = 0
        jobs_max, bytes_max = max(jobs_max, self._futile_jobs), max(bytes_max, self._futile_bytes)
        return state.waiting_in_file() > tolerance * jobs_max or state.size > tolerance * bytes_max

    async def _spill(self, objects: SideObjects) -> None:
        while (state := self._committer.state) is not None and self._is_overflowing(state):
            self._futile_jobs, self._futile_bytes = state.waiting_in_file() * 5 // 4, state.size * 5 // 4
            version = state.version
            for line in overflow(state.queued_jobs(), self._settings):
                async for segment, jobs in objects.create_segments(_each(line), version):
                    if await self._swap(objects, Spill(segment, jobs), [segment]):
                        self._futile_jobs = self._futile_bytes = 0

    async def _merge(self, objects: SideObjects) -> None:
        while (state := self._committer.state) is not None and len(state.backlog) > self._futile_segments:
            self._futile_segments = len(state.backlog)
            version, old = state.version, state.backlog.worth_merging(self._settings)
            if not old:
                return
            contents = Shelf(_UNLIMITED)
            try:
                for segment in old:
                    contents.put(segment, await objects.read(segment.name))
            except ObjectNotFoundError:
                return  # used up meanwhile, by another process
            jobs = heapq.merge(*map(contents.jobs, old), key=key_of)
            new = [segment async for segment, _ in objects.create_segments(_each(jobs), version)]
            if await self._swap(objects, Merge(tuple(old), tuple(new)), new):
                self._futile_segments = 0

    async def _swap(self, objects: SideObjects, operation: Operation, new: list[Segment]) -> bool:
        try:
            await self._submit(operation)
        except OutdatedSegmentError:
            await self._delete(objects, (segment.name for segment in new))
            return False
        return True

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

    async def _read(self, segment: Segment) -> None:
        if self._objects is None:
            raise unreachable("waiting jobs are")
        try:
            self._committer.shelf.put(segment, await self._objects.read(segment.name))
        except ObjectNotFoundError:
            self._committer.shelf.miss(segment)


async def _each(jobs: Iterable[Job]) -> AsyncIterator[Job]:
    for job in jobs:
        yield job
