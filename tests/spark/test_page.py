"""The page of the report, from findings made by hand: no Spark is started."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import Row

from bucketq.errors import ConfigurationError
from bucketq.pipeline.quality import Check
from bucketq.pipeline.report.findings import Findings, step_of
from bucketq.pipeline.report.page import page, write_report

BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
STEPS = {"minute": timedelta(minutes=1), "hour": HOUR, "day": DAY}


def activity(start):
    times = {f"{what}_p{level}_s": float(level) for what in ("wait", "run") for level in (50, 95, 99)}
    counts = {"enqueued": 12, "finished": 10, "failed": 1, "retried": 2}
    return Row(start=start, concurrency=2.5, **counts, **times)


def found(length):
    step = step_of(length)
    return Findings(
        url="s3://bucket/jobs.json",
        since=BEGIN,
        until=BEGIN + length,
        step=step,
        steps=[activity(BEGIN + number * STEPS[step]) for number in range(length // STEPS[step])],
        hours=[activity(BEGIN + number * HOUR) for number in range(length // HOUR)],
        total=Row(enqueued=120, finished=100, failed=3, retried=9, busy_s=7200.0),
        talkers=[Row(entrypoint="*", enqueued=1, finished=1, failed=0, retried=0, busy_s=2.0)],
        errors=[],
        classes=[],
        slowest=[],
        slo=[],
        unusual=[
            Row(day="2025-03-01", entrypoint=None, unusual=["finished"], finished=0, week_over_week=-1.0)
        ],
        checks=[Check("every job once", True, "0 ids are there twice", [])],
    )


@pytest.mark.parametrize(
    ("length", "step", "rows"), [(5 * HOUR, "minute", 1), (20 * DAY, "hour", 20), (365 * DAY, "day", 7)]
)
def test_a_page_of_any_length_stays_small(length, step, rows):
    text = page(found(length))
    assert f"Jobs, by the {step}" in text
    assert len(text) < 1_000_000
    heat_map = text[text.index("hour (UTC)") :]
    heat_map = heat_map[: heat_map.index("</svg>")]
    assert heat_map.count("<rect") == rows * 24


def test_weekdays_of_a_long_time_are_added_up():
    text = page(found(365 * DAY))
    # There are 53 Wednesdays in this year, and 52 of the others.
    assert re.findall(r"<title>(Wed|Thu) 07: (\d+)</title>", text) == [("Wed", "530"), ("Thu", "520")]


def test_a_page_that_cannot_be_written_is_told_plainly(tmp_path):
    with pytest.raises(ConfigurationError, match=r"cannot be written to .*page\.html: No such file"):
        write_report(tmp_path / "nowhere" / "page.html", "")


def test_a_link_in_the_place_of_the_unfinished_report_is_not_followed(tmp_path):
    victim, report = tmp_path / "victim", tmp_path / "page.html"
    victim.write_text("secret")
    (tmp_path / ".page.html").symlink_to(victim)
    write_report(report, "the report")
    assert (victim.read_text(), report.read_text()) == ("secret", "the report")
    assert not report.is_symlink()


def test_rows_of_all_entrypoints_are_told_as_such():
    assert "<td>all</td>" in page(found(DAY))
