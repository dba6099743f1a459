"""A fake of the part of Google Cloud Storage's XML API that obstore uses.

It shows that our side sends the right conditions and reads the answers right. It says
nothing about GCS itself: no emulator on PyPI or npm honours preconditions, so there is
none to hold this fake against.
"""

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.contract.servers import BUCKET, Server

TOKEN = "token-of-the-fake"
PAGE_SIZE = 100


class Blob(NamedTuple):
    content: bytes
    generation: int
    modified_at: datetime

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.content).hexdigest()}"'


class FakeGCS(ThreadingHTTPServer):
    """One bucket in memory. One lock makes each check and its write one step."""

    daemon_threads = True
    block_on_close = False
    # A full queue costs a client a second until its next attempt.
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.blobs: dict[str, Blob] = {}
        self.generations = count(1_700_000_000_000_000)
        # How long each blob is left alone after a write, and what one that comes sooner is answered.
        self.write_every_s = 0.0
        self.too_soon = 429, "TooManyRequests"
        self.refused = 0
        # For how long it lets others in between looking at a condition and writing, as a server might
        # that does not make one step of them.
        self.gap_s = 0.0
        # How far its clock is ahead.
        self.ahead = timedelta(0)


class Handler(BaseHTTPRequestHandler):
    server: FakeGCS
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        with self.server.lock:
            if (name := self._blob_name()) is None:
                return
            if not name:
                self._list()
            elif (blob := self.server.blobs.get(name)) is None:
                self._error(404, "NoSuchKey")
            elif self.headers.get("If-None-Match") == blob.etag:
                self._answer(304, blob=blob)
            else:
                self._answer(200, blob.content, blob)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            if (name := self._blob_name()) is None:
                return
            found = self.server.blobs.get(name)
            generation = str(found.generation) if found else "0"
            if self.headers.get("x-goog-if-generation-match", generation) != generation:
                self._error(412, "PreconditionFailed")
                return
            age = datetime.now(UTC) + self.server.ahead - found.modified_at if found else None
            if age is not None and age < timedelta(seconds=self.server.write_every_s):
                self.server.refused += 1
                self._error(*self.server.too_soon)
                return
            if self.server.gap_s and found:
                self.server.lock.release()
                time.sleep(self.server.gap_s)
                self.server.lock.acquire()
            blob = Blob(content, next(self.server.generations), datetime.now(UTC) + self.server.ahead)
            self.server.blobs[name] = blob
            self._answer(200, blob=blob)

    def do_DELETE(self) -> None:
        with self.server.lock:
            if (name := self._blob_name()) is None:
                return
            if self.server.blobs.pop(name, None) is None:
                self._error(404, "NoSuchKey")
            else:
                self._answer(204)

    def log_message(self, *args: object) -> None:
        pass

    def _blob_name(self) -> str | None:
        """The name of the blob asked for, "" for the bucket; None if already refused."""
        # Open to whoever sends no token: so a client that may skip credentials is let in.
        token = self.headers.get("Authorization", "").removeprefix("Bearer").strip()
        if token not in ("", TOKEN):
            self._error(401, "AuthenticationRequired")
            return None
        bucket, _, name = unquote(urlsplit(self.path).path).removeprefix("/").partition("/")
        if bucket != BUCKET:
            self._error(404, "NoSuchBucket")
            return None
        return name

    def _list(self) -> None:
        query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
        prefix, after = query.get("prefix", ""), query.get("continuation-token", query.get("start-after", ""))
        # GCS calls it so, and includes the name itself.
        start = query.get("start-offset", "")
        names = sorted(n for n in self.server.blobs if n.startswith(prefix) and n > after and n >= start)
        page = names[:PAGE_SIZE]
        more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if page != names else ""
        self._answer(
            200, f"<ListBucketResult>{''.join(map(self._entry, page))}{more}</ListBucketResult>".encode()
        )

    def _entry(self, name: str) -> str:
        blob = self.server.blobs[name]
        return (
            f"<Contents><Key>{escape(name)}</Key><Generation>{blob.generation}</Generation>"
            f"<LastModified>{blob.modified_at.isoformat()}</LastModified><ETag>{escape(blob.etag)}</ETag>"
            f"<Size>{len(blob.content)}</Size></Contents>"
        )

    def _error(self, status: int, code: str) -> None:
        self._answer(
            status, f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code></Error>".encode()
        )

    def _answer(self, status: int, content: bytes = b"", blob: Blob | None = None) -> None:
        self.send_response(status)
        if blob:
            self.send_header("ETag", blob.etag)
            self.send_header("Last-Modified", format_datetime(blob.modified_at, usegmt=True))
            self.send_header("x-goog-generation", str(blob.generation))
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextlib.contextmanager
def fake_gcs() -> Iterator[Server]:
    """A running fake of GCS with the test bucket in it."""
    with FakeGCS() as server, running(server) as reached:
        yield reached


@contextlib.contextmanager
def running(server: FakeGCS) -> Iterator[Server]:
    """Let a fake of GCS answer while the block runs."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    endpoint_url = f"http://127.0.0.1:{server.server_port}"
    key = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
    options = {
        "service_account_key": json.dumps({**key, "gcs_base_url": endpoint_url}),
        "endpoint_url": endpoint_url,
    }
    try:
        yield Server(endpoint_url, options)
    finally:
        server.shutdown()
        thread.join()
