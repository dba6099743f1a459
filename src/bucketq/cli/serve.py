"""`bucketq serve`: run a broker until it is told to stop."""

import logging
import os
import signal
import socket
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated

import typer

from bucketq.broker.allowance import Allowance, raise_open_files
from bucketq.cli.logs import Logs, log_to_stderr
from bucketq.cli.opened import queue_url
from bucketq.cli.options import Url, not_empty
from bucketq.cli.traces import Traces
from bucketq.errors import ConfigurationError, StorageError, UnusableStorageError
from bucketq.settings import Settings
from bucketq.supervised import end_with_supervisor, exit_after

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from bucketq.broker.http_shell import Pages
    from bucketq.broker.serving import Inside
    from bucketq.broker.token_file import TokenFile
    from bucketq.broker.tokens import Tokens
    from bucketq.storage.port import Bucket
    from bucketq.tls import Tls

log = logging.getLogger("bucketq")

_DRAIN_S = 30.0
# Not an option: what is in it is not to be seen in --help, or among the processes.
_TOKENS = "BUCKETQ_TOKENS"


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where a broker listens, and to whom."""

    host: Annotated[str, "where to listen"] = "127.0.0.1"
    # Those of bucketq.url, which is too much to import for --help.
    grpc_port: Annotated[int, "the port for gRPC; 0 takes a free one"] = 7420
    http_port: Annotated[int, "the port for HTTP and WebSocket; 0 takes a free one"] = 8420
    no_grpc: Annotated[bool, "speak HTTP and WebSocket alone"] = False
    advertise: Annotated[str, "the host that clients are told, if not --host; with a port, that of gRPC"] = ""
    insecure: Annotated[bool, "listen beyond this machine although everybody there may do everything"] = False
    tokens_file: Annotated[str, "the tokens that let callers in, one a line; see `bucketq token`"] = ""
    tls_cert: Annotated[str, "the certificate to show, with those up to its authority, in PEM"] = ""
    tls_key: Annotated[str, "its key"] = ""
    tls_client_ca: Annotated[str, "let only clients in that have a certificate of this authority"] = ""
    cors_origin: Annotated[list[str] | None, "web pages of this origin may come in; may be repeated"] = None
    dashboard: Annotated[bool, "show the queue to people too, at /dashboard of the HTTP port"] = False
    report: Annotated[str, "the file of `bucketq pipeline report` that the dashboard shows"] = ""

    def __post_init__(self) -> None:
        for port in (self.grpc_port, self.http_port):
            if not 0 <= port < 65536:
                raise ConfigurationError(f"a port is from 0 to 65535, not {port}")
        if self.no_grpc and self.grpc_port not in (0, Listening.grpc_port):
            raise ConfigurationError("--no-grpc and --grpc-port: is there to be a port for gRPC, or not?")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ConfigurationError("--tls-cert goes with --tls-key: give both, or neither")
        if self.tls_client_ca and not self.tls_cert:
            raise ConfigurationError("--tls-client-ca goes with --tls-cert and --tls-key")
        if self.report and not self.dashboard:
            raise ConfigurationError("--report goes with --dashboard, which shows it")


@dataclass(frozen=True, kw_only=True)
class Leading:
    """How a broker leads, and how hard it works the storage."""

    heartbeat_interval_s: Annotated[float, "seconds between two heartbeats of the leader"] = 3.0
    heartbeat_timeout_s: Annotated[float, "seconds without one after which another broker takes over"] = 10.0
    reads_per_s: Annotated[float, "how many reads of the storage at most; 0 is no limit"] = 0.0
    writes_per_s: Annotated[float, "how many writes to the storage at most; 0 is no limit"] = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat_interval_s < self.heartbeat_timeout_s:
            raise ConfigurationError(
                f"--heartbeat-interval-s ({self.heartbeat_interval_s:g}) must be above 0 and below"
                f" --heartbeat-timeout-s ({self.heartbeat_timeout_s:g})"
            )


async def serve(
    listening: Listening,
    leading: Leading,
    allowance: Allowance,
    settings: Settings,
    logs: Logs,
    traces: Traces,
    at: Annotated[
        str, typer.Argument(metavar="URL", help="The queue, by its storage.", callback=not_empty)
    ] = "",
    url: Url = "",
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> int:
    """Run a broker for remote clients.

    Run two, and one takes over when the other is gone. SIGTERM and SIGINT: finish, step down, exit.
    """
    with traces.exported():
        return await _serve(listening, leading, allowance, settings, logs, queue_url(at, url), supervised)


async def _serve(
    listening: Listening,
    leading: Leading,
    allowance: Allowance,
    settings: Settings,
    logs: Logs,
    url: str,
    is_supervised: bool,
) -> int:
    import asyncio

    from bucketq.url import BROKER_SCHEMES

    if url.startswith(tuple(f"{scheme}://" for scheme in BROKER_SCHEMES)):
        raise ConfigurationError(
            "a broker serves a storage, and this is the URL of a broker; give that of the storage, such as"
            " s3://my-bucket/jobs.json"
        )
    log_to_stderr(logs)
    # Else gRPC itself writes a line to stderr for each stranger whose handshake fails.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from bucketq.broker.broker import Beats
        from bucketq.broker.serving import serving
    except ImportError as error:
        raise ConfigurationError("a broker needs an extra: pip install 'bucketq[broker]'") from error
    _silence_grpc()
    from bucketq.loopback import is_loopback
    from bucketq.storage import ThrottledStorage, open_storage

    pages = dashboard_of_broker(listening.report) if listening.dashboard else None
    tokens, tls = _tokens_of(listening), _tls_of(listening)
    if not is_loopback(listening.host):
        _refuse_open_door(listening, tokens is not None, tls is not None)
    raise_open_files()
    storage = ThrottledStorage(
        open_storage(url), reads_per_s=leading.reads_per_s, writes_per_s=leading.writes_per_s
    )
    await _refuse_hopeless(storage)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    if is_supervised:
        end_with_supervisor(partial(asyncio.get_running_loop().call_soon_threadsafe, stopping.set), _DRAIN_S)
    async with serving(
        storage,
        host=listening.host,
        grpc_port=None if listening.no_grpc else listening.grpc_port,
        http_port=listening.http_port,
        advertise=listening.advertise or _reachable(listening.host),
        cors_origins=listening.cors_origin or [],
        settings=settings,
        beats=Beats(interval_s=leading.heartbeat_interval_s, timeout_s=leading.heartbeat_timeout_s),
        tokens=tokens,
        tls=tls,
        allowance=allowance,
        pages=pages,
    ) as broker:
        scheme = "https" if tls else "http"
        by_grpc = f"{broker.address}, and at " if broker.address else ""
        log.info("serving %s at %s%s://%s", url, by_grpc, scheme, broker.http)
        if pages is not None:
            log.info("the dashboard is at %s://%s/dashboard", scheme, broker.http)
        await stopping.wait()
        log.info("stopping: what was begun is finished, for up to %g s", _DRAIN_S)
        exit_after(_DRAIN_S, 1, f"not finished within {_DRAIN_S:g} s: leaving it to the next broker")
    log.info("stopped")
    return 0


def _silence_grpc() -> None:
    """Keep gRPC from printing a traceback for each caller that leaves before its refusal is sent.

    It calls traceback.print_exc, past all loggers, and has no setting for that.
    """
    from grpc._cython import cygrpc  # type: ignore[attr-defined]

    cygrpc.traceback = SimpleNamespace(format_exception=traceback.format_exception, print_exc=lambda: None)


def dashboard_of_broker(report: str) -> "Callable[[Inside], AbstractAsyncContextManager[Pages]]":
    """What shows a broker to people. Raises ConfigurationError."""
    try:
        from bucketq.dashboard.mount import on_broker
    except ModuleNotFoundError:
        raise ConfigurationError("the dashboard takes an extra: pip install 'bucketq[dashboard]'") from None
    return partial(on_broker, report=Path(report) if report else None)


def _tokens_of(listening: Listening) -> "TokenFile | Tokens | None":
    from bucketq.broker.token_file import TokenFile
    from bucketq.broker.tokens import Tokens

    lines = os.environ.get(_TOKENS)
    if listening.tokens_file and lines is not None:
        raise ConfigurationError(f"tokens come from --tokens-file or from {_TOKENS}, not from both")
    if listening.tokens_file:
        return TokenFile(listening.tokens_file)
    return Tokens.parse(lines.replace(";", "\n"), _TOKENS) if lines is not None else None


def _tls_of(listening: Listening) -> "Tls | None":
    from bucketq.tls import Tls

    if not listening.tls_cert:
        return None
    return Tls(ca=listening.tls_client_ca or None, cert=listening.tls_cert, key=listening.tls_key)


def _refuse_open_door(listening: Listening, has_tokens: bool, is_encrypted: bool) -> None:
    if not has_tokens and not listening.insecure:
        raise ConfigurationError(
            f"{listening.host} is not this machine alone, and without tokens everybody who reaches the port"
            " may do everything. Give --tokens-file (`bucketq token new` makes one), or say --insecure if the"
            " network itself is protected."
        )
    if not is_encrypted:
        log.warning(
            "without --tls-cert and --tls-key, everybody on the way to %s can read along", listening.host
        )


async def _refuse_hopeless(storage: "Bucket") -> None:
    """Raise what no waiting will mend; an outage is waited for."""
    from bucketq.codec import decode
    from bucketq.storage.port import Provable, describe

    try:
        content, etag = await storage.read()
        if isinstance(storage, Provable):
            await storage.prove()
    except UnusableStorageError:
        raise
    except (StorageError, OSError):
        return
    if etag is not None:
        decode(content, describe(storage))


def _reachable(host: str) -> str | None:
    # Nobody else reaches "every address of this machine".
    return socket.gethostname() if host in ("0.0.0.0", "[::]", "::") else None
