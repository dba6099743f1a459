"""A broker as a user runs it: `bucketq serve`, in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager


class Served:
    """A process of `bucketq serve` and the lines of its log."""

    def __init__(self, url, *options, **variables):
        command = [sys.executable, "-m", "bucketq", "serve", url, "--log-format", "json", *options]
        self._process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, **variables}
        )
        self.log = []
        self._told = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stderr:
            with self._told:
                self.log.append(json.loads(line) if line.startswith("{") else {"message": line})
                self._told.notify_all()

    def wait_for(self, text, limit_s=60):
        """The first line of the log with this text; a busy machine takes its time."""
        with self._told:
            found = self._told.wait_for(
                lambda: next((line for line in self.log if text in line["message"]), None), limit_s
            )
        assert found, self.log
        return found

    @property
    def address(self):
        return self.wait_for("serving ")["message"].split()[-4].strip(",")

    @property
    def http(self):
        return self.wait_for("serving ")["message"].split("://")[-1]

    @property
    def pid(self):
        return self._process.pid

    def is_gone(self):
        return self._process.poll() is not None

    def signal(self, number):
        self._process.send_signal(number)

    def wait(self, limit_s=40):
        self._process.wait(limit_s)
        self._reader.join()
        self._process.stderr.close()
        return self._process.returncode

    def stop(self):
        if self._process.poll() is None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGKILL)
        self.wait()


@contextmanager
def served(url, *options, **variables):
    broker = Served(url, "--grpc-port", "0", "--http-port", "0", *options, **variables)
    try:
        yield broker
    finally:
        broker.stop()


# The ways to a broker that a client may go.
WAYS = ("grpc", "http", "ws")


def url_of(way, *brokers):
    """The URL by which a client goes to these brokers."""
    return f"{way}://{','.join(one.address if way == 'grpc' else one.http for one in brokers)}"
