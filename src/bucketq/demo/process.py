"""Process: one of those that take part in the tour.

Its standard input is a pipe from here, so that it ends with the tour, however that ends (see
`bucketq.supervised`). It has a session of its own: Ctrl-C reaches the tour alone, and what it has started in
turn can be ended with it. What it says is in its log.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from bucketq.errors import BucketQError

_LOOK_EVERY_S = 0.05
# Even where many others want the processors too.
_BEGIN_WITHIN_S = 60.0
_END_WITHIN_S = 15.0


class ProcessError(BucketQError):
    """A process of the tour did not start, or ended too soon."""


class Process:
    """A module of Python as a process; it runs from the beginning."""

    def __init__(self, name: str, log: Path, *arguments: str) -> None:
        self.name = name
        self.log = log
        self.was_killed = False
        self._may_end = False
        with log.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.PIPE,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def said(self) -> str:
        """All that it has said."""
        return self.log.read_text(errors="replace")

    @property
    def last_words(self) -> str:
        """The last line of it."""
        return (self.said.strip().splitlines() or ["it said nothing"])[-1]

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    async def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until it says something. Raises ProcessError."""
        await _comes(lambda: self.exit_code is not None or re.search(pattern, self.said), _BEGIN_WITHIN_S)
        self.check_running()
        if found := re.search(pattern, self.said):
            return found
        raise ProcessError(f"{self.name} was not ready within {_BEGIN_WITHIN_S:g} s; see {self.log}")

    async def wait(self, within_s: float) -> bool:
        """Wait until it has ended; False if it does not within a time."""
        return await _comes(lambda: self.exit_code is not None, within_s)

    def check_running(self) -> None:
        """Raise ProcessError if it has ended by itself."""
        if self.exit_code is not None and not self._may_end:
            raise ProcessError(
                f"{self.name} ended with exit code {self.exit_code}: {self.last_words}; see {self.log}"
            )

    def kill(self) -> None:
        """End it without a warning."""
        self.was_killed = self._may_end = True
        self._process.kill()

    async def stop(self) -> None:
        """End it by SIGTERM, with all that it has started; what does not end is killed."""
        self._may_end = True
        if self.exit_code is None:
            self._process.terminate()
        if not await _comes(lambda: self.exit_code is not None and self._is_alone(), _END_WITHIN_S):
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _is_alone(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return True
        return False


async def _comes(condition: Callable[[], object], within_s: float) -> bool:
    until_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until_s:
            return False
        await asyncio.sleep(_LOOK_EVERY_S)
    return True
