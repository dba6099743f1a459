"""python -m bench.peers: the same jobs through bucketq and its peers, and the same kills.

    python -m bench.peers                        everything, about twenty minutes; writes docs/comparison.md
    python -m bench.peers --only saq pgqueuer    those whose name has one of these words
    python -m bench.peers --quick                bucketq alone, in seconds: it works, the numbers mean nothing
    python -m bench.peers --docs                 docs/comparison.md again, from what the last run has measured

Servers are started on free ports of loopback and in a folder of their own, and none is left.
"""

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.peers import kills, speed
from bench.peers.packages import MissingError, need_server, python_with
from bench.peers.process import kill_all
from bench.peers.report import print_results, write_docs
from bench.peers.results import Results, describe
from bench.peers.roster import FORGETFUL, QUICK, ROSTER, Entry
from bench.peers.stage import Stage
from bench.peers.toll import Toll
from bench.side import ROOT

# Kills mostly wait. Their times move a little when others work, and their counts do not.
_KILLS_AT_ONCE = 4
# A server that was slow to start, once in half an hour, should not cost the whole run.
_ATTEMPTS = 2


def main() -> None:
    """Do what the command line says."""
    options = _parse()
    if options.docs:
        write_docs(Results.read(options.out))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    results = Results()
    entries, pythons = _ready(_chosen(options), results)
    results.about = describe(entries, pythons)
    # Not /tmp, which is often kept in memory, where fsync costs nothing.
    with tempfile.TemporaryDirectory(prefix="bucketq-peers-", dir=options.folder) as folder:
        # PostgreSQL runs as somebody else.
        Path(folder).chmod(0o755)
        try:
            _measure(entries, pythons, Path(folder), options.quick, results)
        finally:
            kill_all()
    print_results(results)
    results.write(options.out)
    is_whole = not (options.only or options.quick or results.failures)
    if is_whole:
        write_docs(results)
    elif not options.quick:
        _say("not everything was measured: docs/comparison.md stays as it is; --docs writes it all the same")
    if results.failures and (os.environ.get("CI") == "true" or not results.speeds):
        sys.exit(1)


def _parse() -> argparse.Namespace:
    about, _, examples = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=about,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(entry.key for entry in ROSTER)
    parser.add_argument("--only", nargs="+", metavar="WORD", help=f"of {names}")
    parser.add_argument("--quick", action="store_true", help="little of everything, once; installs nothing")
    parser.add_argument("--docs", action="store_true", help="write the docs from what was measured before")
    parser.add_argument(
        "--out", type=Path, default=ROOT / ".tools" / "peers.json", help="all figures, as JSON"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("/var/tmp"), help="where the servers keep their data"
    )
    return parser.parse_args()


def _chosen(options: argparse.Namespace) -> Sequence[Entry]:
    if options.only:
        words = options.only
        found = [entry for entry in (*ROSTER, FORGETFUL) if any(word in entry.key for word in words)]
        if not found:
            sys.exit(f"nobody's name has one of these words: {', '.join(words)}")
        return found
    return [entry for entry in ROSTER if not options.quick or entry.key in QUICK]


def _ready(entries: Sequence[Entry], results: Results) -> tuple[list[Entry], dict[str, str]]:
    """Those that can take part here, and the Python of each."""
    ready, pythons = [], dict[str, str]()
    for entry in entries:
        try:
            need_server(entry.needs)
            if entry.python not in pythons:
                _say(f"looking for the Python of {entry.key}")
                pythons[entry.python] = python_with(entry.python)
        except MissingError as error:
            results.failures[entry.key] = f"left out: {error}"
        else:
            ready.append(entry)
    return ready, pythons


def _measure(
    entries: Sequence[Entry], pythons: Mapping[str, str], folder: Path, quick: bool, results: Results
) -> None:
    amount = speed.Amount().shortened() if quick else speed.Amount()
    plan = kills.Plan().shortened() if quick else kills.Plan()
    turns: dict[str, list[speed.Turn]] = {}

    def play(entry: Entry, what: str, deed: Callable[[Stage], None]) -> None:
        for attempt in range(_ATTEMPTS):
            home = folder / f"{entry.key}-{what}-{attempt}"
            home.mkdir()
            try:
                with Stage(entry, pythons, home) as stage:
                    deed(stage)
            except Exception as error:
                # The others go on.
                reason = f"{what}: {type(error).__name__}: {error}"
                _say(f"{entry.key}: {reason}")
            else:
                _say(f"{entry.key}: {what}")
                return
        results.failures[entry.key] = reason

    # They take turns, so that whatever else the machine does slows all of them.
    for turn in range(1, amount.turns + 1):
        for entry in entries:
            measured = turns.setdefault(entry.key, [])
            play(entry, f"speed {turn}", lambda stage, to=measured: to.append(speed.measure(stage, amount)))
    results.speeds = {key: speed.Speed.of(measured) for key, measured in turns.items() if measured}

    def kill(entry: Entry, what: str, by: Callable[[Stage, kills.Plan], Toll], to: dict[str, Toll]) -> None:
        play(entry, what, lambda stage: to.__setitem__(entry.key, by(stage, plan)))

    with ThreadPoolExecutor(_KILLS_AT_ONCE) as pool:
        done = [
            pool.submit(kill, entry, what, by, to)
            for entry in entries
            for what, by, to in (
                ("worker kills", kills.kill_workers, results.worker_kills),
                ("server kills", kills.kill_servers, results.server_kills),
            )
            if not entry.in_process
        ]
        try:
            for one in done:
                one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            kill_all()
            raise


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
