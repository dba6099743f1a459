"""`bucketq serve`: run a broker until it is told to stop."""

import argparse
import asyncio
import ipaddress
import logging
import os
import signal
import socket

from bucketq.cli.logs import log_to_stderr
from bucketq.errors import ConfigurationError
from bucketq.settings import Settings
from bucketq.storage import open_storage
from bucketq.url import GRPC_PORT

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
    options: list[tuple[str, object, str]] = [
        ("--host", "localhost", "where to listen"),
        ("--grpc-port", GRPC_PORT, "the port for gRPC; 0 takes a free one"),
        ("--advertise", "", "the address that clients are told, if it is not host and port"),
        ("--heartbeat-interval", 3.0, "seconds between two heartbeats of the leader"),
        ("--heartbeat-timeout", 10.0, "seconds without one after which another broker takes over"),
        ("--commit-interval", settings.commit_interval_s, "seconds from one commit to the next, at least"),
        ("--stale-after", settings.stale_after_s, "seconds after which a silent worker's job is taken"),
        ("--log-level", "info", "debug, info, warning or error"),
        ("--log-format", "text", "text or json"),
    ]
    for option, default, text in options:
        name = "BUCKETQ_" + option.removeprefix("--").replace("-", "_").upper()
        # A default that is a string goes through `type` as well, so a bad variable is told like an option.
        command.add_argument(option, type=type(default), default=os.environ.get(name, default), help=text)
    command.add_argument(
        "--insecure",
        action="store_true",
        default=os.environ.get("BUCKETQ_INSECURE", "") not in ("", "0", "false"),
        help="listen beyond this machine although everybody there may do everything",
    )
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
    settings = Settings(commit_interval_s=options.commit_interval, stale_after_s=options.stale_after)
    beats = Beats(interval_s=options.heartbeat_interval, timeout_s=options.heartbeat_timeout)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    try:
        async with serving(
            open_storage(options.url),
            host=options.host,
            grpc_port=options.grpc_port,
            advertise=options.advertise or _reachable(options.host),
            settings=settings,
            beats=beats,
        ) as broker:
            log.info("serving %s at %s", options.url, broker.address)
            await stopping.wait()
            log.info("stopping: what was begun is finished, for up to %g s", _DRAIN_S)
            asyncio.get_running_loop().call_later(_DRAIN_S, _give_up)
    finally:
        log.info("stopped")
    return 0


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
