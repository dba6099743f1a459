"""Those who ask for a broker's health get an answer, whatever strangers send beside them."""

import ssl
import struct
import time
from contextlib import ExitStack
from socket import create_connection

import grpc
import httpx
import pytest

from bucketq.broker import http_server
from bucketq.tls import Tls
from tests.acceptance.certificates import Authority
from tests.acceptance.hosted import hosted
from tests.acceptance.test_hostile_grpc import DATA, HEADERS, PREFACE, SETTINGS, frame, request_headers
from tests.acceptance.test_hostile_strangers import CHECK, WATCH

SERVING = b"\x08\x01"
NOT_SERVING = b"\x08\x02"


@pytest.fixture
def broker(tmp_path):
    with hosted(f"file://{tmp_path}/queue.json") as broker:
        yield broker


def connection(broker):
    # Channels to the same address share a connection unless they are told not to.
    return grpc.insecure_channel(broker.address, [("grpc.use_local_subchannel_pool", 1)])


def test_checks_whose_message_does_not_come_keep_nobody_waiting(broker):
    half = struct.pack(">BI", 0, 100)
    streams = b"".join(
        frame(HEADERS, 4, number, request_headers(CHECK.encode())) + frame(DATA, 0, number, half)
        for number in range(1, 600, 2)
    )
    with create_connection(broker.address.rsplit(":", 1)) as line, connection(broker) as channel:
        line.sendall(PREFACE + frame(SETTINGS, 0, 0, b"") + streams)
        began_s = time.monotonic()
        for _ in range(3):
            assert channel.unary_unary(CHECK)(b"", timeout=20) == SERVING
        assert time.monotonic() - began_s < 5


def test_one_connection_does_not_take_all_places_of_those_who_watch(broker):
    with connection(broker) as honest, connection(broker) as greedy:
        watch = honest.unary_stream(WATCH)(b"")
        assert next(watch) == SERVING
        watches = [greedy.unary_stream(WATCH)(b"") for _ in range(110)]
        told = [outcome(one) for one in watches]
        assert told.count(SERVING) == 10
        assert told.count(grpc.StatusCode.RESOURCE_EXHAUSTED) == 100
        # A place is free again when its call has ended.
        next(one for one, said in zip(watches, told, strict=True) if said == SERVING).cancel()
        until_s = time.monotonic() + 20
        while outcome(greedy.unary_stream(WATCH)(b"")) != SERVING:
            assert time.monotonic() < until_s
        broker.in_its_loop(broker.stop)
        assert next(watch) == NOT_SERVING


def outcome(watch):
    try:
        return next(watch)
    except grpc.RpcError as error:
        return error.code()


def test_metadata_beyond_8_kib_is_refused_every_time(broker):
    with connection(broker) as channel:
        for _ in range(8):
            with pytest.raises(grpc.RpcError) as refused:
                channel.unary_unary(CHECK)(b"", metadata=[("a", "b" * 10_000)], timeout=20)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_connections_that_begin_no_handshake_do_not_add_up_their_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(http_server, "_HANDSHAKES_MAX", 5)
    authority = Authority(tmp_path)
    cert, key = authority.issue("127.0.0.1")
    trusted = ssl.create_default_context(cafile=authority.path)
    with (
        hosted(f"file://{tmp_path}/queue.json", host="127.0.0.1", tls=Tls(cert=cert, key=key)) as broker,
        ExitStack() as stack,
    ):
        for _ in range(15):
            stack.enter_context(create_connection(broker.http.rsplit(":", 1)))
        began_s = time.monotonic()
        assert httpx.get(f"https://{broker.http}/healthz", verify=trusted, timeout=60).status_code == 200
        # Not a second for each of them.
        assert time.monotonic() - began_s < 5
