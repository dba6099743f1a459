"""`bucketq work`: run the jobs of an app until it is told to stop."""

import logging
import os
import sys
import traceback
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bucketq.cli.configuration import CURRENT, FILE
from bucketq.cli.logs import Logs, log_to_stderr
from bucketq.cli.options import Url, argument, flag_of
from bucketq.cli.traces import Traces
from bucketq.errors import BucketQError, ConfigurationError
from bucketq.settings import Settings
from bucketq.supervised import end_with_supervisor, exit_after

if TYPE_CHECKING:
    from bucketq.app.app import App
    from bucketq.app.worker import Worker
    from bucketq.spark import Fleet

log = logging.getLogger("bucketq")

# For the end of a worker, beyond its grace: whatever its storage, its resources or its processes do.
_LEAVE_S = 10.0
# For a supervisor, beyond that of its workers.
_KILL_S = 5.0
# When all is given back and closed, for what handlers have left behind that does not end: tasks, or threads
# by `asyncio.to_thread`.
_LINGER_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Working:
    """How jobs are run."""

    concurrency: Annotated[int, "how many jobs run at the same time, in each process"] = 20
    entrypoint: Annotated[str, "take jobs of these only: a,b"] = ""
    grace_s: Annotated[float, "seconds that running jobs get after SIGTERM, before they are given back"] = (
        30.0
    )
    health_host: Annotated[str, "where /healthz and /readyz are served"] = "127.0.0.1"
    health_port: Annotated[int, "on which port, and those after it with --processes; 0 is not at all"] = 0

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise ConfigurationError(f"--concurrency is at least 1, not {self.concurrency}")

    @property
    def entrypoints(self) -> list[str] | None:
        """The entrypoints whose jobs are taken, if not all are."""
        return [name.strip() for name in self.entrypoint.split(",") if name.strip()] or None


@dataclass(frozen=True, kw_only=True)
class Where:
    """Where jobs run."""

    processes: Annotated[int, "how many worker processes"] = 1
    reload: Annotated[bool, "start anew whenever a .py file below this folder changes"] = False
    on: Annotated[Literal["here", "spark"], "here, or on the executors of Spark"] = "here"
    spark_master: Annotated[str, "on spark: its master, such as spark://10.0.0.7:7077"] = "local[*]"
    lanes: Annotated[int, "on spark: how many tasks at a time; 0 is 1.5 for each core"] = 0
    results: Annotated[str, "on spark: a folder, or its URL, for a table of all outcomes"] = ""
    until_empty: Annotated[bool, "on spark: end when no job waits"] = False

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ConfigurationError(f"--processes is at least 1, not {self.processes}")
        if self.on == "spark" and (self.processes > 1 or self.reload):
            raise ConfigurationError(
                "--processes and --reload are for workers here; Spark has its own executors"
            )
        if self.on == "here" and (self.lanes or self.results or self.until_empty):
            raise ConfigurationError("--lanes, --results and --until-empty go with --on spark")


async def work(
    context: typer.Context,
    app: Annotated[str, argument("APP", "The app, as module:name, such as myapp.jobs:app.")],
    working: Working,
    where: Where,
    settings: Settings,
    logs: Logs,
    traces: Traces,
    url: Url = "",
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
) -> int:
    """Run the jobs of an app.

    SIGTERM and SIGINT: claim no more, let handlers finish, give back the rest, exit. A second one ends
    it at once.
    """
    url = url or CURRENT.get().used_url()
    given = {name: value for name, value in vars(settings).items() if _is_given(context, name)}
    # Those whom a supervisor has started find the same bucketq.toml, and must not supervise in turn.
    if not supervised and (where.processes > 1 or where.reload):
        return await _supervise(app, working, where, given, logs, traces, url)
    return await _work_here(app, working, where, given, logs, traces, url, supervised)


async def _work_here(
    path: str,
    working: Working,
    where: Where,
    settings: dict[str, Any],
    logs: Logs,
    traces: Traces,
    url: str,
    is_supervised: bool,
) -> int:
    from bucketq.app.worker.health import told_health

    # As `python -m` does, so that an app beside the shell's prompt is found.
    sys.path.insert(0, os.getcwd())
    app = _loaded(path, url)
    # What was configured wins over what the app itself says, and that over the defaults.
    app.settings = replace(app.settings or Settings(), **settings)
    worker = _worker_of(app, working, where, is_supervised)
    async with AsyncExitStack() as stack:
        # First, and so closed last: all that ends with the worker is told too.
        stack.enter_context(traces.exported())
        if sys.stderr.isatty() and logs.log_format == "text" and not is_supervised:
            from rich.console import Console

            from bucketq.cli.live import live_line

            await stack.enter_async_context(live_line(worker, Console(stderr=True)))
        log_to_stderr(logs, with_handlers=True)
        if working.health_port:
            serving = told_health(working.health_host, working.health_port, lambda: worker.trouble)
            await stack.enter_async_context(serving)
        if is_supervised:
            import asyncio

            stop = partial(asyncio.get_running_loop().call_soon_threadsafe, worker.stop)
            end_with_supervisor(stop, working.grace_s + _LEAVE_S)
        told = f"not stopped within {working.grace_s + _LEAVE_S:g} s: jobs go back by the stale timeout"
        worker.on_stop = partial(exit_after, working.grace_s + _LEAVE_S, 1, told)
        await worker.serve()
    exit_after(_LINGER_S, 0)
    return 0


def _loaded(path: str, url: str) -> "App":
    """The app. What its own module raises is told in a sentence, with the line that did."""
    from bucketq.app.app import load_app

    try:
        return load_app(path, url or None)
    except BucketQError:
        raise
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        # A line that cannot be read names itself.
        where = "" if isinstance(error, SyntaxError) else f" ({at.filename}:{at.lineno})"
        raise ConfigurationError(
            f"{path} cannot be imported: {type(error).__name__}: {error}{where}; mend that, or see all of it"
            " with `bucketq --debug work`"
        ) from error


def _worker_of(app: "App", working: Working, where: Where, is_supervised: bool) -> "Worker | Fleet":
    if where.on == "here":
        from bucketq.app.worker import Worker

        return Worker(
            app,
            concurrency=working.concurrency,
            entrypoints=working.entrypoints,
            grace_s=working.grace_s,
            is_supervised=is_supervised,
        )
    from bucketq.spark import Fleet, local_session

    return Fleet(
        app,
        local_session(where.spark_master, is_quiet=True),
        entrypoints=working.entrypoints,
        lanes=where.lanes or None,
        concurrency=working.concurrency,
        until_empty=where.until_empty,
        results=where.results or None,
        grace_s=working.grace_s,
    )


async def _supervise(
    app: str,
    working: Working,
    where: Where,
    settings: dict[str, Any],
    logs: Logs,
    traces: Traces,
    url: str,
) -> int:
    from bucketq.cli.supervisor import Supervisor

    log_to_stderr(logs)
    config = CURRENT.get().path

    def command(number: int) -> list[str]:
        port = working.health_port and working.health_port + number
        told = {**vars(replace(working, health_port=port)), **vars(logs), **vars(traces), **settings}
        asked = [flag for name, value in told.items() for flag in _flag(name, value)]
        asked += [f"--url={url}"] if url else []
        return [
            sys.executable,
            "-m",
            "bucketq",
            *([] if config == Path(FILE) else [f"--config={config}"]),
            "work",
            app,
            *asked,
            "--supervised",
        ]

    watched = Path.cwd() if where.reload else None
    within_s = working.grace_s + _LEAVE_S + _KILL_S
    return await Supervisor(command, where.processes, os.environ, watched, within_s).run()


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether somebody has said what a setting is to be, even if that is its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _flag(name: str, value: object) -> list[str]:
    if not isinstance(value, bool):
        return [f"{flag_of(name)}={value}"]
    if value:
        return [flag_of(name)]
    # What is off by itself has no flag that turns it off.
    return [flag_of(f"no_{name}")] if getattr(Settings, name, False) else []
