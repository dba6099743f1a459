"""`bucketq pipeline`, `bucketq replay`: the data pipeline from the command line."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from bucketq.cli.lines import complain
from bucketq.cli.opened import queue_url
from bucketq.cli.options import AsJson, Url
from bucketq.cli.progress import shown_progress
from bucketq.cli.steps import StepError, Steps
from bucketq.cli.told import tell_json
from bucketq.errors import BucketQError, ConfigurationError
from bucketq.words import spell_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bucketq.pipeline.quality import Check
    from bucketq.pipeline.targets import Targets


@dataclass(frozen=True, kw_only=True)
class OnSpark:
    """The lake, and Spark."""

    out: Annotated[str, "the lake: a folder, or a URL for Spark"] = "lake"
    master: Annotated[str, "where Spark runs"] = "local[*]"
    conf: Annotated[list[str] | None, "a setting for Spark, as KEY=VALUE; may be repeated"] = None
    verbose: Annotated[bool, "show what Spark says"] = False


TargetsFile = Annotated[
    str,
    typer.Option(
        "--targets",
        metavar="FILE",
        help="Service levels, in TOML. Default: those of the last run.",
    ),
]


def run(lake: OnSpark, url: Url = "", targets: TargetsFile = "", as_json: AsJson = False) -> int:
    """Bring the archive into a lake: bronze, silver, gold; only what is new."""
    url = queue_url(url=url)
    wanted = _targets(targets)
    _check_queue(url)
    with _spark(lake) as (spark, steps):
        from bucketq.pipeline.run import run

        outcome = run(spark, {"url": url}, lake.out, wanted, steps.begin)
    if as_json:
        tell_json({"days": outcome.days, "onTheWay": outcome.on_the_way, "checks": _shown(outcome.checks)})
        return 0 if outcome.is_sound else 1
    print(f"days made anew: {', '.join(outcome.days) or 'none'}")
    if outcome.on_the_way:
        print(f"not in the archive yet, but with a later run: {spell_jobs(outcome.on_the_way, 'finished')}")
    _tell(outcome.checks)
    return 0 if outcome.is_sound else 1


def _shown(checks: "Sequence[Check]") -> list[dict[str, object]]:
    return [
        {"name": one.name, "passed": one.passed, "found": one.found, "examples": list(one.examples)}
        for one in checks
    ]


def _tell(checks: "Sequence[Check]") -> None:
    for one in checks:
        mark = {True: "yes", False: "NO", None: "not checked"}[one.passed]
        print(f"{one.name}: {mark} ({one.found})")
        for example in one.examples:
            print(f"    {example}")


def report(
    lake: OnSpark,
    html: Annotated[Path, typer.Option(metavar="FILE", help="Where to write it.")] = Path("report.html"),
    days: Annotated[int, typer.Option(metavar="N", help="How many days it shows.")] = 7,
    watch: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Run the pipeline and write the report again, so often."),
    ] = None,
    url: Url = "",
    targets: TargetsFile = "",
    as_json: AsJson = False,
) -> int:
    """Write the report on a lake, one HTML file."""
    if days < 1:
        raise ConfigurationError(f"--days is how many days to show: 1 or more, not {days}")
    if watch is not None and not watch > 0:
        raise ConfigurationError(f"--watch is how many seconds to wait: more than 0, not {watch:g}")
    if watch is None and targets:
        raise ConfigurationError("--targets is for --watch; without it, give them to pipeline run")
    if watch is not None:
        _watch(lake, html, days, watch, queue_url(url=url), _targets(targets), as_json)
    _check_lake(lake.out)
    with _spark(lake) as (spark, steps):
        _write(lake, html, days, None, spark, steps)
    _tell_written(html, as_json)
    return 0


def _tell_written(html: Path, as_json: bool) -> None:
    tell_json({"written": str(html)}) if as_json else print(f"{html} is written", flush=True)


def _watch(
    lake: OnSpark,
    html: Path,
    days: int,
    watch_s: float,
    url: str,
    targets: "Targets | None",
    as_json: bool,
) -> NoReturn:
    # What is said between the rounds would be lost among bars.
    with _spark(lake, has_bars=False) as (spark, steps):
        from bucketq.pipeline.run import run

        while True:
            try:
                with steps.told_plainly():
                    run(spark, {"url": url}, lake.out, targets, steps.begin)
                    _write(lake, html, days, watch_s, spark, steps)
                _tell_written(html, as_json)
            except BucketQError as error:
                if isinstance(error, StepError) and error.is_gone:
                    raise
                # What goes wrong now may go well the next time.
                complain(str(error))
            time.sleep(watch_s)


def _write(
    lake: OnSpark, html: Path, days: int, watch_s: float | None, spark: "SparkSession", steps: Steps
) -> None:
    from bucketq.pipeline.lake import Lake
    from bucketq.pipeline.report.findings import find
    from bucketq.pipeline.report.page import page, write_report

    steps.begin("report")
    refresh_s = None if watch_s is None else max(1, round(watch_s))
    write_report(html, page(find(Lake(spark, lake.out), days), refresh_s))


def accept(lake: OnSpark, as_json: AsJson = False) -> int:
    """Let what the checks found wrong fail no later run."""
    _check_lake(lake.out)
    with _spark(lake) as (spark, steps):
        from bucketq.pipeline.lake import Lake
        from bucketq.pipeline.quality import accept

        steps.begin("accept")
        checks = accept(Lake(spark, lake.out))
    if as_json:
        tell_json({"checks": _shown(checks)})
    else:
        _tell(checks)
    return 0


def replay(
    where: Annotated[str, typer.Option(metavar="SQL", help="Over silver, such as \"status = 'dead'\".")],
    lake: OnSpark,
    again: Annotated[bool, typer.Option("--again", help="Also jobs that were replayed before.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many jobs it would be.")] = False,
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """Put finished jobs back into the queue, once."""
    url = queue_url(url=url)
    _check_lake(lake.out)
    with _spark(lake) as (spark, steps):
        from bucketq.pipeline.lake import Lake
        from bucketq.pipeline.replay import chosen, replay

        steps.begin("replay")
        silver = Lake(spark, lake.out)
        if dry_run:
            count = chosen(silver, where, again).count()
        else:
            count = replay(silver, where, {"url": url}, again)
    if as_json:
        tell_json({"jobs": count, "isDryRun": dry_run})
    else:
        print(f"{spell_jobs(count)}{' would be' if dry_run else ''} enqueued")
    return 0


def _check_queue(url: str) -> None:
    """Raise an error for a queue that is not there, before Spark is started for it."""
    try:
        from bucketq.spark.options import Options
        from bucketq.spark.tables import check_there, read_queue
    except ImportError as error:
        raise ConfigurationError("Spark is an extra: pip install 'bucketq[spark]'") from error

    options = Options({"url": url})
    check_there(read_queue(options), options)


def _check_lake(out: str) -> None:
    if "://" not in out and not Path(out).is_dir():
        raise ConfigurationError(f"there is no lake {out}: run the pipeline first")


def _targets(path: str) -> "Targets | None":
    from bucketq.pipeline.targets import read_targets

    return read_targets(Path(path)) if path else None


@contextmanager
def _spark(lake: OnSpark, has_bars: bool = True) -> Iterator[tuple["SparkSession", Steps]]:
    """Spark, and the steps that are shown while it works."""
    from bucketq.spark import local_session

    settings = dict(_setting(text) for text in lake.conf or [])
    if lake.verbose:
        settings.setdefault("spark.log.level", "INFO")
    with shown_progress() if has_bars else nullcontext(lambda *_: None) as on_progress:
        steps = Steps(on_progress, lake.verbose)
        steps.begin("spark")
        with steps.told_plainly():
            session = local_session(lake.master, settings=settings, is_quiet=not lake.verbose)
            try:
                with steps.followed(session):
                    steps.begin("lake")
                    yield session, steps
            finally:
                session.stop()


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigurationError(f"--conf takes KEY=VALUE, not {text!r}")
    return key, value
