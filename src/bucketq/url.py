"""connect: one URL opens any queue."""

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bucketq.codec import leader_of
from bucketq.deadline import hedged
from bucketq.embedded import BrokerQueue
from bucketq.errors import ConfigurationError
from bucketq.remote.brokers import Brokers, check_way
from bucketq.remote.queue import RemoteQueue
from bucketq.settings import Settings
from bucketq.storage import open_storage
from bucketq.storage.port import Bucket
from bucketq.tls import Tls

# Clients look for the leader while their calls wait.
_LOOK_AGAIN_S = 1.0

GRPC_PORT = 7420
HTTP_PORT = 8420


class _Way(NamedTuple):
    """One way to brokers. What it needs is an extra, so it is imported when the way is taken."""

    brokers: str
    port: int
    is_encrypted: bool

    def open(self, token: str | None, tls: Tls | None) -> Brokers:
        module, _, name = self.brokers.partition(":")
        try:
            opened: Brokers = getattr(import_module(f"bucketq.remote.{module}"), name)(token, tls)
        except ImportError as error:
            raise ConfigurationError("brokers take an extra: pip install 'bucketq[broker]'") from error
        return opened

    def identity(self, token: str | None, tls: Tls | None) -> tuple[str | None, Tls | None]:
        """The token and the certificates; the environment's where none were given."""
        token = (token or _token_of_environment()).strip() or None
        if token is not None and not (token.isascii() and token.isprintable()):
            raise ConfigurationError("this token has characters that no token has: was it copied whole?")
        if self.is_encrypted:
            return token, tls or Tls.from_environment() or Tls()
        if tls is not None:
            raise ConfigurationError("tls= is for encrypted connections: grpcs://, https:// or wss://")
        return token, None


def _token_of_environment() -> str:
    token, path = os.environ.get("BUCKETQ_TOKEN", ""), os.environ.get("BUCKETQ_TOKEN_FILE")
    if not path:
        return token
    if token:
        raise ConfigurationError("the token is in BUCKETQ_TOKEN or in BUCKETQ_TOKEN_FILE, not in both")
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the token in {path} cannot be read: {error}") from error


_WAYS = {
    "grpc": _Way("grpc_brokers:GrpcBrokers", GRPC_PORT, is_encrypted=False),
    "grpcs": _Way("grpc_brokers:GrpcBrokers", GRPC_PORT, is_encrypted=True),
    "http": _Way("http_brokers:HttpBrokers", HTTP_PORT, is_encrypted=False),
    "https": _Way("http_brokers:HttpBrokers", HTTP_PORT, is_encrypted=True),
    "ws": _Way("ws_brokers:WsBrokers", HTTP_PORT, is_encrypted=False),
    "wss": _Way("ws_brokers:WsBrokers", HTTP_PORT, is_encrypted=True),
}
BROKER_SCHEMES = tuple(_WAYS)


def connect(
    url: str,
    *,
    via: Literal["broker"] | None = None,
    token: str | None = None,
    tls: Tls | None = None,
    storage_options: Mapping[str, Any] | None = None,
    settings: Settings | None = None,
) -> BrokerQueue | RemoteQueue:
    """Open the queue at a URL; use the result with `async with`.

        async with bucketq.connect("file:///var/lib/myapp/queue.json") as q:
            await q.enqueue("send_email", {"to": "alice@example.com"})

    A storage: `memory://`, `file:///path/queue.json`, `s3://bucket/key.json`,
    `gs://bucket/key.json`, `az://container/key.json`. `storage_options` go to the storage
    adapter, such as `endpoint_url` for S3-compatible servers.

    Brokers: `grpc://host:port,host:port`, `http://…` or `ws://…`, and encrypted `grpcs://…`,
    `https://…` or `wss://…`; or the URL of their storage with `via="broker"`, which reads the
    leader's address from the queue. `token` says who you are, `tls` whom you trust. Without them
    the environment is asked: BUCKETQ_TOKEN, or BUCKETQ_TOKEN_FILE, a file that it is in; BUCKETQ_CA,
    BUCKETQ_CERT and BUCKETQ_KEY. Raises ConfigurationError for a URL that names neither, and for a
    token that would travel unencrypted beyond this machine.
    """
    scheme, _, hosts = url.partition("://")
    if scheme in _WAYS:
        way = _WAYS[scheme]
        identity = way.identity(token, tls)
        addresses = [with_port(address, way.port) for address in hosts.strip("/").split(",")]
        for address in addresses:
            check_way(address, identity[0], is_encrypted=way.is_encrypted)
        return RemoteQueue(lambda: way.open(*identity), addresses, scheme=scheme, settings=settings)
    storage = open_storage(url, **(storage_options or {}))
    if via is None:
        return BrokerQueue(storage, settings=settings)
    if via != "broker":
        raise ConfigurationError(f"via is 'broker' or None, not {via!r}")
    # The leader's address in queue.json does not say whether it is to be spoken to in the open.
    tls = tls or Tls.from_environment()
    by_grpc = _WAYS["grpcs" if tls else "grpc"]
    who = by_grpc.identity(token, tls)
    return RemoteQueue(
        lambda: by_grpc.open(*who),
        (),
        storage=storage,
        discover=lambda: _leader_of(storage),
        settings=settings,
    )


def with_port(address: str, port: int = GRPC_PORT) -> str:
    """An address with its port, if need be the default one.

    >>> with_port("10.0.0.7")
    '10.0.0.7:7420'
    """
    address = address.strip()
    host, _, given = address.rpartition(":") if ":" in address else (address, "", str(port))
    if not host or not set(host).isdisjoint("@/?# ") or not given.isdigit() or not 0 < int(given) < 65536:
        raise ConfigurationError(
            f"a broker's address is host:port, such as 10.0.0.7:{port}; several of them are"
            f" 10.0.0.7:{port},10.0.0.8:{port}"
        )
    return f"{host}:{given}"


async def _leader_of(storage: Bucket) -> str:
    content, etag = await hedged(storage.read, _LOOK_AGAIN_S)
    leader = leader_of(content) if etag is not None else None
    return leader.address if leader is not None else ""
