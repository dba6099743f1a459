"""`bucketq doctor`: is this storage a place for a queue, and is the queue well?"""

import signal
import sys
from typing import TYPE_CHECKING

from bucketq.cli.configuration import CURRENT
from bucketq.cli.opened import queue_url
from bucketq.cli.options import AsJson, At, Url
from bucketq.cli.told import tell_json
from bucketq.words import printable

if TYPE_CHECKING:
    from bucketq.doctor import Finding

_STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "bold red", "failed": "bold red"}
_LEVEL_WIDTH, _ABOUT_WIDTH = 9, 20


async def doctor(at: At = "", url: Url = "", as_json: AsJson = False) -> int:
    """Examine the storage and the queue, and say what to do.

    Tries credentials, conditional writes (also by several processes at once), latency, clocks and versions,
    on objects beside the queue, which are removed; then looks for a leader that is gone, stuck and dead jobs,
    and work that nobody does. It takes some seconds. Exit code 1: there is a problem; 2: something could not
    be looked at.
    """
    from bucketq.doctor import examine, exit_code

    # As Ctrl-C does: what was made to try things out is removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    levels = set()
    async for finding in examine(queue_url(at, url), settings=CURRENT.get().settings()):
        levels.add(finding.level)
        if as_json:
            tell_json(finding._asdict())
        else:
            _tell(finding)
    return exit_code(levels)


def _tell(finding: "Finding") -> None:
    """Tell a finding: on a terminal in columns, in a pipe as one line."""
    if not sys.stdout.isatty():
        level, about = f"{finding.level:{_LEVEL_WIDTH}}", f"{finding.about:{_ABOUT_WIDTH}}"
        advice = f" -> {finding.advice}" if finding.advice else ""
        print(printable(f"{level}{about}{finding.found}{advice}"), flush=True)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    row = Table.grid()
    row.add_column(width=_LEVEL_WIDTH, style=_STYLES[finding.level])
    row.add_column(width=_ABOUT_WIDTH)
    row.add_column()
    told = Text(printable(finding.found))
    if finding.advice:
        told.append(f"\n{printable(finding.advice)}", "italic")
    row.add_row(finding.level, finding.about, told)
    Console().print(row)
