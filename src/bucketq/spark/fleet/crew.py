"""Crew: a Python process of an executor at work on an app's jobs.

    the task's thread ── order ──▶ event loop ──▶ attempts: async handlers there, plain ones in threads
                      ◀── report ──┘

Spark gives one task after the other to such a process, so what took time to make is kept for the
next: the app, its event loop, which runs in a thread of its own, and the open resources. Spark ends the
process without a word.
"""

import asyncio
import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import NamedTuple

from pyspark import TaskContext

from bucketq.app.attempt import Attempts
from bucketq.app.outcome import Completed, Outcome
from bucketq.errors import ObjectNotFoundError
from bucketq.failure import error_text, trace_text
from bucketq.job import Job
from bucketq.loop_thread import LoopThread
from bucketq.segment_claim import CompletedJobs, SegmentClaim
from bucketq.settings import Settings
from bucketq.side_objects import SideObjects
from bucketq.spark.fleet.objects import objects_of
from bucketq.spark.fleet.order import Done, Kit, Lost, Order, Report, Slice, SliceDone, Unready, Work
from bucketq.spark.fleet.pace import BEGIN_WITHIN_S
from bucketq.spark.fleet.result_table import ResultTable, Tried
from bucketq.spark.fleet.shipment import unpack

# What has been done must not be done again because the storage is away for some minutes.
_PATIENT = Settings(retry_for_s=600.0)
# Where so many jobs make a chunk, none of them takes long.
_MANY = 20
# A function that took too long keeps its thread until it returns; others must not wait for it.
_SPARE_THREADS = 32


def run_orders(orders: Iterable[bytes]) -> Iterator[bytes]:
    """The function of the fleet's tasks."""
    for order in orders:
        yield pickle.dumps(_run(pickle.loads(order)))


def _run(order: Order) -> Report:
    context = TaskContext.get()
    # Spark would have the handlers run again, under claims that may be lost by now.
    if context is not None and context.attemptNumber() > 0:
        return Lost()
    try:
        return _crew_for(order.kit).work(order.work)
    except Exception as error:
        return Unready("\n".join(filter(None, (error_text(error), trace_text(error)))))


class _AllTried(NamedTuple):
    # None for a job that was not begun.
    tried: list[Tried | None]
    took_s: float


class Crew:
    """Runs the jobs of orders with one kit."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self._app = unpack(kit.app)
        self._loop = LoopThread()
        # The segment that was worked on last: mostly the next slice is of the same.
        self._segment: tuple[SegmentClaim, list[Job]] | None = None
        threads = ThreadPoolExecutor(kit.threads + _SPARE_THREADS, "bucketq job")
        self._results = None if kit.results is None else ResultTable(kit.results)
        self._attempts = Attempts(self._app, kit.entrypoints, threads=threads)
        try:
            self._loop.run(self._attempts.__aenter__())
        except BaseException:
            self._loop.stop()
            raise

    def work(self, work: Work) -> Report:
        """Try jobs, and tell how each ended."""
        if isinstance(work, Slice):
            return self._loop.run(self._work_on_slice(work))
        tried, took_s = self._loop.run(self._try_all(work))
        return Done([one and one.outcome for one in tried], took_s)

    def close(self) -> None:
        """Close the resources, and the queue."""
        self._loop.run(self._attempts.__aexit__(None, None, None))
        self._loop.run(self._app.close())
        self._loop.stop()

    async def _work_on_slice(self, work: Slice) -> Report:
        try:
            jobs = await self._jobs_of(work)
        except ObjectNotFoundError as error:
            return Lost(f"the claim on its segment was lost before: {error}")
        tried, took_s = await self._try_all(jobs)
        completed, by_themselves = CompletedJobs(), list[tuple[Job, Outcome]]()
        begun = [one for one in tried if one is not None]
        for job, one in zip(jobs, begun, strict=False):
            if isinstance(one.outcome, Completed) and not one.outcome.calls:
                completed.add(job, one.ended_at, one.outcome.result)
            else:
                by_themselves.append((job, one.outcome))
        staged = await (await self._objects()).create_staged(completed, work.claim.version)
        return SliceDone(staged, by_themselves, len(begun), took_s)

    async def _jobs_of(self, work: Slice) -> Sequence[Job]:
        if self._segment is None or self._segment[0] != work.claim:
            content = await (await self._objects()).read(work.claim.segment.name)
            self._segment = work.claim, work.claim.jobs(content)
        return self._segment[1][work.places.start : work.places.stop]

    async def _objects(self) -> SideObjects:
        return objects_of(await self._app.opened(), _PATIENT)

    async def _try_all(self, jobs: Sequence[Job]) -> _AllTried:
        tried: list[Tried | None] = [None] * len(jobs)
        began_s = time.monotonic()

        async def go_through(numbers: Iterator[int]) -> None:
            for number in numbers:
                started_at = datetime.now(UTC)
                outcome = await self._try(jobs[number])
                tried[number] = Tried(outcome, started_at, datetime.now(UTC))
                if time.monotonic() > began_s + BEGIN_WITHIN_S:
                    return

        is_one_by_one = self.kit.threads == 1 and not any(job.timeout_s for job in jobs)
        self._attempts.in_place = is_one_by_one and len(jobs) >= _MANY
        handlers = self._app.handlers
        is_async = [handlers[job.entrypoint].runs_in == "loop" for job in jobs]
        # Those who go through the same numbers share them.
        in_loop = iter([number for number in range(len(jobs)) if is_async[number]])
        in_threads = iter([number for number in range(len(jobs)) if not is_async[number]])
        await asyncio.gather(
            *(go_through(in_loop) for _ in range(self.kit.concurrency)),
            *(go_through(in_threads) for _ in range(self.kit.threads)),
        )
        took_s = time.monotonic() - began_s
        if self._results is not None:
            self._results.write((job, one) for job, one in zip(jobs, tried, strict=True) if one is not None)
        return _AllTried(tried, took_s)

    async def _try(self, job: Job) -> Outcome:
        await self._app.callbacks.tell_claimed(job)
        outcome = await self._attempts.attempt(job)
        await self._app.callbacks.tell_ended(job, outcome)
        return outcome


_crew: Crew | None = None


def _crew_for(kit: Kit) -> Crew:
    global _crew
    if _crew is None or _crew.kit != kit:
        if _crew is not None:
            _crew.close()
        _crew = None
        _crew = Crew(kit)
    return _crew
