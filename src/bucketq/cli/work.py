"""`bucketq work`: run the jobs of an app until it is told to stop."""

import argparse
import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

from bucketq.app.app import App, load_app
from bucketq.app.worker import Worker
from bucketq.app.worker.health import told_health
from bucketq.cli.logs import LOG_OPTIONS, log_to_stderr
from bucketq.cli.options import Option, add_flag, add_options, variable_of
from bucketq.cli.supervisor import Supervisor
from bucketq.cli.work_on_spark import SPARK_OPTIONS, UNTIL_EMPTY, fleet_of
from bucketq.errors import ConfigurationError
from bucketq.spark import Fleet

log = logging.getLogger("bucketq")

_OPTIONS: list[Option] = [
    ("--url", "", "the queue, if not the app's own"),
    ("--concurrency", 20, "how many jobs run at the same time, in each process"),
    ("--entrypoint", "", "take jobs of these only: a,b"),
    ("--grace", 30.0, "seconds that running jobs get after SIGTERM, before they are given back"),
    ("--health-host", "127.0.0.1", "where /healthz and /readyz are served"),
    ("--health-port", 0, "on which port, and those after it with --processes; 0 is not at all"),
    *LOG_OPTIONS,
]
_PROCESSES = "--processes"
_RELOAD = "--reload"
_SUPERVISED = "--supervised"
# For the end of a worker whose supervisor is gone, beyond its grace.
_LEAVE_S = 15.0
# When all is given back and closed, for what handlers have left behind that does not end: tasks, or threads
# by `asyncio.to_thread`.
_LINGER_S = 3.0


def add_work(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "work",
        help="run the jobs of an app",
        description="Run the jobs of an app. Each option can also be set by an environment variable:"
        " --concurrency by BUCKETQ_CONCURRENCY, and so on. SIGTERM and SIGINT: claim no more, let handlers"
        " finish, give back the rest, exit. A second one ends it at once.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    command.add_argument("app", help="the app, as module:name, such as myapp.jobs:app")
    add_options(command, [*_OPTIONS, (_PROCESSES, 1, "how many worker processes"), *SPARK_OPTIONS])
    add_flag(command, _RELOAD, "start anew whenever a .py file below this folder changes")
    add_flag(command, UNTIL_EMPTY, "on spark: end when no job waits")
    command.add_argument(_SUPERVISED, action="store_true", help=argparse.SUPPRESS)
    command.set_defaults(run=work)


def work(options: argparse.Namespace) -> int:
    """Run jobs as the options say; return the exit code."""
    if options.processes < 1:
        raise ConfigurationError(f"--processes is at least 1, not {options.processes}")
    if options.on not in ("here", "spark"):
        raise ConfigurationError(f"jobs run here, or on spark, not on {options.on!r}")
    if options.on == "here" and (options.processes > 1 or options.reload):
        return asyncio.run(_supervise(options))
    return asyncio.run(_work_here(options))


async def _work_here(options: argparse.Namespace) -> int:
    # As `python -m` does, so that an app beside the shell's prompt is found.
    sys.path.insert(0, os.getcwd())
    app = load_app(options.app, options.url or None)
    entrypoints = [name.strip() for name in options.entrypoint.split(",") if name.strip()]
    worker = _worker_of(options, app, entrypoints or None)
    async with AsyncExitStack() as stack:
        if sys.stderr.isatty() and options.log_format == "text" and not options.supervised:
            await _show_live_line(worker, stack)
        log_to_stderr(options.log_level, options.log_format)
        if options.health_port:
            serving = told_health(options.health_host, options.health_port, lambda: worker.trouble)
            await stack.enter_async_context(serving)
        if options.supervised:
            stop = partial(asyncio.get_running_loop().call_soon_threadsafe, worker.stop)
            watching = partial(_end_with_supervisor, stop, options.grace)
            threading.Thread(target=watching, daemon=True).start()
        await worker.serve()
    leaving = threading.Timer(_LINGER_S, os._exit, [0])
    leaving.daemon = True
    leaving.start()
    return 0


def _worker_of(options: argparse.Namespace, app: App, entrypoints: list[str] | None) -> Worker | Fleet:
    if options.on == "spark":
        return fleet_of(options, app, entrypoints)
    return Worker(
        app,
        concurrency=options.concurrency,
        entrypoints=entrypoints,
        grace_s=options.grace,
        is_supervised=options.supervised,
    )


async def _show_live_line(worker: Worker | Fleet, stack: AsyncExitStack) -> None:
    try:
        from rich.console import Console

        from bucketq.cli.live import live_line
    except ImportError:
        return
    await stack.enter_async_context(live_line(worker, Console(stderr=True)))


async def _supervise(options: argparse.Namespace) -> int:
    log_to_stderr(options.log_level, options.log_format)

    def command(number: int) -> list[str]:
        given = {name: getattr(options, name[2:].replace("-", "_")) for name, _, _ in _OPTIONS}
        if given["--health-port"]:
            given["--health-port"] += number
        asked = [f"{name}={value}" for name, value in given.items()]
        return [sys.executable, "-m", "bucketq", "work", options.app, *asked, _SUPERVISED]

    inherited = {name: value for name, value in os.environ.items() if name not in _OF_SUPERVISOR}
    watched = Path.cwd() if options.reload else None
    return await Supervisor(command, options.processes, inherited, watched).run()


# What the supervisor's own workers must not do in turn.
_OF_SUPERVISOR = (variable_of(_PROCESSES), variable_of(_RELOAD))


def _end_with_supervisor(stop: Callable[[], object], grace_s: float) -> None:
    # Standard input is a pipe that ends when the supervisor does, however that ends.
    while os.read(0, 1024):
        pass
    with suppress(RuntimeError):  # it is over already
        stop()
    time.sleep(grace_s + _LEAVE_S)
    os._exit(1)
