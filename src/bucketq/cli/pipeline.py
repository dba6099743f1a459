"""bucketq pipeline, bucketq replay: the data pipeline from the command line."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from bucketq.cli.progress import shown_progress
from bucketq.cli.steps import StepError, Steps
from bucketq.errors import BucketQError, ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bucketq.pipeline.quality import Check
    from bucketq.pipeline.targets import Targets


def add_pipeline(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `pipeline run`, `pipeline report`, `pipeline accept` and `replay` to the commands."""
    pipeline = commands.add_parser("pipeline", help="bring the archive into a lake, and report on it")
    steps = pipeline.add_subparsers(required=True, metavar="STEP")
    run = steps.add_parser("run", help="archive -> bronze -> silver -> gold; only what is new")
    _add_source(run)
    _add_targets(run)
    run.set_defaults(run=_run)
    report = steps.add_parser("report", help="write the report, one HTML file")
    _add_lake(report)
    report.add_argument(
        "--html", type=Path, default=Path("report.html"), metavar="FILE", help="default: report.html"
    )
    report.add_argument("--days", type=int, default=7, help="how many days it shows (default: 7)")
    report.add_argument(
        "--watch", type=float, metavar="SECONDS", help="run the pipeline and write the report again, so often"
    )
    report.add_argument(
        "--url", default=os.environ.get("BUCKETQ_URL"), help="the queue, for --watch (or BUCKETQ_URL)"
    )
    _add_targets(report)
    report.set_defaults(run=_report)
    accept = steps.add_parser("accept", help="let what the checks found wrong fail no later run")
    _add_lake(accept)
    accept.set_defaults(run=_accept)
    replay = commands.add_parser("replay", help="put finished jobs back into the queue, once")
    _add_source(replay)
    replay.add_argument(
        "--where", required=True, metavar="SQL", help="over silver, such as \"status = 'dead'\""
    )
    replay.add_argument("--again", action="store_true", help="also jobs that were replayed before")
    replay.add_argument("--dry-run", action="store_true", help="only say how many jobs it would be")
    replay.set_defaults(run=_replay)


def _add_source(parser: argparse.ArgumentParser) -> None:
    url = os.environ.get("BUCKETQ_URL")
    parser.add_argument("--url", default=url, required=not url, help="the queue (or BUCKETQ_URL)")
    _add_lake(parser)


def _add_targets(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--targets",
        type=Path,
        metavar="FILE",
        help="service levels, as a TOML file (default: those that the lake was given last)",
    )


def _add_lake(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", default="lake", help="the lake: a folder, or a URL for Spark (default: lake)"
    )
    parser.add_argument("--master", default="local[*]", help="where Spark runs (default: local[*])")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="KEY=VALUE", help="a setting for Spark"
    )
    parser.add_argument("--verbose", action="store_true", help="show what Spark says")


def _run(given: argparse.Namespace) -> int:
    targets = _targets(given)
    _check_queue(given.url)
    with _spark(given) as (spark, steps):
        from bucketq.pipeline.run import run

        outcome = run(spark, {"url": given.url}, given.out, targets, steps.begin)
    print(f"days made anew: {', '.join(outcome.days) or 'none'}")
    if outcome.on_the_way:
        print(f"{outcome.on_the_way} finished jobs are not in the archive yet; they come with a later run")
    _tell(outcome.checks)
    return 0 if outcome.is_sound else 1


def _tell(checks: "Sequence[Check]") -> None:
    for one in checks:
        mark = {True: "yes", False: "NO", None: "not checked"}[one.passed]
        print(f"{one.name}: {mark} ({one.found})")
        for example in one.examples:
            print(f"    {example}")


def _report(given: argparse.Namespace) -> int:
    if given.days < 1:
        raise ConfigurationError(f"--days is how many days to show: 1 or more, not {given.days}")
    if given.watch is not None and not given.watch > 0:
        raise ConfigurationError(f"--watch is how many seconds to wait: more than 0, not {given.watch:g}")
    if given.watch is None and given.targets is not None:
        raise ConfigurationError("--targets is for --watch; without it, give them to pipeline run")
    if given.watch is not None and not given.url:
        raise ConfigurationError("--watch runs the pipeline again and again, and needs --url")
    if given.watch is not None:
        _watch(given)
    _check_lake(given.out)
    with _spark(given) as (spark, steps):
        _write(given, spark, steps)
    print(f"{given.html} is written")
    return 0


def _watch(given: argparse.Namespace) -> NoReturn:
    targets = _targets(given)
    # What is said between the rounds would be lost among bars.
    with _spark(given, has_bars=False) as (spark, steps):
        from bucketq.pipeline.run import run

        while True:
            try:
                with steps.told_plainly():
                    run(spark, {"url": given.url}, given.out, targets, steps.begin)
                    _write(given, spark, steps)
                print(f"{given.html} is written", flush=True)
            except BucketQError as error:
                if isinstance(error, StepError) and error.is_gone:
                    raise
                # What goes wrong now may go well the next time.
                print(f"bucketq: {error}", file=sys.stderr, flush=True)
            time.sleep(given.watch)


def _write(given: argparse.Namespace, spark: "SparkSession", steps: Steps) -> None:
    from bucketq.pipeline.lake import Lake
    from bucketq.pipeline.report.findings import find
    from bucketq.pipeline.report.page import page, write_report

    steps.begin("report")
    refresh_s = None if given.watch is None else max(1, round(given.watch))
    write_report(given.html, page(find(Lake(spark, given.out), given.days), refresh_s))


def _accept(given: argparse.Namespace) -> int:
    _check_lake(given.out)
    with _spark(given) as (spark, steps):
        from bucketq.pipeline.lake import Lake
        from bucketq.pipeline.quality import accept

        steps.begin("accept")
        checks = accept(Lake(spark, given.out))
    _tell(checks)
    return 0


def _replay(given: argparse.Namespace) -> int:
    _check_lake(given.out)
    with _spark(given) as (spark, steps):
        from bucketq.pipeline.lake import Lake
        from bucketq.pipeline.replay import chosen, replay

        steps.begin("replay")
        lake = Lake(spark, given.out)
        if given.dry_run:
            told = f"{chosen(lake, given.where, given.again).count()} jobs would be enqueued"
        else:
            told = f"{replay(lake, given.where, {'url': given.url}, given.again)} jobs were enqueued"
    print(told)
    return 0


def _check_queue(url: str) -> None:
    """Raise an error for a queue that is not there, before Spark is started for it."""
    from bucketq.spark.options import Options
    from bucketq.spark.tables import check_there, read_queue

    options = Options({"url": url})
    check_there(read_queue(options), options)


def _check_lake(out: str) -> None:
    if "://" not in out and not Path(out).is_dir():
        raise ConfigurationError(f"there is no lake {out}: run the pipeline first")


def _targets(given: argparse.Namespace) -> "Targets | None":
    from bucketq.pipeline.targets import read_targets

    return read_targets(given.targets) if given.targets else None


@contextmanager
def _spark(given: argparse.Namespace, has_bars: bool = True) -> Iterator[tuple["SparkSession", Steps]]:
    """Spark, and the steps that are shown while it works."""
    from bucketq.spark import local_session

    settings = dict(_setting(text) for text in given.conf)
    if given.verbose:
        settings.setdefault("spark.log.level", "INFO")
    with shown_progress() if has_bars else nullcontext(lambda *_: None) as on_progress:
        steps = Steps(on_progress, given.verbose)
        steps.begin("spark")
        with steps.told_plainly():
            session = local_session(given.master, settings=settings, is_quiet=not given.verbose)
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
