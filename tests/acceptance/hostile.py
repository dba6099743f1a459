"""A broker under attack, and a client beside it that must not notice.

    with besieged(folder) as broker:
        broker.talk(b"garbage")

When the block ends, the bystander has had jobs done all the while, the broker's memory has stayed
within a bound, and nothing in its log is a traceback.
"""

import http.client
import json
import re
import socket
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.acceptance.served import served

MB = 1024 * 1024


class Besieged:
    """A broker in a process of its own, seen from outside."""

    def __init__(self, broker):
        broker.wait_for("leading")
        self.told = broker.wait_for("serving ")["message"]
        self.http_port = int(re.search(r"https?://\S+:(\d+)", self.told)[1])
        self.grpc_port = int(broker.address.rpartition(":")[2])
        self.broker = broker
        self.pid = broker._process.pid

    def connect(self, port=None, timeout_s=20):
        """A bare connection, to the port for HTTP unless told."""
        line = socket.create_connection(("127.0.0.1", port or self.http_port), timeout=timeout_s)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return line

    def talk(self, *pieces):
        """Send something and hang on; what came until the first answer was complete, or the end."""
        with self.connect() as line:
            for piece in pieces:
                try:
                    line.sendall(piece)
                except ConnectionError:
                    break
            return Answer.read(line)

    @property
    def peak_bytes(self):
        """The most memory that the process has had since `forget_peak`."""
        return _memory_bytes(self.pid, "VmHWM")

    @property
    def memory_bytes(self):
        return _memory_bytes(self.pid, "VmRSS")

    def forget_peak(self):
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    @property
    def open_files(self):
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    @property
    def sockets(self):
        """The sockets that it has open, each by a name that no other one ever has."""
        found = set()
        for path in Path(f"/proc/{self.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed in this moment
                found.add(str(path.readlink()))
        return {name for name in found if name.startswith("socket:")}

    def wait_until(self, condition, limit_s=30):
        until_s = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < until_s, "it did not come to pass"
            time.sleep(0.02)


class Answer:
    """An HTTP answer, or what there was of one."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def tag(self):
        return json.loads(self.body)["_tag"]

    @classmethod
    def read(cls, line):
        response = http.client.HTTPResponse(line)
        try:
            response.begin()
            return cls(response.status, response.headers, response.read())
        except (ConnectionError, http.client.HTTPException):
            return cls(None, {}, b"")


class Bystander(threading.Thread):
    """Has jobs done, one after the other, on a connection of its own."""

    def __init__(self, port, rest_s):
        super().__init__(daemon=True)
        self._port = port
        self._rest_s = rest_s
        self._stopping = threading.Event()
        self.done = 0
        self.trouble = None

    def run(self):
        line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            while not self._stopping.is_set():
                job_id = self._ask(line, "/v1/jobs", {"payload": {"n": self.done}, "type": "bystander"})[
                    "jobId"
                ]
                claimed = self._ask(line, "/v1/jobs/claim", {"workerId": "b", "types": ["bystander"]})
                wanted = {"jobId": job_id, "payload": {"n": self.done}}
                assert claimed | wanted == claimed, (claimed, wanted)
                self._ask(line, f"/v1/jobs/{job_id}/complete", {"workerId": "b"})
                self.done += 1
                self._stopping.wait(self._rest_s)
        except Exception as error:
            self.trouble = error
        finally:
            line.close()

    def _ask(self, line, path, body):
        line.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        response = line.getresponse()
        content = response.read()
        assert response.status in (200, 204), (response.status, content)
        return json.loads(content) if content else None

    def go_on(self, jobs=3, limit_s=60):
        """Return when so many more jobs were done; raise what went wrong."""
        enough, until_s = self.done + jobs, time.monotonic() + limit_s
        while self.done < enough and self.trouble is None:
            assert time.monotonic() < until_s, "the bystander is stuck"
            time.sleep(0.02)
        if self.trouble is not None:
            raise self.trouble

    def stop(self):
        self._stopping.set()
        self.join(60)


@contextmanager
def besieged(folder, *options, bytes_max=32 * MB, rest_s=0.02):
    """A broker on a file, with a bystander, who rests between two jobs; afterwards all must be well."""
    with served(f"file://{folder}/queue.json", *options) as broker:
        target = Besieged(broker)
        bystander = target.bystander = Bystander(target.http_port, rest_s)
        bystander.start()
        try:
            bystander.go_on()
            before_bytes = target.memory_bytes
            target.forget_peak()
            yield target
            bystander.go_on()
        finally:
            bystander.stop()
        grown_bytes = target.peak_bytes - before_bytes
        assert grown_bytes < bytes_max, f"{grown_bytes / MB:.0f} MB more at the peak"
        worrying = [line for line in broker.log if is_worrying(line)]
        assert not worrying, worrying


def is_worrying(line):
    """Whether a line of the log tells of something that the broker did not expect."""
    return "traceback" in line or "Traceback" in line["message"] or line.get("level") in ("error", None)


def _memory_bytes(pid, name):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"{name}:\s+(\d+) kB", status)[1]) * 1024
