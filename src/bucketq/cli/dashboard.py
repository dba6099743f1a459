"""`bucketq dashboard`: show a queue to people with a browser."""

import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bucketq.cli.configuration import CURRENT
from bucketq.cli.logs import Logs, log_to_stderr
from bucketq.cli.opened import queue_url
from bucketq.cli.options import At, Url
from bucketq.errors import ConfigurationError
from bucketq.supervised import exit_after

if TYPE_CHECKING:
    from bucketq.tls import Tls

log = logging.getLogger("bucketq")

_LEAVE_S = 10.0


async def dashboard(
    logs: Logs,
    at: At = "",
    url: Url = "",
    host: Annotated[str, typer.Option(metavar="TEXT", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="The port; 0 takes a free one.")
    ] = 8430,
    tokens_file: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Let those in who have one of these tokens; see `bucketq token`. For storages.",
        ),
    ] = "",
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure", help="Listen beyond this machine although everybody there may do everything."
        ),
    ] = False,
    tls_cert: Annotated[
        str,
        typer.Option(metavar="FILE", help="The certificate to show, with those up to its authority, in PEM."),
    ] = "",
    tls_key: Annotated[str, typer.Option(metavar="FILE", help="Its key.")] = "",
    report: Annotated[
        str, typer.Option(metavar="FILE", help="The file of `bucketq pipeline report` to show.")
    ] = "",
) -> int:
    """Show a queue in the browser: charts, jobs, dead letters, workers, brokers.

    Of a storage, or of brokers; `bucketq serve --dashboard` does the same on a broker's own port. By way of
    brokers a visitor may do what their token allows; on this machine, what BUCKETQ_TOKEN does. SIGTERM and
    SIGINT end it.
    """
    import asyncio

    from bucketq.loopback import is_loopback

    try:
        from bucketq.dashboard.alone import alone
    except ModuleNotFoundError:
        raise ConfigurationError("the dashboard takes an extra: pip install 'bucketq[dashboard]'") from None
    from bucketq.broker.token_file import TokenFile
    from bucketq.url import BROKER_SCHEMES

    url = queue_url(at, url)
    if url.startswith("memory://"):
        raise ConfigurationError("memory:// is a queue of this process alone; name one that others use")
    log_to_stderr(logs)
    is_of_brokers = url.partition("://")[0] in BROKER_SCHEMES
    if not (is_loopback(host) or insecure or tokens_file or is_of_brokers):
        raise ConfigurationError(
            f"{host} is not this machine alone, and without tokens everybody who reaches the port may do"
            " everything. Give --tokens-file (`bucketq token new` makes one), or say --insecure if the"
            " network itself is protected."
        )
    tls = _tls_of(tls_cert, tls_key)
    if tls is None and not is_loopback(host):
        log.warning("without --tls-cert and --tls-key, everybody on the way to %s can read along", host)
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with alone(
        url,
        host=host,
        port=port,
        tokens=TokenFile(tokens_file) if tokens_file else None,
        tls=tls,
        is_open=insecure,
        report=Path(report) if report else None,
        settings=CURRENT.get().settings(),
    ) as address:
        print(f"the dashboard of {url} is at {address}; Ctrl-C ends it", flush=True)
        await stopping.wait()
        exit_after(_LEAVE_S, 1, f"not stopped within {_LEAVE_S:g} s")
    return 0


def _tls_of(cert: str, key: str) -> "Tls | None":
    from bucketq.tls import Tls

    return Tls(cert=cert or None, key=key or None) if cert or key else None
