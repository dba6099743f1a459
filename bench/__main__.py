"""python -m bench: measure bucketq, beside jqueue where that can be run.

    python -m bench                              everything, about half an hour
    python -m bench --only bound requests        some parts
    python -m bench --only cost                  counts what docs/cost.md says, and writes its tables
    python -m bench --quick                      everything in seconds: it works, the numbers mean nothing
    python -m bench --profile memory/enqueue-1   where the time of one workload goes
    python -m bench --floor                      what a durable write costs on this disk by itself

docs/benchmarks.md says what each part means and what was measured.
"""

import argparse
import asyncio
import json
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from bench import bill
from bench.bound import TARGETS, approach
from bench.contest import compare
from bench.floor import floor_by_size
from bench.hotspots import print_profile, profile_names
from bench.peer import JQUEUE, PYTHON_MIN, install_peer, installed_peer, version_of
from bench.report import Report
from bench.requests import count_all
from bench.side import ROOT, Side
from bench.suite import SUITE


class Measure(NamedTuple):
    """A part that is a table of findings: what it is called, and the module whose `measure` makes them.

    `measure(folder, amount)` gets an empty folder, and an `Amount` of its module.
    """

    key: str
    about: str
    title: str
    module: str


MEASURES = (
    Measure("deep", "deep backlogs", "Deep backlogs, local file", "deep"),
    Measure("archive", "archive", "The archive, local file", "archiving"),
    Measure("brokers", "brokers", "Brokers", "brokers"),
    Measure("rivals", "processes on one object", "Processes on one object, S3 60 ms away", "rivals"),
    Measure("rest", "REST", "REST, local file", "rest"),
    Measure("life", "the life of a job", "The life of a job, local file", "life"),
    Measure("work", "workers", "Workers, local file", "working"),
    Measure("traces", "traces", "Traces, in memory", "traces"),
    Measure("cli", "the command line", "The command line, local file", "commands"),
    Measure("dashboard", "the dashboard", "The dashboard, local file", "dashboards"),
    Measure("spark", "spark", "Spark, local file", "sparking"),
    Measure("pipeline", "pipeline", "The data pipeline, local file", "piping"),
    Measure("fleet", "fleet", "Jobs on Spark's executors, local file", "fleet"),
)
PARTS = (
    "requests",
    "cost",
    "bound",
    "floor",
    *(one.key for one in MEASURES),
    *(series.key for series in SUITE),
)


def main() -> None:
    """Do what the command line says."""
    options = _parse()
    # Beside the code, not in /tmp, which is often kept in memory, where fsync costs nothing.
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    if options.profile:
        print_profile(options.profile, folder)
        return
    report = Report()
    if options.quick:
        report.note("Quick: everything works, but it is over too soon for its speed to mean anything.")
    parts = {"floor"} if options.floor else set(options.only or PARTS)
    if "requests" in parts:
        report.say("requests")
        report.add_requests(asyncio.run(count_all(rounds=5 if options.quick else 50)))
    if "cost" in parts:
        _measure_cost(report, options.quick)
    if "bound" in parts:
        _measure_bound(report, options.quick)
    if "floor" in parts:
        report.say("floor")
        report.add_floor(floor_by_size(folder / "floor.json", writes=3 if options.quick else 200))
        (folder / "floor.json").unlink()
    for one in MEASURES:
        if one.key in parts:
            _measure(one, report, folder, options.quick)
    if not parts.isdisjoint(series.key for series in SUITE):
        _measure_suite(report, parts, options)
    if options.json:
        options.json.write_text(json.dumps(report.figures, indent=2) + "\n")


def _parse() -> argparse.Namespace:
    about, _, examples = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=about,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="few operations of everything; installs nothing")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--floor", action="store_true", help="the same as --only floor")
    parser.add_argument("--repeat", type=int, help="how often each workload is played")
    parser.add_argument("--alone", action="store_true", help="without jqueue")
    names = profile_names()
    parser.add_argument("--profile", choices=names, metavar="WORKLOAD", help=f"of {', '.join(names)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to a file too")
    parser.add_argument("--folder", type=Path, default=ROOT / ".tools" / "bench", help="where the files go")
    return parser.parse_args()


def _measure_cost(report: Report, quick: bool) -> None:
    report.say("cost")
    tables = bill.measure_little() if quick else bill.measure()
    report.add_tables("cost", tables)
    if not quick:
        bill.write_page(tables)
        report.note(f"These tables are in {bill.PAGE.relative_to(ROOT)} now.")


def _measure_bound(report: Report, quick: bool) -> None:
    latency_s, rounds, repeat = (0.01, 3, 1) if quick else (0.1, 20, 3)
    found = []
    for callers in TARGETS:
        report.say(f"bound: {callers} callers")
        found.append(asyncio.run(approach(callers, latency_s=latency_s, rounds=rounds, repeat=repeat)))
    report.add_bound(found)


def _measure(one: Measure, report: Report, folder: Path, quick: bool) -> None:
    report.say(one.about)
    # Only now: not everybody who measures something has Spark and Java, or OpenTelemetry.
    module = import_module(f"bench.{one.module}")
    amount = module.Amount().shortened() if quick else module.Amount()
    with TemporaryDirectory(dir=folder, prefix=f"{one.key}-", ignore_cleanup_errors=True) as place:
        report.add_findings(one.key, one.title, module.measure(Path(place), amount))


def _measure_suite(report: Report, parts: set[str], options: argparse.Namespace) -> None:
    with ExitStack() as running:
        bucketq = running.enter_context(Side("bucketq", sys.executable))
        peer = _peer(report, options)
        jqueue = running.enter_context(Side("jqueue", peer)) if peer else None
        for series in SUITE:
            if series.key in parts:
                chosen = series.shortened() if options.quick else series
                chosen = chosen.repeated(options.repeat) if options.repeat else chosen
                figures = compare(chosen, bucketq, jqueue, options.folder, report.say)
                report.add_series(chosen, figures)


def _peer(report: Report, options: argparse.Namespace) -> str | None:
    if options.alone:
        return None
    report.say(f"looking for {JQUEUE}")
    peer = installed_peer() if options.quick else install_peer()
    if peer:
        report.figures["jqueue"] = JQUEUE
        report.figures["jqueue_python"] = version_of(peer)
    elif options.quick:
        report.note(f"{JQUEUE} is not installed: bucketq alone. `python -m bench` installs it.")
    else:
        wanted = ".".join(map(str, PYTHON_MIN))
        report.note(f"{JQUEUE} needs Python {wanted} or newer, and none was found: bucketq alone.")
    return peer


if __name__ == "__main__":
    main()
