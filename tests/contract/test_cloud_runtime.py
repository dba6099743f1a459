"""obstore's threads at the end of a process, and in a forked one."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from bucketq.storage import runtime
from tests.contract.servers import BUCKET, Server


def _run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-W", "ignore", "-c", script, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


DELIVER = """
import _thread, asyncio, os, time
import bucketq.storage

delivered = _thread.allocate_lock()
delivered.acquire()

class Loop(asyncio.SelectorEventLoop):
    def _write_to_self(self):
        delivered.release()
        time.sleep(0.2)
        os.write(1, b"out")

loop = Loop()
_thread.start_new_thread(loop.call_soon_threadsafe, (print,))
delivered.acquire()
"""


def test_exit_waits_for_a_thread_that_delivers_an_answer() -> None:
    done = _run(DELIVER)
    assert (done.returncode, done.stdout) == (0, "out"), done.stderr


def test_exit_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_EXIT_WAIT_MAX_S", 0.05)
    inside, leave = threading.Event(), threading.Event()

    def call_soon_threadsafe() -> None:
        inside.set()
        leave.wait()

    with _running(call_soon_threadsafe, inside, leave):
        assert 0.05 <= _time_to_leave_s() < 5


def test_exit_does_not_wait_for_threads_at_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_EXIT_WAIT_MAX_S", 10)
    inside, leave = threading.Event(), threading.Event()

    def compute() -> None:
        inside.set()
        leave.wait()

    with _running(compute, inside, leave):
        assert _time_to_leave_s() < 5


@contextlib.contextmanager
def _running(target: Callable[[], None], inside: threading.Event, leave: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=target)
    thread.start()
    try:
        assert inside.wait(10)
        yield
    finally:
        leave.set()
        thread.join()


def _time_to_leave_s() -> float:
    started_s = time.monotonic()
    runtime.leave_runtime()
    return time.monotonic() - started_s


FORK = """
import asyncio, os, signal, sys
from bucketq.storage import GCSStorage

bucket, endpoint_url, key = sys.argv[1:4]
storage = GCSStorage(bucket, "forked.json", endpoint_url=endpoint_url, service_account_key=key)
if "used" in sys.argv:
    asyncio.run(storage.read())
if os.fork() == 0:
    signal.alarm(20)
    try:
        print("read", asyncio.run(storage.read()))
    except Exception as error:
        print(type(error).__name__, error)
    sys.stdout.flush()
    os._exit(0)
os.wait()
"""


def test_forked_process_that_cannot_work_says_so(gcs: Server) -> None:
    done = _run(FORK, BUCKET, gcs.endpoint_url, gcs.options["service_account_key"], "used")
    assert done.stdout.startswith("UnusableStorageError this process was forked from one that had"), done


def test_forked_process_that_can_work_does(gcs: Server) -> None:
    done = _run(FORK, BUCKET, gcs.endpoint_url, gcs.options["service_account_key"])
    assert done.stdout == "read (b'', None)\n", done
