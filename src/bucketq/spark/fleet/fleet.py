"""Fleet: Spark's executors run the jobs of an app.

    lane ──▶ the next chunk ──▶ a task of Spark's ──▶ what became of its jobs ──▶ supply
      ▲                                                                             │
      └───────────────────── a few more lanes than cores ◀──────────────────────────┘

The driver claims, keeps claims alive and settles. A lane waits for its own task only: so nobody waits
for the slowest of a batch, and there is a task for every core that becomes free.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from math import ceil
from typing import TYPE_CHECKING, Any

from bucketq.app.app import App
from bucketq.app.attempt import handlers_of
from bucketq.app.signals import told_by_signals, unless
from bucketq.errors import ConfigurationError
from bucketq.queue import Queue
from bucketq.spark.fleet.chunk import Chunk, Tally
from bucketq.spark.fleet.insisting import insist
from bucketq.spark.fleet.order import Done, Kit, Lost, Report, SliceDone, Unready
from bucketq.spark.fleet.supply import Supply
from bucketq.spark.fleet.tasks import Tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("bucketq")

# While one chunk is taken in, and the next one claimed and sent, another has its core.
_LANES_PER_CORE = 1.5
_BEAT_S_MAX = 10.0
_TELL_EVERY_S = 30.0
# Beyond the grace: for tasks to end and to be settled; for their lanes, where the queue does not answer; for
# what is left to be given back; and to close the queue. Together they are ten seconds.
_LAST_S = 4.0
_LANES_S = 1.0
_GIVE_BACK_S = 3.0
_CLOSE_S = 2.0


def run(app: App, spark: "SparkSession", **options: Any) -> Tally:
    """Run an app's jobs on Spark's executors, until SIGTERM or SIGINT; the options are those of `Fleet`.

        from bucketq.spark import local_session, run
        from myapp.jobs import app

        run(app, local_session(), until_empty=True)

    Raises ConfigurationError.
    """
    return Fleet(app, spark, **options).run()


class Fleet:
    """Runs an app's jobs on Spark's executors.

    `entrypoints` are those it takes, all of the app's by default. `lanes` is how many tasks there are at
    a time (1.5 for each core), `batch_size` how many jobs one of them gets at most. Within a task
    `concurrency` async handlers run at the same time, and `threads_per_task` plain ones. With
    `until_empty` it ends when no job waits; jobs for later are not waited for. `results` is a folder, or
    its URL, for a table of all outcomes. At the end tasks have `grace_s` seconds; what they do not finish
    is given back, and costs no attempt.

    Raises ConfigurationError.
    """

    def __init__(
        self,
        app: App,
        spark: "SparkSession",
        *,
        entrypoints: Iterable[str] | None = None,
        lanes: int | None = None,
        batch_size: int = 10_000,
        concurrency: int = 8,
        threads_per_task: int = 1,
        until_empty: bool = False,
        results: str | None = None,
        grace_s: float = 30.0,
    ) -> None:
        numbers = {"batch_size": batch_size, "concurrency": concurrency, "threads_per_task": threads_per_task}
        for name, value in (numbers | ({} if lanes is None else {"lanes": lanes})).items():
            if value < 1:
                raise ConfigurationError(f"{name} is at least 1, not {value}")
        if app.url.startswith("memory:"):
            raise ConfigurationError("Spark's processes share no memory:// queue; use file:// or a bucket")
        # Here, since the package is to be imported without Spark.
        from bucketq.spark.fleet.shipment import pack

        self.app = app
        # Called by `stop`.
        self.on_stop: Callable[[], object] = lambda: None
        self._handlers = handlers_of(app, entrypoints)
        self._entrypoints = tuple(self._handlers)
        if results is not None and "://" not in results:
            results = os.path.abspath(results)
        self._tasks = Tasks(spark, Kit(pack(app), self._entrypoints, concurrency, threads_per_task, results))
        self._lanes = lanes
        self._batch_size = batch_size
        self._until_empty = until_empty
        self._grace_s = grace_s
        self._supply: Supply | None = None
        self._groups: dict[Chunk, str] = {}
        self._error: Exception | None = None
        self._is_told = False
        self._told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def tally(self) -> Tally:
        """How far it is."""
        return Tally() if self._supply is None else replace(self._supply.tally)

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many jobs are running, and how many are done, and have failed."""
        tally = self.tally
        return tally.running, tally.completed, tally.failed

    @property
    def trouble(self) -> str | None:
        """Why it claims no jobs: it is starting, or stopping."""
        return "stopping" if self._is_told else "starting" if self._supply is None else None

    def run(self) -> Tally:
        """Run jobs until `stop`, SIGTERM or SIGINT; a second signal ends the process at once.

        Raises ConfigurationError if the executors cannot run the app; it costs no job an attempt.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(self.serve())
            return self.tally
        # In a notebook, whose own event loop has this thread.
        with ThreadPoolExecutor(1, "bucketq fleet") as thread:
            try:
                thread.submit(asyncio.run, self.serve()).result()
            finally:
                self.stop()
        return self.tally

    def stop(self) -> None:
        """Claim no more jobs, and let `run` return when the tasks have ended. Any thread may call it."""
        self.on_stop()
        self._is_told = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._told.set)

    async def serve(self) -> None:
        """`run`, for a program that has an event loop."""
        self._loop = asyncio.get_running_loop()
        if self._is_told:
            self._told.set()
        with told_by_signals(self.stop, lambda: None):
            await self._tasks.probe()
            try:
                queue = await self.app.opened()
                for handler in self._handlers.values():
                    await unless(self._told, insist(handler.make_schedule))
                await self._work(queue)
            finally:
                await self.app.close(_CLOSE_S)
        if self._error is not None:
            raise self._error

    async def _work(self, queue: Queue) -> None:
        # Executors have come for the probe: now it is known how many cores they have.
        lanes = self._lanes or ceil(_LANES_PER_CORE * self._tasks.cores)
        supply = self._supply = Supply(
            queue, self._entrypoints, lanes=lanes, batch_size=self._batch_size, until_empty=self._until_empty
        )
        self._tasks.open(lanes)
        interval_s = min(queue.settings.stale_after_s / 3, _BEAT_S_MAX)
        working = [asyncio.create_task(self._lane(supply), name="bucketq lane") for _ in range(lanes)]
        works = supply.settle(), self._beat(supply, interval_s), self._wind_up(supply, working), self._tell()
        beside = [asyncio.create_task(work, name="bucketq fleet") for work in works]
        log.info("taking jobs of %s, %d tasks at a time", ", ".join(self._entrypoints), lanes)
        try:
            await asyncio.gather(*working, return_exceptions=True)
        finally:
            try:
                async with asyncio.timeout(_GIVE_BACK_S):
                    await supply.give_back()
            except TimeoutError:
                log.error("the queue could not be told of everything: some jobs will be run again")
            for task in beside:
                task.cancel()
            await asyncio.wait(beside)
            self._tasks.close()
            log.info("stopped: %s", _told(self.tally))

    async def _lane(self, supply: Supply) -> None:
        try:
            while (chunk := await supply.next()) is not None:
                group = self._groups[chunk] = self._tasks.new_group()
                try:
                    report = await self._tasks.run(group, chunk.work)
                except asyncio.CancelledError:
                    await self._tasks.cancel(group)
                    await supply.give_up(chunk, is_crash=False)
                    raise
                finally:
                    del self._groups[chunk]
                await self._take_in(supply, chunk, report)
        except Exception as error:
            self._error = self._error or error
            self.stop()

    async def _take_in(self, supply: Supply, chunk: Chunk, report: Report) -> None:
        match report:
            case Unready(error):
                await supply.give_up(chunk, is_crash=False)
                raise ConfigurationError(f"an executor cannot run the app: {error}")
            case Lost(error):
                is_crash = not chunk.is_cancelled and not self._tasks.is_stopped
                await supply.give_up(chunk, is_crash=is_crash)
                if is_crash:
                    log.warning("a task is lost, and its %d jobs are tried again: %s", len(chunk), error)
                elif self._tasks.is_stopped:
                    raise ConfigurationError("Spark was stopped while the fleet was at work")
            case Done() | SliceDone():
                await supply.take_in(chunk, report)

    async def _beat(self, supply: Supply, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            try:
                for chunk in await supply.beat():
                    log.warning("all claims of a task's %d jobs are lost: it is stopped", len(chunk))
                    await self._cancel(chunk)
            except Exception as error:
                # Whatever it was: a heart that stops without a word costs the jobs.
                log.warning("a heartbeat did not get through, the next one may: %s", error)

    async def _wind_up(self, supply: Supply, lanes: "list[asyncio.Task[None]]") -> None:
        await self._told.wait()
        log.info("stopping: %d tasks may go on for up to %g s", len(self._groups), self._grace_s)
        supply.stop()
        await asyncio.sleep(self._grace_s)
        for chunk in list(self._groups):
            await self._cancel(chunk)
        # Where the queue does not answer, a lane would try for ever to settle a segment.
        await asyncio.sleep(_LAST_S)
        # The second time it ends what a lane does when it is cancelled.
        for _ in range(2):
            for lane in lanes:
                lane.cancel()
            await asyncio.wait(lanes, timeout=_LANES_S / 2)

    async def _cancel(self, chunk: Chunk) -> None:
        if chunk in self._groups:
            chunk.is_cancelled = True
            await self._tasks.cancel(self._groups[chunk])

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(_TELL_EVERY_S)
            log.info(_told(self.tally))


def _told(tally: Tally) -> str:
    return ", ".join(f"{count} {what}" for what, count in asdict(tally).items())
