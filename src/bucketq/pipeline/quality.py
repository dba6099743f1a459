"""Quality: checks over the lake that can fail a run, and what they found."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

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
    """Within a day, and a file, silver keeps one of each; a job may be in two days only by mistake."""
    if not lake.exists(SILVER):
        return Check("every job once", True, "no jobs yet", [])
    doubled = lake.read(SILVER).groupBy("id").count().where("count > 1").limit(1000).collect()
    examples = [row.id for row in doubled[:_EXAMPLES]]
    return Check("every job once", not doubled, f"{len(doubled)} ids are there twice", examples)


def _times(lake: Lake) -> Check:
    if not lake.exists(SILVER):
        return Check("no negative times", True, "no jobs yet", [])
    wrong = (
        lake.read(SILVER).where("wait_s < 0 OR run_s < 0 OR total_s < 0").select("id").limit(1000).collect()
    )
    examples = [row.id for row in wrong[:_EXAMPLES]]
    return Check("no negative times", not wrong, f"{len(wrong)} jobs ended before they began", examples)


def _conserved(lake: Lake, counters: Counters) -> Check:
    """Every job that queue.json counts as archived is in silver, or in quarantine."""
    name = "as many jobs as queue.json counts"
    if counters.archived is None:
        return Check(name, None, "not checked: batches were on their way to the archive", [])
    found: dict[str, int] = {}
    for table, condition in ((SILVER, "true"), (QUARANTINE, "text IS NOT NULL")):
        if lake.exists(table):
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
    damaged: list[Any] = lake.read(QUARANTINE).limit(1000).collect()
    examples = [f"{row.object}, line {row.line}: {row.reason}" for row in damaged[:_EXAMPLES]]
    return Check(name, not damaged, f"{len(damaged)} records could not be read", examples)
