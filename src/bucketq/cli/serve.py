"""`bucketq serve`: run a broker until it is told to stop."""

import argparse
import asyncio
import ipaddress
import logging
import os
import signal
import socket

from bucketq.cli.logs import LOG_OPTIONS, log_to_stderr
from bucketq.cli.options import Option, add_flag, add_options
from bucketq.codec import decode
from bucketq.errors import ConfigurationError, StorageError, UnusableStorageError
from bucketq.settings import Settings
from bucketq.storage import open_storage
from bucketq.storage.port import Bucket, describe
from bucketq.url import GRPC_PORT, HTTP_PORT

log = logging.getLogger("bucketq")

_DRAIN_S = 30.0


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
        *LOG_OPTIONS,
    ]
    add_options(command, options)
    add_flag(command, "--insecure", "listen beyond this machine although everybody there may do everything")
    command.set_defaults(run=lambda given: asyncio.run(serve(given)))


async def serve(options: argparse.Namespace) -> int:
    """Run a broker as the options say; return the exit code."""
    log_to_stderr(options.log_level, options.log_format)
    try:
        from bucketq.broker.broker import Beats
        from bucketq.broker.serving import serving
    except ImportError as error:
        raise ConfigurationError("a broker needs an extra: pip install 'bucketq[broker]'") from error
    if not options.insecure and not _is_loopback(options.host):
        raise ConfigurationError(
            f"{options.host} is not this machine alone, and there is no protection yet: everybody who"
            " reaches the port may do everything. Say --insecure if the network itself is protected."
        )
    for port in (options.grpc_port, options.http_port):
        if not 0 <= port < 65536:
            raise ConfigurationError(f"a port is from 0 to 65535, not {port}")
    settings = Settings(commit_interval_s=options.commit_interval, stale_after_s=options.stale_after)
    beats = Beats(interval_s=options.heartbeat_interval, timeout_s=options.heartbeat_timeout)
    storage = open_storage(options.url)
    await _refuse_hopeless(storage)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with serving(
        storage,
        host=options.host,
        grpc_port=options.grpc_port,
        http_port=options.http_port,
        advertise=options.advertise or _reachable(options.host),
        settings=settings,
        beats=beats,
    ) as broker:
        log.info("serving %s at %s, and at http://%s", options.url, broker.address, broker.http)
        await stopping.wait()
        log.info("stopping: what was begun is finished, for up to %g s", _DRAIN_S)
        asyncio.get_running_loop().call_later(_DRAIN_S, _give_up)
    log.info("stopped")
    return 0


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


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _reachable(host: str) -> str | None:
    # Nobody else reaches "every address of this machine".
    return socket.gethostname() if host in ("0.0.0.0", "[::]", "::") else None
