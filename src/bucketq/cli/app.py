"""The command line: every command, in the order in which `bucketq --help` lists them.

Modules of commands import little at their top: whoever asks for help should not wait for what only
the work itself needs.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

import bucketq
from bucketq.cli.archive import archive
from bucketq.cli.cancel import cancel
from bucketq.cli.config import config
from bucketq.cli.configuration import CURRENT, FILE, Configuration
from bucketq.cli.dashboard import dashboard
from bucketq.cli.dead import discard, redrive, retry
from bucketq.cli.diff import diff
from bucketq.cli.doctor import doctor
from bucketq.cli.enqueue import enqueue
from bucketq.cli.gc import gc
from bucketq.cli.help import SectionedCommand, SectionedGroup
from bucketq.cli.init import init
from bucketq.cli.jobs import jobs
from bucketq.cli.limits import limit, pause, resume
from bucketq.cli.options import with_settings
from bucketq.cli.pipeline import accept, replay, report, run
from bucketq.cli.schedules import add, remove, schedules
from bucketq.cli.serve import serve
from bucketq.cli.show import show
from bucketq.cli.stats import stats
from bucketq.cli.token import list_tokens, new, revoke
from bucketq.cli.top import top
from bucketq.cli.transfer import export, import_file
from bucketq.cli.verify import verify
from bucketq.cli.work import work

app = typer.Typer(
    name="bucketq",
    cls=SectionedGroup,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0, all is well; 1, something is wrong with the queue, or a job is not there; 2, it"
    f" could not be done. Settings come from flags, BUCKETQ_… variables and {FILE}; `bucketq config` shows"
    " them.",
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        print(f"bucketq {bucketq.__version__}")
        raise typer.Exit


@app.callback()
def begin(
    context: typer.Context,
    config: Annotated[
        str,
        typer.Option(
            metavar="FILE", help=f"The settings. Default: {FILE} of this folder, or BUCKETQ_CONFIG."
        ),
    ] = "",
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version.")
    ] = False,
) -> None:
    """A durable job queue that lives in a bucket.

    Begin with `bucketq init`, which makes a queue and a first job, and says what comes next.
    """
    configuration = Configuration.read(config)
    configuration.check(context)
    context.default_map = configuration.default_map(context)
    CURRENT.set(configuration)


def command(function: Callable[..., Any]) -> Callable[..., None]:
    """A function as a command: with options for its settings, and what it returns as the exit code."""
    run = with_settings(function)

    @wraps(run)
    def command(*arguments: Any, **options: Any) -> None:
        done = run(*arguments, **options)
        if inspect.iscoroutine(done):
            import asyncio

            done = asyncio.run(done)
        raise typer.Exit(done or 0)

    return command


_BEGIN = "Begin and work"
_LOOK = "Look"
_ACT = "Act on jobs"
_CARE = "Look after a queue"
_DATA = "Data, with Spark"

_COMMANDS: list[tuple[str, str, Callable[..., Any]]] = [
    (_BEGIN, "init", init),
    (_BEGIN, "enqueue", enqueue),
    (_BEGIN, "work", work),
    (_BEGIN, "serve", serve),
    (_LOOK, "jobs", jobs),
    (_LOOK, "show", show),
    (_LOOK, "stats", stats),
    (_LOOK, "archive", archive),
    (_LOOK, "diff", diff),
    (_LOOK, "top", top),
    (_LOOK, "dashboard", dashboard),
    (_ACT, "retry", retry),
    (_ACT, "redrive", redrive),
    (_ACT, "discard", discard),
    (_ACT, "cancel", cancel),
    (_ACT, "pause", pause),
    (_ACT, "resume", resume),
    (_ACT, "limit", limit),
    (_CARE, "doctor", doctor),
    (_CARE, "verify", verify),
    (_CARE, "gc", gc),
    (_CARE, "export", export),
    (_CARE, "import", import_file),
    (_CARE, "config", config),
    (_DATA, "replay", replay),
]
# What follows another command's name is that one's.
_SETTINGS = {"config": {"ignore_unknown_options": True, "allow_extra_args": True}}
for _panel, _name, _function in _COMMANDS:
    app.command(_name, cls=SectionedCommand, rich_help_panel=_panel, context_settings=_SETTINGS.get(_name))(
        command(_function)
    )
by_the_clock = typer.Typer(name="schedules")
by_the_clock.callback(invoke_without_command=True)(schedules)
token = typer.Typer(
    name="token",
    help="Make, list and revoke the tokens of a broker's callers.\n\n"
    "Brokers that were started with `--tokens-file tokens` follow within about a second.",
)
pipeline = typer.Typer(name="pipeline", help="Bring the archive into a lake, and report on it.")
_GROUPS: list[tuple[str, typer.Typer, dict[str, Callable[..., Any]]]] = [
    (_ACT, by_the_clock, {"add": add, "remove": remove}),
    (_CARE, token, {"new": new, "list": list_tokens, "revoke": revoke}),
    (_DATA, pipeline, {"run": run, "report": report, "accept": accept}),
]
for _panel, _group, _functions in _GROUPS:
    for _name, _function in _functions.items():
        _group.command(_name, cls=SectionedCommand)(command(_function))
    app.add_typer(_group, cls=SectionedGroup, rich_help_panel=_panel)
