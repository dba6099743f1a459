"""Supervisor: keeps worker processes running.

    supervisor ══ pipe ══ worker 0      one that dies is started anew, after a growing pause
               ══ pipe ══ worker 1      SIGTERM is passed on and waited for

A worker's standard input is a pipe from here. It closes when the supervisor is gone, however it went,
and the worker ends as by SIGTERM. Workers have process groups of their own, so that Ctrl-C reaches
them once, through the supervisor.
"""

import asyncio
import logging
import os
import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from bucketq.app.signals import told_by_signals
from bucketq.retry import Backoff

log = logging.getLogger("bucketq")

_BACKOFF = Backoff(first_s=0.5, cap_s=30.0, exponential=True)
# Whoever lived for so long had no false start.
_STEADY_S = 10.0
_WATCH_INTERVAL_S = 0.5
# As `bucketq` exits when an app or an option is wrong: a new start would not help.
_HOPELESS = 2


class Supervisor:
    """Runs `count` processes, each by the command for its number, until it is told to stop.

    With `watched`, they are started anew when a Python file below that folder changes. Those that have not
    ended `kill_after_s` after they were told to are killed.
    """

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        count: int,
        environment: Mapping[str, str],
        watched: Path | None = None,
        kill_after_s: float = 45.0,
    ) -> None:
        self._command = command
        self._count = count
        self._environment = environment
        self._kill_after_s = kill_after_s
        self._watched = watched
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._is_told = False
        self._code = 0
        # Set when waiting is over: there is something to stop, or to start.
        self._news = asyncio.Event()

    async def run(self) -> int:
        """Keep them running; return the exit code."""
        watching = asyncio.create_task(self._watch(self._watched)) if self._watched else None
        try:
            with told_by_signals(self._stop, self._kill):
                async with asyncio.TaskGroup() as keeping:
                    for number in range(self._count):
                        keeping.create_task(self._keep(number))
        finally:
            if watching is not None:
                watching.cancel()
        return self._code

    async def _keep(self, number: int) -> None:
        false_starts = 0
        while not self._is_told:
            news, began_s = self._news, time.monotonic()
            code = await self._run_one(number)
            if self._is_told:
                return
            if news.is_set():
                continue
            if self._watched is not None and code > 0:
                log.warning("worker %d cannot run; it is started again when a file has changed", number)
                await news.wait()
                continue
            if code == _HOPELESS:
                self._code = code
                self._stop()
                return
            false_starts = 0 if time.monotonic() - began_s > _STEADY_S else false_starts + 1
            pause_s = _BACKOFF.delay_s(false_starts, random.random())
            log.warning(
                "worker %d ended with exit code %d; it is started again in %.1f s", number, code, pause_s
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await news.wait()

    async def _run_one(self, number: int) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._command(number),
            stdin=asyncio.subprocess.PIPE,
            env=self._environment,
            start_new_session=True,
        )
        log.info("worker %d runs as process %d", number, process.pid)
        self._processes[number] = process
        if self._is_told:
            process.terminate()
        try:
            return await process.wait()
        finally:
            del self._processes[number]

    def _stop(self) -> None:
        log.info("stopping %d workers", len(self._processes))
        self._is_told = True
        asyncio.get_running_loop().call_later(self._kill_after_s, self._kill)
        self._end_all()

    def _kill(self) -> None:
        self._signal_all(signal.SIGKILL)

    def _end_all(self) -> None:
        self._signal_all(signal.SIGTERM)
        self._news.set()
        self._news = asyncio.Event()

    def _signal_all(self, number: int) -> None:
        for process in self._processes.values():
            with suppress(ProcessLookupError):  # it has just ended, and the others have not
                process.send_signal(number)

    async def _watch(self, folder: Path) -> None:
        seen = await asyncio.to_thread(_stamps, folder)
        while True:
            await asyncio.sleep(_WATCH_INTERVAL_S)
            found = await asyncio.to_thread(_stamps, folder)
            if changed := [path for path, _ in seen.items() ^ found.items()]:
                log.info("%s has changed: starting anew", changed[0])
                self._end_all()
            seen = found


def _stamps(folder: Path) -> dict[str, int]:
    """When each Python file was changed, but for those of virtual environments and hidden folders."""
    stamps = {}
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = [name for name in folders if name[0] != "." and not _is_environment(here / name)]
        for path in (here / name for name in names if name.endswith(".py")):
            with suppress(OSError):  # it may be removed meanwhile
                stamps[str(path.relative_to(folder))] = path.stat().st_mtime_ns
    return stamps


def _is_environment(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").exists()
