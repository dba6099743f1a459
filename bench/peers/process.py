"""Process: one that is started, killed and counted here; none outlives whoever started it."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from bench.side import ROOT

READY_WITHIN_S = 60.0

_started: list["Process"] = []
_closed = threading.Event()


def kill_all() -> None:
    """Kill whatever was started and is left, and let nothing more be started."""
    _closed.set()
    for process in _started:
        process.kill()


class Process:
    """A process with everything that it forks; use it with `with`, or call `kill`."""

    def __init__(
        self,
        command: list[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        output: int | None = None,
    ) -> None:
        if _closed.is_set():
            raise RuntimeError("nothing is started any more")
        self.log = log
        with log.open("ab") as errors:
            self._popen = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=errors if output is None else output,
                stderr=errors,
                start_new_session=True,
                text=True,
            )
        self.pid = self._popen.pid
        _started.append(self)

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    def kill(self) -> None:
        """SIGKILL, for it and for all that it has forked; return when they are gone."""
        for pid in tree(self.pid) if self.is_alive else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._popen.wait()
        if self._popen.stdout:
            self._popen.stdout.close()

    def answer(self, within_s: float) -> str:
        """What it prints until it ends."""
        try:
            printed, _ = self._popen.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"not done within {within_s:g} s:\n{self.told()}") from None
        if self._popen.returncode:
            raise RuntimeError(f"failed:\n{self.told()}")
        return str(printed)

    def wait_until(self, is_so: Callable[[], bool], within_s: float = READY_WITHIN_S) -> None:
        """Wait for something that this process brings about."""
        deadline_s = time.monotonic() + within_s
        while not is_so():
            if not self.is_alive or time.monotonic() > deadline_s:
                raise RuntimeError(f"did not get there:\n{self.told()}")
            time.sleep(0.01)

    def told(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:]

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def cpu_s(roots: Iterable[int]) -> float:
    """The CPU that processes have taken, with all that they have forked, alive or gone."""
    stats = _stats()
    return sum(stats[pid][1] for root in roots for pid in _below(root, stats))


def tree(root: int) -> list[int]:
    """A process and all that it has forked."""
    return _below(root, _stats())


def _below(root: int, stats: dict[int, tuple[int, float]]) -> list[int]:
    found = [root] if root in stats else []
    for pid in found:
        found += [child for child, (parent, _) in stats.items() if parent == pid]
    return found


def _stats() -> dict[int, tuple[int, float]]:
    """The parent of each process, and the CPU seconds of it and of its children that are gone."""
    ticks = os.sysconf("SC_CLK_TCK")
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        stats[int(path.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / ticks
    return stats
