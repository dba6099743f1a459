"""A real cluster on loopback: a standalone master and two workers, started from the PySpark package."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from bucketq.spark.session import find_java
from tests.contract.servers import free_ports

HOST = "127.0.0.1"
# A task is never run twice at once on one host.
OTHER_HOST = "127.0.0.2"
READY_WITHIN_S = 60
WITHIN_S = 200
_DRIVER = Path(__file__).with_name("on_cluster.py")


class Cluster:
    """A running cluster."""

    def __init__(self, master: str, workers: list[str]) -> None:
        self.master = master
        self._workers = workers

    def executors(self) -> list[int]:
        """The processes of the executors that work for somebody now."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            # The executors know their worker by its own port, which nobody else has.
            if b"CoarseGrainedExecutorBackend\0" in command and self._is_ours(command):
                found.append(int(folder.name))
        return sorted(found)

    def _is_ours(self, command: bytes) -> bool:
        return any(f"spark://Worker@{worker}".encode() in command for worker in self._workers)


class Driver:
    """A driver process, which does one step after the other."""

    def __init__(self, master, log):
        self._log = log
        self._is_busy = False
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(_DRIVER), master],
                env=environment(),
                cwd=log.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def begin(self, step, queue):
        self._is_busy = True
        self._process.stdin.write(f"{step} {queue.url} {queue.path.parent}\n")
        self._process.stdin.flush()

    def answer(self):
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        self._is_busy = False
        return json.loads(line)

    def do(self, step, queue):
        self.begin(step, queue)
        return self.answer()

    def is_idle(self):
        """Whether it lives, and has answered everything."""
        return self._process.poll() is None and not self._is_busy

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def end(self):
        self._process.stdin.close()
        try:
            self._process.wait(WITHIN_S)
        finally:
            self._process.kill()
            self._process.stdout.close()


def wait_until(is_so):
    until_s = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.1)


@contextmanager
def standalone(folder: Path) -> Iterator[Cluster]:
    """A master and two workers with one core each, on what Spark takes for two hosts."""
    ports = free_ports(6)
    workers = [(HOST, ports[2], ports[3]), (OTHER_HOST, ports[4], ports[5])]
    cluster = Cluster(f"spark://{HOST}:{ports[0]}", [f"{host}:{port}" for host, port, _ in workers])
    with ExitStack() as stack:
        log = folder / "master.log"
        arguments: list[object] = ["--host", HOST, "--port", ports[0], "--webui-port", ports[1]]
        stack.enter_context(_running("master.Master", arguments, HOST, log))
        _wait_for(log, "New state: ALIVE")
        for host, port, webui_port in workers:
            arguments = ["--host", host, "--port", port, "--webui-port", webui_port]
            arguments += ["--cores", 1, "--memory", "1g", "--work-dir", folder / host, cluster.master]
            log = folder / f"worker-{host}.log"
            stack.enter_context(_running("worker.Worker", arguments, host, log))
            _wait_for(log, "Successfully registered with master")
        yield cluster


def environment(host: str = HOST) -> dict[str, str]:
    """What a driver, or a part of the cluster, has to know."""
    return os.environ | {
        "JAVA_HOME": str(find_java()),
        "SPARK_LOCAL_IP": host,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONWARNINGS": "ignore",
    }


@contextmanager
def _running(part: str, arguments: list[object], host: str, log: Path) -> Iterator[None]:
    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    command = [str(spark_class), f"org.apache.spark.deploy.{part}", *map(str, arguments)]
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=log.parent,
            env=environment(host),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            yield
        finally:
            # A worker's executors are of its session.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(log: Path, text: str) -> None:
    until_s = time.monotonic() + READY_WITHIN_S
    while not re.search(text, log.read_text()):
        assert time.monotonic() < until_s, f"{log.name} has no {text!r}:\n{log.read_text()}"
        time.sleep(0.1)
