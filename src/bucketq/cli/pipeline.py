"""bucketq pipeline, bucketq replay: the data pipeline from the command line."""

import argparse
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bucketq.cli.progress import shown_progress
from bucketq.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = ("spark", "bronze", "silver", "gold", "quality")


def add_pipeline(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `pipeline run`, `pipeline report` and `replay` to the commands."""
    pipeline = commands.add_parser("pipeline", help="bring the archive into a lake, and report on it")
    steps = pipeline.add_subparsers(required=True, metavar="STEP")
    run = steps.add_parser("run", help="archive -> bronze -> silver -> gold; only what is new")
    _add_source(run)
    run.add_argument("--targets", type=Path, metavar="FILE", help="service levels, as a TOML file")
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
    report.add_argument("--targets", type=Path, metavar="FILE", help="service levels, for --watch")
    report.set_defaults(run=_report)
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
    from bucketq.pipeline.run import run
    from bucketq.pipeline.targets import read_targets

    targets = read_targets(given.targets)
    with shown_progress() as on_progress:

        def on_step(name: str) -> None:
            done = STEPS.index(name)
            for number, step in enumerate(STEPS[: done + 1]):
                on_progress(step, int(number < done), 1)

        on_step("spark")
        with _spark(given) as spark:
            outcome = run(spark, {"url": given.url}, given.out, targets, on_step)
    print(f"days made anew: {', '.join(outcome.days) or 'none'}")
    for one in outcome.checks:
        mark = {True: "yes", False: "NO", None: "not checked"}[one.passed]
        print(f"{one.name}: {mark} ({one.found})")
        for example in one.examples:
            print(f"    {example}")
    return 0 if outcome.is_sound else 1


def _report(given: argparse.Namespace) -> int:
    from bucketq.pipeline.lake import Lake
    from bucketq.pipeline.report.findings import find
    from bucketq.pipeline.report.page import page, write_report
    from bucketq.pipeline.run import run
    from bucketq.pipeline.targets import read_targets

    if given.watch is not None and not given.url:
        raise ConfigurationError("--watch runs the pipeline again and again, and needs --url")
    targets = read_targets(given.targets)
    with _spark(given) as spark:
        while True:
            if given.watch is not None:
                run(spark, {"url": given.url}, given.out, targets)
            refresh_s = None if given.watch is None else max(1, round(given.watch))
            write_report(given.html, page(find(Lake(spark, given.out), given.days), refresh_s))
            print(f"{given.html} is written", flush=True)
            if given.watch is None:
                return 0
            time.sleep(given.watch)


def _replay(given: argparse.Namespace) -> int:
    from bucketq.pipeline.lake import Lake
    from bucketq.pipeline.replay import chosen, replay

    with _spark(given) as spark:
        lake = Lake(spark, given.out)
        if given.dry_run:
            print(f"{chosen(lake, given.where, given.again).count()} jobs would be enqueued")
        else:
            print(f"{replay(lake, given.where, {'url': given.url}, given.again)} jobs were enqueued")
    return 0


@contextmanager
def _spark(given: argparse.Namespace) -> Iterator["SparkSession"]:
    from bucketq.spark import local_session

    settings = dict(_setting(text) for text in given.conf)
    if given.verbose:
        settings.setdefault("spark.log.level", "INFO")
    session = local_session(given.master, settings=settings, is_quiet=not given.verbose)
    try:
        yield session
    finally:
        session.stop()


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ConfigurationError(f"--conf takes KEY=VALUE, not {text!r}")
    return key, value
