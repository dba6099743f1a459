"""connect: one URL opens any queue."""

import os
from collections.abc import Mapping
from typing import Any, Literal

from bucketq.codec import leader_of
from bucketq.embedded import BrokerQueue
from bucketq.errors import ConfigurationError
from bucketq.remote.brokers import Brokers, check_way
from bucketq.remote.queue import RemoteQueue
from bucketq.settings import Settings
from bucketq.storage import open_storage
from bucketq.storage.port import Bucket
from bucketq.tls import Tls

GRPC_PORT = 7420
HTTP_PORT = 8420


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

    Brokers: `grpc://host:port,host:port`, or the URL of their storage with `via="broker"`,
    which reads the leader's address from the queue; `grpcs://` for encrypted connections.
    `token` says who you are, `tls` whom you trust. Without them the environment is asked:
    BUCKETQ_TOKEN; BUCKETQ_CA, BUCKETQ_CERT and BUCKETQ_KEY. Raises ConfigurationError for a URL
    that names neither, and for a token that would travel unencrypted beyond this machine.
    """
    scheme, _, rest = url.partition("://")
    if scheme in ("grpc", "grpcs"):
        addresses = [with_port(address) for address in rest.strip("/").split(",")]
        way = _way(scheme, token, tls)
        for address in addresses:
            check_way(address, way[0], is_encrypted=way[1] is not None)
        return RemoteQueue(lambda: _grpc_brokers(*way), addresses, settings=settings)
    storage = open_storage(url, **(storage_options or {}))
    if via is None:
        return BrokerQueue(storage, settings=settings)
    if via != "broker":
        raise ConfigurationError(f"via is 'broker' or None, not {via!r}")
    # The leader's address in queue.json does not say whether it is to be spoken to in the open.
    tls = tls or Tls.from_environment()
    way = _way("grpcs" if tls else "grpc", token, tls)
    return RemoteQueue(
        lambda: _grpc_brokers(*way),
        (),
        storage=storage,
        discover=lambda: _leader_of(storage),
        settings=settings,
    )


def with_port(address: str) -> str:
    """An address with its port, if need be the default one.

    >>> with_port("10.0.0.7")
    '10.0.0.7:7420'
    """
    address = address.strip()
    host, _, port = address.rpartition(":") if ":" in address else (address, "", str(GRPC_PORT))
    if not host or "@" in host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigurationError(
            "a broker's address is host:port, such as grpc://10.0.0.7:7420,10.0.0.8:7420"
        )
    return f"{host}:{port}"


def _way(scheme: str, token: str | None, tls: Tls | None) -> tuple[str | None, Tls | None]:
    """The token and the certificates for a scheme; the environment's where none were given."""
    token = (token or os.environ.get("BUCKETQ_TOKEN", "")).strip() or None
    if scheme.endswith("s"):
        return token, tls or Tls.from_environment() or Tls()
    if tls is not None:
        raise ConfigurationError(f"tls= is for encrypted connections: {scheme}s://")
    return token, None


def _grpc_brokers(token: str | None, tls: Tls | None) -> Brokers:
    try:
        from bucketq.remote.grpc_brokers import GrpcBrokers
    except ImportError as error:
        raise ConfigurationError(
            "brokers are reached by gRPC, which is an extra: pip install 'bucketq[broker]'"
        ) from error
    return GrpcBrokers(token, tls)


async def _leader_of(storage: Bucket) -> str:
    content, etag = await storage.read()
    leader = leader_of(content) if etag is not None else None
    return leader.address if leader is not None else ""
