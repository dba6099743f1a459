"""Report: what the data pipeline found out about the finished jobs, as it wrote it.

The page is another program's, so it is shown in a frame that may run nothing and ask nobody.
"""

import re
from pathlib import Path

from nicegui import ui

from bucketq.dashboard.frame import Frame
from bucketq.dashboard.parts import empty, text
from bucketq.words import spell_size

# It travels to the browser as a whole.
_BYTES_MAX = 10_000_000
# The page is shown anew when the file has changed; a frame may not do so by itself.
_REFRESH = re.compile(r"<meta[^>]*http-equiv=.?refresh[^>]*>", re.IGNORECASE)


def draw_report(frame: Frame) -> None:
    """The report, and anew when its file has changed; or how to make one."""
    path = frame.report
    # The pipeline reads the storage itself; before brokers its name is not known here.
    storage = frame.house.url if frame.house.spending is not None else "s3://my-bucket/jobs.json"
    nothing = empty(
        "insights",
        "No report yet",
        "Bring the archive into a lake, have the report on it written, and start the dashboard with --report"
        " and the name of that file.",
        f"bucketq pipeline run --url {storage} --out lake"
        " && bucketq pipeline report --out lake --html report.html",
    )
    note = text("p", "", "bq-note")
    page = ui.element("iframe").classes("bq-report")
    page.props('sandbox="" title="Report of the data pipeline"')
    seen: list[tuple[float, int]] = []

    def show() -> None:
        stamp = _stamp(path)
        is_there = stamp is not None and stamp[1] <= _BYTES_MAX
        nothing.set_visibility(stamp is None)
        page.set_visibility(is_there)
        if path is not None and stamp is not None and not is_there:
            note.text = f"{path.name} has {spell_size(stamp[1])}, more than a page should: open it by itself."
        if path is not None and stamp is not None and is_there and seen != [stamp]:
            seen[:] = [stamp]
            note.text = f"From {path.name}."
            page.props["srcdoc"] = _REFRESH.sub("", path.read_text(encoding="utf-8", errors="replace"))

    frame.each_second(show)


def _stamp(path: Path | None) -> tuple[float, int] | None:
    """When the file was written, and how long it is; None if there is none."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_mtime, found.st_size)
