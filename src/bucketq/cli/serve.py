"""`bucketq serve`: run a broker until it is told to stop."""

import argparse
import asyncio
import logging
import os
import signal
import socket

from bucketq.broker.token_file import TokenFile
from bucketq.broker.tokens import Tokens
from bucketq.cli.allowance import ALLOWANCE_OPTIONS, allowance_of
from bucketq.cli.logs import LOG_OPTIONS, log_to_stderr
from bucketq.cli.options import Option, add_flag, add_list, add_options
from bucketq.codec import decode
from bucketq.errors import ConfigurationError, StorageError, UnusableStorageError
from bucketq.loopback import is_loopback
from bucketq.settings import Settings
from bucketq.storage import ThrottledStorage, open_storage
from bucketq.storage.port import Bucket, describe
from bucketq.tls import Tls
from bucketq.url import GRPC_PORT, HTTP_PORT

log = logging.getLogger("bucketq")

_DRAIN_S = 30.0
# Not an option: what is in it is not to be seen in --help, or among the processes.
_TOKENS = "BUCKETQ_TOKENS"


def add_serve(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "serve",
        help="run a broker for remote clients; run two, and one takes over when the other is gone",
        description="Run a broker. Each option can also be set by an environment variable:"
        " --grpc-port by BUCKETQ_GRPC_PORT, and so on. SIGTERM and SIGINT: finish, step down, exit.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    command.add_argument("url", help="the queue, such as s3://my-bucket/jobs.json")
    settings = Settings()
    options: list[Option] = [
        ("--host", "127.0.0.1", "where to listen"),
        ("--grpc-port", GRPC_PORT, "the port for gRPC; 0 takes a free one"),
        ("--http-port", HTTP_PORT, "the port for HTTP and WebSocket; 0 takes a free one"),
        ("--advertise", "", "the host that clients are told, if it is not --host; with a port, that of gRPC"),
        ("--heartbeat-interval", 3.0, "seconds between two heartbeats of the leader"),
        ("--heartbeat-timeout", 10.0, "seconds without one after which another broker takes over"),
        ("--commit-interval", settings.commit_interval_s, "seconds from one commit to the next, at least"),
        ("--stale-after", settings.stale_after_s, "seconds after which a silent worker's job is taken"),
        ("--tokens-file", "", "the tokens that let callers in, one a line; see `bucketq token`"),
        ("--tls-cert", "", "the certificate to show, with those that lead from it to its authority, in PEM"),
        ("--tls-key", "", "its key"),
        ("--tls-client-ca", "", "let only clients in that have a certificate of this authority"),
        *ALLOWANCE_OPTIONS,
        ("--reads-per-second", 0.0, "how many reads of the storage at most; 0 is no limit"),
        ("--writes-per-second", 0.0, "how many writes to the storage at most; 0 is no limit"),
        *LOG_OPTIONS,
    ]
    add_options(command, options)
    add_list(command, "--cors-origin", "web pages of this origin may talk to the broker; may be given again")
    add_flag(command, "--no-grpc", "speak HTTP and WebSocket alone, as in a network that you do not trust")
    add_flag(command, "--insecure", "listen beyond this machine although everybody there may do everything")
    command.set_defaults(run=lambda given: asyncio.run(serve(given)))


async def serve(options: argparse.Namespace) -> int:
    """Run a broker as the options say; return the exit code."""
    log_to_stderr(options.log_level, options.log_format)
    # Else gRPC itself writes a line to stderr for each stranger whose handshake fails.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from bucketq.broker.allowance import raise_open_files
        from bucketq.broker.broker import Beats
        from bucketq.broker.serving import serving
    except ImportError as error:
        raise ConfigurationError("a broker needs an extra: pip install 'bucketq[broker]'") from error
    tokens, tls = _tokens_of(options), _tls_of(options)
    if not is_loopback(options.host):
        _refuse_open_door(options, tokens is not None, tls is not None)
    for port in (options.grpc_port, options.http_port):
        if not 0 <= port < 65536:
            raise ConfigurationError(f"a port is from 0 to 65535, not {port}")
    settings = Settings(
        commit_interval_s=options.commit_interval,
        stale_after_s=options.stale_after,
        payload_bytes_max=options.max_payload_bytes,
    )
    raise_open_files()
    beats = Beats(interval_s=options.heartbeat_interval, timeout_s=options.heartbeat_timeout)
    storage = ThrottledStorage(
        open_storage(options.url),
        reads_per_s=options.reads_per_second,
        writes_per_s=options.writes_per_second,
    )
    await _refuse_hopeless(storage)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with serving(
        storage,
        host=options.host,
        grpc_port=None if options.no_grpc else options.grpc_port,
        http_port=options.http_port,
        advertise=options.advertise or _reachable(options.host),
        cors_origins=options.cors_origin,
        settings=settings,
        beats=beats,
        tokens=tokens,
        tls=tls,
        allowance=allowance_of(options),
    ) as broker:
        scheme = "https" if tls else "http"
        by_grpc = f"{broker.address}, and at " if broker.address else ""
        log.info("serving %s at %s%s://%s", options.url, by_grpc, scheme, broker.http)
        await stopping.wait()
        log.info("stopping: what was begun is finished, for up to %g s", _DRAIN_S)
        asyncio.get_running_loop().call_later(_DRAIN_S, _give_up)
    log.info("stopped")
    return 0


def _tokens_of(options: argparse.Namespace) -> TokenFile | Tokens | None:
    lines = os.environ.get(_TOKENS)
    if options.tokens_file and lines is not None:
        raise ConfigurationError(f"tokens come from --tokens-file or from {_TOKENS}, not from both")
    if options.tokens_file:
        return TokenFile(options.tokens_file)
    return Tokens.parse(lines.replace(";", "\n"), _TOKENS) if lines is not None else None


def _tls_of(options: argparse.Namespace) -> Tls | None:
    if not options.tls_cert and not options.tls_key:
        if options.tls_client_ca:
            raise ConfigurationError("--tls-client-ca goes with --tls-cert and --tls-key")
        return None
    return Tls(ca=options.tls_client_ca or None, cert=options.tls_cert or None, key=options.tls_key or None)


def _refuse_open_door(options: argparse.Namespace, has_tokens: bool, is_encrypted: bool) -> None:
    if not has_tokens and not options.insecure:
        raise ConfigurationError(
            f"{options.host} is not this machine alone, and without tokens everybody who reaches the port may"
            " do everything. Give --tokens-file (`bucketq token new` makes one), or say --insecure if the"
            " network itself is protected."
        )
    if not is_encrypted:
        log.warning(
            "without --tls-cert and --tls-key, everybody on the way to %s can read along", options.host
        )


async def _refuse_hopeless(storage: Bucket) -> None:
    """Raise what no waiting will mend; an outage is waited for."""
    try:
        content, etag = await storage.read()
    except UnusableStorageError:
        raise
    except (StorageError, OSError):
        return
    if etag is not None:
        decode(content, describe(storage))


def _give_up() -> None:
    log.error("not finished within %g s: leaving it to the next broker", _DRAIN_S)
    os._exit(1)


def _reachable(host: str) -> str | None:
    # Nobody else reaches "every address of this machine".
    return socket.gethostname() if host in ("0.0.0.0", "[::]", "::") else None
