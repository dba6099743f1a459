"""Clients that ask for much and never read it, or stop within a message: the memory stays bounded."""

import http.client
import json
import socket
import struct
import threading
from contextlib import ExitStack

import grpc
import pytest

from bucketq.v1 import queue_pb2 as pb
from tests.acceptance.hostile import MB, besieged
from tests.acceptance.test_hostile_grpc import (
    DATA,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    request_headers,
)
from tests.acceptance.test_hostile_grpc import frame as h2_frame
from tests.acceptance.test_hostile_websocket import BINARY, FIN, TEXT, Line
from tests.acceptance.test_hostile_websocket import frame as ws_frame

HELD_BYTES_MAX = 32 * MB
# Beside what is held: one answer and one message while they are encoded or decoded, in several copies.
BYTES_MAX = 2 * HELD_BYTES_MAX + 64 * MB
LIMITS = ("--held-bytes-max", str(HELD_BYTES_MAX), "--body-within-s", "2", "--idle-s", "2")
PAYLOAD = b'"' + b"x" * 8 * MB + b'"'
END_STREAM, END_HEADERS = 1, 4
WINDOW_UPDATE, INITIAL_WINDOW_SIZE = 8, 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("besieged")
    with besieged(tmp_path, *LIMITS, bytes_max=2 * BYTES_MAX) as target:
        body = b'{"payload": %s, "type": "large"}' % PAYLOAD
        target.job = json.loads(talk(target, "POST", "/v1/jobs", body).body)["jobId"]
        target.path = f"/v1/jobs/{target.job}/payload"
        [path] = (tmp_path / "queue" / "payloads").iterdir()
        target.object = f"payloads/{path.name}"
        # These stay in queue.json: a page of them has 200 KB.
        many = {"type": "many", "payloads": ["x" * 20_000] * 10}
        target.small = json.loads(talk(target, "POST", "/v1/jobs/batch", json.dumps(many).encode()).body)[
            "jobIds"
        ]
        yield target


@pytest.fixture
def target(broker):
    """The memory is measured in each test by itself."""
    before_bytes = broker.memory_bytes
    broker.forget_peak()
    yield broker
    grown_bytes = broker.peak_bytes - before_bytes
    assert grown_bytes < BYTES_MAX, f"{grown_bytes / MB:.0f} MB more at the peak"


def talk(target, method, path, body=b""):
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
    return target.talk(head.encode() + body)


def get(path):
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()


def expect_ended(target, before):
    """All connections end, and the room is free for others."""
    target.wait_until(lambda: not target.sockets - before)
    assert talk(target, "GET", target.path).body == PAYLOAD


def deaf(target, port=None):
    """A connection whose client has room for next to nothing."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.settimeout(20)
    line.connect(("127.0.0.1", port or target.http_port))
    return line


def test_http_answers(target):
    before = target.sockets
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(deaf(target)).sendall(get(target.path) * 2)
        expect_ended(target, before)


def test_server_sent_events(target):
    """A stream is asked for its next event once the last one is sent, so it holds one."""
    before = target.sockets
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(deaf(target)).sendall(get("/v1/events?interval=0.1"))
        target.wait_until(lambda: len(target.sockets - before) >= 100)
    expect_ended(target, before)


@pytest.mark.parametrize("method", ["getPayload", "getState", "listJobs"])
def test_websocket_calls(target, method):
    before = target.sockets
    params = {"jobId": target.job} if method == "getPayload" else {}
    call = json.dumps({"id": 1, "method": method, "params": params}).encode()
    with Line(target) as line:
        line.send(ws_frame(FIN | TEXT, call) * 300)
        expect_ended(target, before)


@pytest.mark.parametrize("method", ["ListJobs", "Batch"])
def test_websocket_frames(target, method):
    before = target.sockets
    with Line(target) as line:
        for number in range(1, 301):
            content = pb.Frame(id=number, method=method, body=request_of(target, method)).SerializeToString()
            line.send(ws_frame(FIN | BINARY, content))
        expect_ended(target, before)


def request_of(target, method):
    if method == "ListJobs":
        return pb.ListJobsRequest(page_size=1000).SerializeToString()
    if method == "ReadObject":
        return pb.ReadObjectRequest(name=target.object).SerializeToString()
    found = [pb.Operation(find=pb.FindRequest(job_id=job_id)) for job_id in target.small * 5]
    return pb.BatchRequest(session="s", number=1, operations=found).SerializeToString()


def h2(target, method, content, streams, length=None, flags=END_STREAM):
    """A connection with streams that each send a message, or some of one; its client grants no more room."""
    path = f"/bucketq.v1.Queue/{method}".encode()
    prefix = struct.pack(">BI", 0, len(content) if length is None else length)
    line = target.connect(target.grpc_port)
    line.sendall(PREFACE + h2_frame(SETTINGS, 0, 0, b""))
    for number in range(1, 2 * streams, 2):
        line.sendall(h2_frame(HEADERS, END_HEADERS, number, request_headers(path)))
        line.sendall(h2_frame(DATA, flags, number, prefix + content))
    return line


@pytest.mark.parametrize("method", ["ReadObject", "ListJobs", "Batch"])
def test_grpc_answers(target, method):
    before = target.sockets
    with h2(target, method, request_of(target, method), 200):
        expect_ended(target, before)


def test_grpc_objects_that_stop_arriving(target):
    before = target.sockets
    never = threading.Event()

    def pieces(number):
        name = f"payloads/{number + 1:020d}-a"
        yield pb.CreateObjectRequest(name=name, size_bytes=24 * MB).SerializeToString()
        for _ in range(23):
            yield pb.CreateObjectRequest(content=b"x" * MB).SerializeToString()
        never.wait()

    with grpc.insecure_channel(f"127.0.0.1:{target.grpc_port}") as channel:
        create = channel.stream_unary("/bucketq.v1.Queue/CreateObject")
        calls = [create.future(pieces(number), timeout=60) for number in range(16)]
        try:
            codes = {call.code() for call in calls}
        finally:
            never.set()
    assert codes == {grpc.StatusCode.RESOURCE_EXHAUSTED}
    expect_ended(target, before)


def test_grpc_messages_that_stop_arriving(target):
    before = target.sockets
    with h2(target, "Batch", b"", 100, length=15 * MB, flags=0) as line:
        sender = Sender(line, 100, 14 * MB)
        while len(sender.ended) < 100:
            sender.step()
    expect_ended(target, before)


class Sender:
    """Sends as much of each stream's message as HTTP/2 lets it."""

    def __init__(self, line, streams, size):
        self.line, self.received, self.ended = line, b"", set()
        self.left = dict.fromkeys(range(1, 2 * streams, 2), size)
        self.granted = dict.fromkeys([0, *self.left], -5) | {0: 65_535 - 5 * streams}

    def step(self):
        for number in [*self.left]:
            size = min(self.left[number], self.granted[number], self.granted[0], 16_384)
            if size > 0 and number not in self.ended:
                self.line.sendall(h2_frame(DATA, 0, number, b"x" * size))
                for one in (0, number):
                    self.granted[one] -= size
                self.left[number] -= size
        while not self.received or len(self.received) < 9 + self.length:
            more = self.line.recv(MB)
            assert more, "the server closed the connection"
            self.received += more
        while len(self.received) >= 9 and len(self.received) >= 9 + self.length:
            kind, flags, number = struct.unpack(">BBI", self.received[3:9])
            content, self.received = self.received[9 : 9 + self.length], self.received[9 + self.length :]
            self.take(kind, flags, number, content)

    @property
    def length(self):
        return int.from_bytes(self.received[:3], "big")

    def take(self, kind, flags, number, content):
        if kind == WINDOW_UPDATE:
            self.granted[number] += int.from_bytes(content, "big")
        elif kind == SETTINGS and not flags:
            for at in range(0, len(content), 6):
                name, value = struct.unpack(">HI", content[at : at + 6])
                if name == INITIAL_WINDOW_SIZE:
                    for one in self.left:
                        self.granted[one] += value
            self.line.sendall(h2_frame(SETTINGS, 1, 0, b""))
        elif kind == PING and not flags:
            self.line.sendall(h2_frame(PING, 1, 0, content))
        elif kind == RST_STREAM or (kind == HEADERS and flags & END_STREAM):
            self.ended.add(number)


def test_a_slow_reader_gets_its_answer(target):
    """It takes longer than a client may that reads nothing."""
    with deaf(target) as line:
        line.sendall(get(target.path))
        answer = http.client.HTTPResponse(line)
        answer.begin()
        read = b""
        while piece := answer.read(64 * 1024):
            read += piece
            target.bystander.go_on(jobs=1)
        assert read == PAYLOAD
