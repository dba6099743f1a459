"""A connection that sends many requests ahead is closed: each holds a header of up to 32 KiB."""

from socket import create_connection

from tests.acceptance.hosted import hosted

GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


def test_of_many_requests_at_once_two_are_taken_at_most(tmp_path):
    with hosted(f"file://{tmp_path}/queue.json") as broker:
        for count in (1, 2):
            with create_connection(broker.http.rsplit(":", 1)) as line:
                line.sendall(GET * count)
                told = b""
                while told.count(b'{"status":"ok"}') < count:
                    told += line.recv(65536)
        with create_connection(broker.http.rsplit(":", 1), timeout=20) as line:
            line.sendall(GET * 3)
            told = b""
            while came := line.recv(65536):
                told += came
            assert told.count(b"HTTP/1.1 200") < 3
