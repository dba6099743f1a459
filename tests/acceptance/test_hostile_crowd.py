"""Ten thousand connections that do nothing cost memory within a bound, and keep nobody out."""

import os
import resource

import pytest

from tests.acceptance.hostile import MB, besieged

IDLE = 10_000
# What is allowed for each of them.
BYTES_EACH = 24 * 1024


@pytest.fixture(autouse=True)
def _many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < IDLE + 2000:
        missing = f"this process may open {hard} files, and needs {IDLE + 2000}"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("port", ["http_port", "grpc_port"])
def test_idle_connections(tmp_path, port):
    bytes_max = 32 * MB + IDLE * BYTES_EACH
    with besieged(tmp_path, bytes_max=bytes_max) as target:
        lines = []
        try:
            lines.extend(target.connect(getattr(target, port)) for _ in range(IDLE))
            # A newcomer is served all the same.
            assert target.talk(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").status == 200
        finally:
            for line in lines:
                line.close()
        target.wait_until(lambda: target.open_files < 200)
