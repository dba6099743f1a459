"""Quality: checks over the lake that can fail a run, and what was accepted all the same.

Looking takes Spark and is done when an ingestion has added something; judging takes what was seen
then, what queue.json counts now, and what somebody has accepted.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bucketq.errors import ConfigurationError
from bucketq.pipeline.bronze import BRONZE_SCHEMA, QUARANTINE
from bucketq.pipeline.lake import Lake
from bucketq.pipeline.lease import held
from bucketq.pipeline.silver import SILVER, read_silver

QUALITY, ACCEPTED = "quality", "accepted"
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
    # Finished jobs that are not in the archive yet.
    on_the_way: int = 0


class Wrong(msgspec.Struct, frozen=True):
    """How many are wrong, and some of them."""

    count: int = 0
    examples: list[str] = []


class Seen(msgspec.Struct, frozen=True):
    """What was seen in the lake when it had come to an ingestion."""

    ingest: int
    doubled: Wrong = Wrong()
    negative: Wrong = Wrong()
    quarantined: Wrong = Wrong()
    jobs_by_day: dict[str, int] = {}


class Accepted(msgspec.Struct, frozen=True):
    """What is wrong and known to be: how many of each, and by how much a day differs from queue.json."""

    doubled: int = 0
    negative: int = 0
    quarantined: int = 0
    differing: dict[str, int] = {}


class _Note(msgspec.Struct, frozen=True):
    checked_at: str
    version: int
    counted: dict[str, int] | None
    seen: Seen
    checks: list[Check]


def check(lake: Lake, counters: Counters) -> list[Check]:
    """Make every check, and keep what they found."""
    last, ingest = _last(lake), lake.note(SILVER).get("ingest", -1)
    seen = last.seen if last and last.seen.ingest == ingest else _look(lake, ingest)
    counted = None if counters.archived is None else dict(counters.archived)
    return _judge(lake, seen, counted, counters.version)


def accept(lake: Lake) -> list[Check]:
    """Take for granted what is wrong now: later runs fail only by something else.

    Raises ConfigurationError if nothing was checked yet, or somebody else is at work on the lake.
    """
    with held(lake):
        return _accept(lake)


def _accept(lake: Lake) -> list[Check]:
    last = _last(lake)
    if last is None:
        raise ConfigurationError(f"nothing was checked in {lake.root} yet: run the pipeline first")
    seen = last.seen
    differing = _accepted(lake).differing
    if last.counted is not None:
        differing = {
            day: seen.jobs_by_day.get(day, 0) - count
            for day, count in last.counted.items()
            if seen.jobs_by_day.get(day, 0) != count
        }
    counts = (seen.doubled.count, seen.negative.count, seen.quarantined.count)
    lake.write_note(ACCEPTED, msgspec.to_builtins(Accepted(*counts, differing)))
    return _judge(lake, seen, last.counted, last.version)


def last_checks(lake: Lake) -> list[Check]:
    """What the last run found."""
    last = _last(lake)
    return last.checks if last else []


def _last(lake: Lake) -> _Note | None:
    note = lake.note(QUALITY)
    return msgspec.convert(note, _Note) if note else None


def _accepted(lake: Lake) -> Accepted:
    return msgspec.convert(lake.note(ACCEPTED), Accepted)


def _look(lake: Lake, ingest: int) -> Seen:
    doubled = negative = quarantined = Wrong()
    jobs_by_day: dict[str, int] = {}

    def add(rows: DataFrame) -> None:
        for row in rows.groupBy("day").count().collect():
            jobs_by_day[str(row.day)] = jobs_by_day.get(str(row.day), 0) + row["count"]

    if lake.days(SILVER):
        jobs = read_silver(lake)
        # Within a day silver keeps one of each; a job may be in two days only by mistake.
        doubled = _wrong(jobs.groupBy("id").count().where("count > 1").select("id"))
        negative = _wrong(jobs.where("wait_s < 0 OR run_s < 0 OR total_s < 0").select("id"))
        add(jobs)
    if lake.exists(QUARANTINE):
        records = lake.read(QUARANTINE, schema=BRONZE_SCHEMA)
        line = F.coalesce("line", F.lit("?"))
        place = F.concat_ws("", "object", F.lit(", line "), line, F.lit(": "), "reason")
        quarantined = _wrong(records.orderBy(F.desc("ingest")).select(place))
        if quarantined.count:
            add(records.where("text IS NOT NULL").dropDuplicates(["object", "line", "text"]))
    return Seen(ingest, doubled, negative, quarantined, jobs_by_day)


def _wrong(rows: DataFrame) -> Wrong:
    """The first column tells which there are."""
    examples = [str(row[0]) for row in rows.limit(_EXAMPLES).collect()]
    return Wrong(len(examples) if len(examples) < _EXAMPLES else rows.count(), examples)


def _judge(lake: Lake, seen: Seen, counted: dict[str, int] | None, version: int) -> list[Check]:
    accepted = _accepted(lake)
    checks = [
        _none_of("every job once", seen.doubled, "ids are there twice", accepted.doubled),
        _none_of("no negative times", seen.negative, "jobs ended before they began", accepted.negative),
        _conserved(seen.jobs_by_day, counted, accepted.differing),
        _none_of(
            "nothing in quarantine", seen.quarantined, "records could not be read", accepted.quarantined
        ),
    ]
    now = datetime.now(UTC).isoformat(timespec="seconds")
    note = _Note(now, version, counted, seen, checks)
    lake.write_note(QUALITY, msgspec.to_builtins(note))
    return checks


def _none_of(name: str, wrong: Wrong, what: str, accepted: int) -> Check:
    """A check that passes if there are none, or no more than were accepted."""
    told, is_fine = f"{wrong.count} {what}", wrong.count <= accepted
    if wrong.count and is_fine:
        return Check(name, True, f"{told}, all accepted", [])
    return Check(name, is_fine, told, wrong.examples)


def _conserved(
    found: Mapping[str, int], counted: Mapping[str, int] | None, accepted: Mapping[str, int]
) -> Check:
    """Every job that queue.json counts as archived is in silver, or in quarantine, day by day."""
    name = "as many jobs as queue.json counts"
    if counted is None:
        return Check(name, None, "not checked: batches were on their way to the archive", [])
    differing = {day: count for day, count in sorted(counted.items()) if found.get(day, 0) != count}
    wrong = [
        f"{day}: {found.get(day, 0)} jobs, and queue.json counts {count}"
        for day, count in differing.items()
        if found.get(day, 0) - count != accepted.get(day)
    ]
    told = f"{sum(found.values())} jobs in the lake, {len(differing)} days differ"
    if differing and not wrong:
        told += ", all accepted"
    return Check(name, not wrong, told, wrong[:_EXAMPLES])
