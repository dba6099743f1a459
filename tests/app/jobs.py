"""An app for tests with worker processes: its handlers write down what happens to them.

It lives in the folder that JOBS_FOLDER names: the queue, the journal, and files that handlers wait for.
"""

import asyncio
import json
import logging
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from bucketq import App, Running, Settings, provided
from bucketq.app import current

FOLDER = Path(os.environ["JOBS_FOLDER"])
SETTINGS = Settings(
    stale_after_s=float(os.environ.get("JOBS_STALE_AFTER_S", "60")),
    retry_for_s=float(os.environ.get("JOBS_RETRY_FOR_S", "30")),
    poll_interval_s=0.2,
)

app = App(f"file://{FOLDER}/store/queue.json", settings=SETTINGS)


def write_down(what, **more):
    """Add a line to the journal, in one write, so that processes do not mix theirs."""
    job = current().job
    line = {"what": what, "job": job.id, "token": job.token, "attempt": job.attempts, "crashes": job.crashes}
    with (FOLDER / "journal").open("ab", buffering=0) as journal:
        journal.write(json.dumps({**line, "pid": os.getpid(), **more}).encode() + b"\n")


@app.job
async def patient(name: str) -> str:
    """Waits until a file is there."""
    write_down("begun", name=name)
    try:
        while not (FOLDER / name).exists():
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        write_down("cancelled", name=name)
        raise
    write_down("ended", name=name)
    return current().job.token


@app.job
async def stubborn(minutes: int) -> None:
    """Cannot be stopped, nor can the thread that it waits for."""
    write_down("begun")
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.to_thread(time.sleep, 60 * minutes)


@app.job(runs_in="process", max_attempts=1)
def elsewhere(name: str) -> int:
    """The same in a process of its own."""
    write_down("begun", name=name)
    while not (FOLDER / name).exists():
        time.sleep(0.02)
    write_down("ended", name=name)
    return os.getpid()


class Parent:
    """A resource: the process that opened it."""

    def __init__(self):
        self.pid = os.getpid()


@app.resource
async def parent() -> Parent:
    with (FOLDER / "opened").open("a") as opened:
        opened.write(f"{os.getpid()}\n")
    return Parent()


class OddError(Exception):
    """Cannot be made anew of what pickle keeps."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


class MuteError(Exception):
    """Raises another when it is asked for its text."""

    def __str__(self):
        raise RuntimeError


@app.job(runs_in="process", max_attempts=1, timeout=20)
def versatile(
    do: str, n: int = 0, running: Running = provided(), parent: Parent = provided()
) -> dict[str, int] | None:
    """Does in a process what its test asks for."""
    assert parent.pid == os.getpid()
    match do:
        case "tell":
            running.report(0.5, f"half of {n}")
            while not (FOLDER / "go").exists():
                time.sleep(0.02)
            running.enqueue(versatile.call("nothing", n=n))
        case "enqueue":
            patient.enqueue_sync("go")
        case "die":
            os.kill(os.getpid(), 9)
        case "odd":
            raise OddError("one", "two")
        case "mute":
            raise MuteError
        case "log":
            logging.getLogger("shop").warning("logged", extra={"cause": OddError("one", "two"), "worker": 7})
        case "exit":
            sys.exit("enough")
        case "unfit":
            return running  # no JSON
        case "start":
            # What a handler starts can be ended by a signal, although the handler's process cannot.
            other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
            other.terminate()
            return {"code": other.wait(20)}
    return {"pid": os.getpid(), "n": n}


if __name__ == "__main__":
    app.run(grace_s=5)
