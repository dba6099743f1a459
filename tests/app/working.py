"""Workers as users run them: `bucketq work` in processes of their own, and the journal of their jobs."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import bucketq
from bucketq import Settings

HERE = Path(__file__).parent
SOON_S = 30


class Worked:
    """A process that runs jobs, and the lines of its log."""

    def __init__(self, folder, *arguments, cwd=HERE, **variables):
        command = [sys.executable, *(arguments or ("-m", "bucketq", "work", "jobs:app"))]
        if command[1:4] == ["-m", "bucketq", "work"]:
            command += ["--log-format", "json", "--log-level", "debug"]
        environment = {**os.environ, "JOBS_FOLDER": str(folder), **variables}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=cwd)
        self.log = []
        self._told = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self._told:
                self.log.append(json.loads(line) if line.startswith("{") else {"message": line})
                self._told.notify_all()

    def wait_for(self, text, times=1):
        """The lines of the log with this text, once there are so many."""

        def found():
            lines = [line for line in self.log if text in line["message"]]
            return lines if len(lines) >= times else None

        with self._told:
            lines = self._told.wait_for(found, SOON_S)
        assert lines, self.log
        return lines

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        """Its exit code. Its log is read to the end, which whoever it started also has in hand."""
        code = self.process.wait(SOON_S)
        self._reader.join(SOON_S)
        return code

    def end(self):
        if self.process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
        self.wait()
        # Whoever was left behind has the other end, and is waited for in vain.
        if not self._reader.is_alive():
            self.process.stderr.close()


class Place:
    """The folder in which the jobs of a test live."""

    def __init__(self, folder, **variables):
        self.folder = folder
        self.url = f"file://{folder}/store/queue.json"
        self.variables = variables

    @contextmanager
    def worker(self, *options, **variables):
        """`bucketq work` with these options, or, beginning with a file, another program."""
        is_program = options and options[0].endswith(".py")
        arguments = options if is_program else ("-m", "bucketq", "work", "jobs:app", *options)
        worked = Worked(self.folder, *arguments, **{**self.variables, **variables})
        try:
            yield worked
        finally:
            worked.end()

    @asynccontextmanager
    async def queue(self):
        async with bucketq.connect(self.url, settings=Settings(poll_interval_s=0.2)) as queue:
            yield queue

    def allow(self, name):
        """Let the jobs end that wait for this file."""
        (self.folder / name).touch()

    def journal(self, what=None):
        path = self.folder / "journal"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [line for line in lines if what in (None, line["what"])]

    async def begun(self, count):
        """What the journal says of jobs that began, once there are so many."""
        return await until(lambda: len(found := self.journal("begun")) >= count and found)


async def until(condition):
    async with asyncio.timeout(SOON_S):
        while not (found := condition()):
            await asyncio.sleep(0.02)
    return found


def is_gone(pid):
    """Whether a process has ended; one that nobody has waited for has ended too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def children_of(pid):
    """The processes below another one, at any depth."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            child = int(stat.parent.name)
            found += [child, *children_of(child)]
    return found


def wait_gone(pids):
    end_s = time.monotonic() + SOON_S
    while left := [pid for pid in pids if not is_gone(pid)]:
        assert time.monotonic() < end_s, f"still running: {left}"
        time.sleep(0.05)
