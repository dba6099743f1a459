"""Those who speak WebSocket badly get an error, or are closed, and nobody else notices."""

import json
import random
import struct
import zlib
from contextlib import suppress

import pytest

from tests.acceptance.hostile import MB, besieged

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
FIN = 0x80
SHORT = ("--header-within-s", "1", "--body-within-s", "1", "--message-bytes-max", str(MB))


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    with besieged(tmp_path_factory.mktemp("besieged"), *SHORT) as target:
        yield target


class Line:
    """A WebSocket of bare bytes."""

    def __init__(self, target, extensions=""):
        self.socket = target.connect()
        self.socket.sendall(
            b"GET /v1/ws HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            + extensions.encode()
            + b"\r\n"
        )
        self.stream = self.socket.makefile("rb")
        self.head = b""
        while not self.head.endswith(b"\r\n\r\n"):
            self.head += self.stream.readline()
        assert self.head.startswith(b"HTTP/1.1 101 "), self.head

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stream.close()
        self.socket.close()

    def send(self, *frames):
        with suppress(ConnectionError):
            self.socket.sendall(b"".join(frames))

    def receive(self):
        """The kind and the content of the next frame; None when the connection is closed."""
        with suppress(ConnectionError):
            head = self.stream.read(2)
            if len(head) == 2:
                length = head[1]
                if length == 126:
                    length = struct.unpack(">H", self.stream.read(2))[0]
                elif length == 127:
                    length = struct.unpack(">Q", self.stream.read(8))[0]
                return head[0] & 15, self.stream.read(length)
        return None

    def close_code(self):
        """The code that the connection is closed with."""
        while (frame := self.receive()) is not None:
            if frame[0] == CLOSE:
                return struct.unpack(">H", frame[1][:2])[0]
        return None

    def ask(self, content):
        self.send(frame(FIN | TEXT, content))
        return json.loads(self.receive()[1])


def frame(first, content, length=None):
    length = len(content) if length is None else length
    if length < 126:
        size = bytes([0x80 | length])
    elif length < 65536:
        size = b"\xfe" + struct.pack(">H", length)
    else:
        size = b"\xff" + struct.pack(">Q", length)
    # A mask of zeros leaves the content as it is.
    return bytes([first]) + size + b"\x00" * 4 + content


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nonsense",
        b"[]",
        b'{"id": 1}',
        b'{"id": {}, "method": "getStats"}',
        b'{"id": 1, "method": "nonsense"}',
        b'{"id": 1, "method": "submitJob", "params": []}',
        b'{"id": 1, "method": "submitJob", "params": {"payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b"[" * 100_000,
        b'{"id": 1, "method": "submitJob", "params": {"priority": ' + b"9" * 100_000 + b"}}",
        b'{"id": 1, "method": "submitJob", "params": {' + b'"a":1,' * 100_000 + b'"b":1}}',
    ],
    ids=[
        "empty",
        "nonsense",
        "list",
        "half",
        "odd id",
        "method",
        "params",
        "nested",
        "open",
        "digits",
        "keys",
    ],
)
def test_a_call_that_is_none_is_told_so_and_the_connection_lives(target, text):
    with Line(target) as line:
        told = line.ask(text)
        assert told["ok"] is False
        assert told["error"]["_tag"] in ("BrokerProtocolError", "ConfigurationError", "PayloadError")
        assert line.ask(b'{"id": 2, "method": "getStats", "params": {}}')["ok"]


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(FIN | TEXT, b"\xff\xfe\xfd"), 1007),
        (frame(FIN | TEXT, b"x", length=2 * MB), 1009),
        (frame(FIN | BINARY, b"x", length=2**62), 1009),
        (frame(TEXT, b"x" * 600_000) + frame(FIN, b"x" * 600_000), 1009),
        (frame(FIN | 0x70 | TEXT, b"x"), 1002),
        (frame(FIN | 3, b"x"), 1002),
        (frame(FIN, b"a continuation of nothing"), 1002),
        (frame(PING, b"a ping in pieces"), 1002),
        (frame(FIN | PING, b"x" * 200), 1002),
        (bytes([FIN | TEXT, 5]) + b"hello", 1002),
        (frame(FIN | CLOSE, b"\x00"), 1002),
    ],
    ids=[
        "no UTF-8",
        "too large",
        "far too large",
        "too large in pieces",
        "reserved bits",
        "reserved kind",
        "no beginning",
        "ping in pieces",
        "long ping",
        "no mask",
        "odd close",
    ],
)
def test_a_frame_that_is_none_closes_the_connection(target, sent, code):
    with Line(target) as line:
        line.send(sent)
        assert line.close_code() == code


def test_nothing_is_compressed(target):
    with Line(target, "sec-websocket-extensions: permessage-deflate\r\n") as line:
        assert b"permessage" not in line.head.lower()
        bomb = zlib.compress(b"x" * 100 * MB)[2:-4]
        line.send(frame(FIN | 0x40 | TEXT, bomb))
        assert line.close_code() == 1002


def test_somebody_who_sends_and_never_reads_is_cut_off(target):
    with Line(target) as line, pytest.raises((ConnectionError, TimeoutError)):
        ping = frame(FIN | PING, b"x" * 125) * 1000
        while True:
            line.socket.sendall(ping)


def test_half_a_frame_harms_nobody(target):
    lines = [Line(target) for _ in range(50)]
    for line in lines:
        line.send(frame(FIN | TEXT, b'{"id": 1', length=1000))
    for line in lines:
        line.__exit__()


def test_a_fuzz_of_frames(target):
    chance = random.Random(11)
    calls = [
        b'{"id": 1, "method": "getStats"}',
        b'{"id": 2, "method": "claimJob", "params": {"workerId": "f", "types": ["f"]}}',
    ]
    for _ in range(150):
        sent = bytearray()
        for _ in range(chance.randint(1, 6)):
            content = (
                chance.choice(calls) if chance.random() < 0.5 else chance.randbytes(chance.randint(0, 300))
            )
            first = FIN | TEXT if chance.random() < 0.5 else chance.randrange(256)
            sent += frame(first, content)
        for _ in range(chance.randint(0, 3)):
            sent[chance.randrange(len(sent))] = chance.randrange(256)
        with Line(target) as line:
            line.send(bytes(sent[: chance.randint(1, len(sent))]))
            if chance.random() < 0.2:
                line.socket.settimeout(0.05)
                with suppress(TimeoutError):
                    line.receive()


def test_too_much_at_once_by_many_is_refused(tmp_path):
    """Messages that never end are kept in memory only up to a limit, whoever sends them."""
    with besieged(tmp_path, bytes_max=700 * MB) as target:
        lines = [Line(target) for _ in range(16)]
        piece = b"x" * 48 * MB
        for line in lines:
            line.socket.settimeout(20)
            with suppress(OSError):
                line.socket.sendall(frame(TEXT, piece, length=60 * MB))
        codes = [line.close_code() for line in lines[-2:]]
        for line in lines:
            line.__exit__()
        assert 1013 in codes or None in codes
