"""Quality: checks over the lake that can fail a run, and what they found."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bucketq.pipeline.bronze import QUARANTINE
from bucketq.pipeline.lake import Lake
from bucketq.pipeline.silver import SILVER

QUALITY = "quality"
_EXAMPLES = 5


class Check(NamedTuple):
    """One check: whether it passed (None if it could not be made), and what was found."""

    name: str
    passed: bool | None
    found: str
    examples: list[str]


class Counters(NamedTuple):
    """What queue.json counts: archived jobs by day, if nothing is on its way just now."""

    version: int
    archived: Mapping[str, int] | None


def check(lake: Lake, counters: Counters) -> list[Check]:
    """Make every check, and keep what they found."""
    checks = [_unique(lake), _times(lake), _conserved(lake, counters), _quarantined(lake)]
    lake.write_note(
        QUALITY,
        {
            "checked_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "version": counters.version,
            "checks": [one._asdict() for one in checks],
        },
    )
    return checks


def last_checks(lake: Lake) -> list[Check]:
    """What the last run found."""
    return [Check(**one) for one in lake.note(QUALITY).get("checks", [])]


def _unique(lake: Lake) -> Check:
    """Within a day silver keeps one of each; a job may be in two days only by mistake."""
    name = "every job once"
    if not lake.days(SILVER):
        return Check(name, True, "no jobs yet", [])
    doubled = lake.read(SILVER).groupBy("id").count().where("count > 1")
    return _none_of(name, doubled.select("id"), "ids are there twice")


def _times(lake: Lake) -> Check:
    name = "no negative times"
    if not lake.days(SILVER):
        return Check(name, True, "no jobs yet", [])
    wrong = lake.read(SILVER).where("wait_s < 0 OR run_s < 0 OR total_s < 0")
    return _none_of(name, wrong.select("id"), "jobs ended before they began")


def _none_of(name: str, wrong: DataFrame, what: str) -> Check:
    """A check that passes if there is no such row; the first column tells which there are."""
    examples = [str(row[0]) for row in wrong.limit(_EXAMPLES).collect()]
    count = wrong.count() if examples else 0
    return Check(name, not count, f"{count} {what}", examples)


def _conserved(lake: Lake, counters: Counters) -> Check:
    """Every job that queue.json counts as archived is in silver, or in quarantine, day by day."""
    name = "as many jobs as queue.json counts"
    if counters.archived is None:
        return Check(name, None, "not checked: batches were on their way to the archive", [])
    found: dict[str, int] = {}
    for table, condition in ((SILVER, "true"), (QUARANTINE, "text IS NOT NULL")):
        if lake.days(table) or (table == QUARANTINE and lake.exists(table)):
            rows = lake.read(table).where(condition)
            if table == QUARANTINE:
                rows = rows.dropDuplicates(["object", "line", "text"])
            for row in rows.groupBy("day").count().collect():
                found[str(row.day)] = found.get(str(row.day), 0) + row["count"]
    wrong = [
        f"{day}: {found.get(day, 0)} jobs, and queue.json counts {count}"
        for day, count in sorted(counters.archived.items())
        if found.get(day, 0) != count
    ]
    total = sum(found.values())
    return Check(name, not wrong, f"{total} jobs in the lake, {len(wrong)} days differ", wrong[:_EXAMPLES])


def _quarantined(lake: Lake) -> Check:
    name = "nothing in quarantine"
    if not lake.exists(QUARANTINE):
        return Check(name, True, "no jobs yet", [])
    place = F.concat_ws("", "object", F.lit(", line "), F.coalesce("line", F.lit("?")), F.lit(": "), "reason")
    return _none_of(name, lake.read(QUARANTINE).select(place), "records could not be read")
