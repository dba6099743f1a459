"""Worker: runs the jobs of an app until it is told to stop.

    claim ──▶ a task for each job ──▶ outcome ──▶ settle, all that ended in one write
      ▲            │         ▲
      └ free slots ┘         └── beat: one heartbeat for all; a lost claim stops its task

Claiming, settling and beating are three loops, and a storage that fails only makes them try again. A
slot is free as soon as its handler has ended, so the claim for it goes into the same commit as the ack.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress
from typing import Any

from bucketq.app.app import App
from bucketq.app.attempt import Attempts, handlers_of
from bucketq.app.settling import Settling
from bucketq.app.signals import told_by_signals, unless
from bucketq.app.worker.beating import beat
from bucketq.app.worker.claiming import Claiming
from bucketq.app.worker.processes import ProcessPool
from bucketq.app.worker.slots import Slots
from bucketq.app.worker.threads import Threads
from bucketq.errors import ConfigurationError
from bucketq.storage.port import Provable
from bucketq.wanted import WANTED_MAX

log = logging.getLogger("bucketq")

# Beyond the grace: for handlers to clean up; for the last outcomes to be settled; and to close the queue.
# Together they leave something of the ten seconds that a service manager is asked for.
_LAST_S = 5.0
_SETTLE_S_MIN = 2.0
_CLOSE_S = 2.0


class Worker:
    """Runs up to `concurrency` jobs of an app at a time.

        async with app:
            await Worker(app, concurrency=50, entrypoints=["send_email"]).run()

    `entrypoints` are those it takes, up to 1,000; all of the app's by default. Raises ConfigurationError.
    """

    def __init__(
        self,
        app: App,
        *,
        concurrency: int = 20,
        entrypoints: Iterable[str] | None = None,
        grace_s: float = 30.0,
        is_supervised: bool = False,
    ) -> None:
        if concurrency < 1:
            raise ConfigurationError(f"a worker's concurrency is at least 1, not {concurrency}")
        if not grace_s >= 0:
            raise ConfigurationError(f"a worker's grace time is not below 0 s: {grace_s}")
        self.app = app
        # Called by `stop`.
        self.on_stop: Callable[[], object] = lambda: None
        self._concurrency = concurrency
        self._handlers = handlers_of(app, entrypoints)
        if not 1 <= len(self._handlers) <= WANTED_MAX:
            raise ConfigurationError(
                f"a worker takes jobs of 1 to {WANTED_MAX} entrypoints, not of {len(self._handlers)}: name"
                " those that it is to take, and start other workers for the others"
            )
        self._grace_s = grace_s
        self._is_supervised = is_supervised
        self._told = asyncio.Event()
        self._freed = asyncio.Event()
        self._processes: ProcessPool | None = None
        self._slots: Slots | None = None
        self._claiming: Claiming | None = None

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many jobs are running, and how many this worker has done, and has seen fail."""
        slots = self._slots
        return (0, 0, 0) if slots is None else (len(slots), slots.done, slots.failed)

    @property
    def trouble(self) -> str | None:
        """Why it claims no jobs: it is starting, or stopping, or what the storage says."""
        if self._claiming is None:
            return "starting"
        return "stopping" if self._told.is_set() else self._claiming.trouble

    async def serve(self) -> None:
        """Open the queue, and run jobs until SIGTERM or SIGINT; a second one ends the process at once.

        Not if it is supervised: systemd signals a supervisor and its workers, and then the supervisor signals
        them too. It kills those that are to end at once.
        """

        try:
            with told_by_signals(self.stop, None if self._is_supervised else self._kill_processes):
                await self.run()
        finally:
            await self.app.close(_CLOSE_S)

    async def run(self) -> None:
        """Run jobs until `stop`. Raises what a resource raises that cannot be opened.

        At the end handlers get their grace time; what they do not finish is given back, and costs no
        attempt.
        """
        queue = await self.app.opened()
        if isinstance(queue.storage, Provable):
            # Before there is anything to claim: a worker that says that it takes jobs shall be able to.
            await unless(self._told, queue.storage.prove())
        loop = asyncio.get_running_loop()

        def on_return() -> None:
            with suppress(RuntimeError):  # it outlived the loop
                loop.call_soon_threadsafe(self._freed.set)

        threads = Threads(on_return)
        async with AsyncExitStack() as stack:
            stack.callback(threads.shutdown)
            if any(handler.runs_in == "process" for handler in self._handlers.values()):
                self._processes = await stack.enter_async_context(ProcessPool(self.app))
            attempts = await stack.enter_async_context(
                Attempts(self.app, self._handlers, threads=threads, processes=self._processes)
            )
            settling = Settling(queue, on_settled=self._freed.set)
            slots = self._slots = Slots(
                self._concurrency, attempts, threads, self.app.callbacks, settling.add, self._freed.set
            )
            self._claiming = Claiming(queue, self._handlers, slots, settling, self._freed)
            loops = [
                loop.create_task(settling.run(), name="bucketq settle"),
                loop.create_task(beat(queue, slots, settling), name="bucketq beat"),
            ]
            grace_s = self._grace_s
            try:
                await self._claim(self._claiming, loops)
            except asyncio.CancelledError:
                grace_s = 0.0
                raise
            finally:
                await self._wind_up(slots, settling, grace_s)
                await _end(loops)

    def stop(self) -> None:
        """Claim no more jobs, and let `run` return when those that run have ended."""
        self.on_stop()
        self._told.set()

    async def _claim(self, claiming: Claiming, loops: "list[asyncio.Task[None]]") -> None:
        told = asyncio.create_task(self._told.wait())
        claims = asyncio.create_task(claiming.run(), name="bucketq claim")
        try:
            ended, _ = await asyncio.wait([told, claims, *loops], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end([told, claims])
        for task in ended:
            task.result()

    async def _wind_up(self, slots: Slots, settling: Settling, grace_s: float) -> None:
        log.info("stopping: %d jobs may go on for up to %g s", len(slots), grace_s)
        time_s = asyncio.get_running_loop().time
        until_s = time_s() + grace_s
        await slots.wait(grace_s)
        slots.cancel_all()
        await slots.wait(_LAST_S)
        slots.give_up()
        try:
            async with asyncio.timeout(max(_SETTLE_S_MIN, until_s + _LAST_S - time_s())):
                while len(settling):
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            log.error("%d finished jobs could not be settled, and will be run again", len(settling))
        told = slots.done, slots.failed, slots.given_back
        log.info("stopped: %d jobs done, %d failed, %d given back", *told)

    def _kill_processes(self) -> None:
        if self._processes is not None:
            self._processes.kill()


async def _end(tasks: "list[asyncio.Task[Any]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
