"""python -m bench: measure bucketq, beside jqueue where that can be run.

    python -m bench                              everything, about half an hour
    python -m bench --only bound requests        some parts
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
from pathlib import Path

from bench import archiving, brokers, commands, deep, life, rest, working
from bench.bound import TARGETS, approach
from bench.contest import compare
from bench.floor import floor_by_size
from bench.hotspots import print_profile, profile_names
from bench.peer import JQUEUE, PYTHON_MIN, install_peer, installed_peer, version_of
from bench.report import Report
from bench.requests import count_all
from bench.side import ROOT, Side
from bench.suite import SUITE

PARTS = (
    "requests",
    "bound",
    "floor",
    "deep",
    "archive",
    "brokers",
    "rest",
    "life",
    "work",
    "traces",
    "cli",
    "dashboard",
    "spark",
    "pipeline",
    "fleet",
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
    if "bound" in parts:
        _measure_bound(report, options.quick)
    if "floor" in parts:
        report.say("floor")
        report.add_floor(floor_by_size(folder / "floor.json", writes=3 if options.quick else 200))
        (folder / "floor.json").unlink()
    if "deep" in parts:
        report.say("deep backlogs")
        depths = deep.Depths().shortened() if options.quick else deep.Depths()
        report.add_findings("deep", "Deep backlogs, local file", deep.measure(folder, depths))
    if "archive" in parts:
        report.say("archive")
        amount = archiving.Amount().shortened() if options.quick else archiving.Amount()
        report.add_findings("archive", "The archive, local file", archiving.measure(folder, amount))
    if "brokers" in parts:
        report.say("brokers")
        size = brokers.Amount().shortened() if options.quick else brokers.Amount()
        report.add_findings("brokers", "Brokers", brokers.measure(folder, size))
    if "rest" in parts:
        report.say("REST")
        called = rest.Amount().shortened() if options.quick else rest.Amount()
        report.add_findings("rest", "REST, local file", rest.measure(folder, called))
    if "life" in parts:
        report.say("the life of a job")
        measured = life.Amount().shortened() if options.quick else life.Amount()
        report.add_findings("life", "The life of a job, local file", life.measure(folder, measured))
    if "work" in parts:
        report.say("workers")
        worked = working.Amount().shortened() if options.quick else working.Amount()
        report.add_findings("work", "Workers, local file", working.measure(folder, worked))
    if "traces" in parts:
        _measure_traces(report, options.quick)
    if "cli" in parts:
        report.say("the command line")
        looked = commands.Amount().shortened() if options.quick else commands.Amount()
        report.add_findings("cli", "The command line, local file", commands.measure(folder, looked))
    if "dashboard" in parts:
        _measure_dashboards(report, folder, options.quick)
    if "spark" in parts:
        _measure_spark(report, folder, options.quick)
    if "pipeline" in parts:
        _measure_pipeline(report, folder, options.quick)
    if "fleet" in parts:
        _measure_fleet(report, folder, options.quick)
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


def _measure_bound(report: Report, quick: bool) -> None:
    latency_s, rounds, repeat = (0.01, 3, 1) if quick else (0.1, 20, 3)
    found = []
    for callers in TARGETS:
        report.say(f"bound: {callers} callers")
        found.append(asyncio.run(approach(callers, latency_s=latency_s, rounds=rounds, repeat=repeat)))
    report.add_bound(found)


def _measure_dashboards(report: Report, folder: Path, quick: bool) -> None:
    from bench import dashboards

    report.say("the dashboard")
    amount = dashboards.Amount().shortened() if quick else dashboards.Amount()
    report.add_findings("dashboard", "The dashboard, local file", dashboards.measure(folder, amount))


def _measure_traces(report: Report, quick: bool) -> None:
    # Not everybody who measures something has OpenTelemetry.
    from bench import traces

    report.say("traces")
    amount = traces.Amount().shortened() if quick else traces.Amount()
    report.add_findings("traces", "Traces, in memory", traces.measure(amount))


def _measure_spark(report: Report, folder: Path, quick: bool) -> None:
    # Not everybody who measures something has Spark and Java.
    from bench import sparking

    report.say("spark")
    amount = sparking.Amount().shortened() if quick else sparking.Amount()
    report.add_findings("spark", "Spark, local file", sparking.measure(folder, amount))


def _measure_pipeline(report: Report, folder: Path, quick: bool) -> None:
    from bench import piping

    report.say("pipeline")
    amount = piping.Amount().shortened() if quick else piping.Amount()
    report.add_findings("pipeline", "The data pipeline, local file", piping.measure(folder, amount))


def _measure_fleet(report: Report, folder: Path, quick: bool) -> None:
    from bench import fleet

    report.say("fleet")
    amount = fleet.Amount().shortened() if quick else fleet.Amount()
    report.add_findings("fleet", "Jobs on Spark's executors, local file", fleet.measure(folder, amount))


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
