"""What is said of a storage whose certificate is not good, which looks like a server that is down."""

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import trustme

from bucketq import S3Storage, StorageError


class Nothing(BaseHTTPRequestHandler):
    """A server that has no object."""

    def do_GET(self):
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        """Say nothing of it."""


class Quiet(ThreadingHTTPServer):
    """A server that does not mind clients who break off."""

    def handle_error(self, *_):
        """Say nothing of it."""


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def port(authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    with Quiet(("127.0.0.1", 0), Nothing) as server:
        # The handshake is for the thread of the request: one that fails must not end the server.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def storage(host, port, **options):
    return S3Storage(
        "bucket",
        "jobs.json",
        endpoint_url=f"https://{host}:{port}",
        access_key_id="testing",
        secret_access_key="testing",
        client_options=options,
    )


async def test_a_certificate_of_an_unknown_authority_is_told(port):
    with pytest.raises(StorageError, match=r"is of nobody whom this machine trusts.*SSL_CERT_FILE"):
        await storage("localhost", port).read()


async def test_a_certificate_for_another_name_is_told(port, authority):
    with pytest.raises(StorageError, match="is for another name"):
        await storage("127.0.0.1", port, root_certificate=authority.cert_pem.bytes()).read()


async def test_an_authority_that_is_named_is_trusted(port, authority):
    assert await storage("localhost", port, root_certificate=authority.cert_pem.bytes()).read() == (b"", None)
