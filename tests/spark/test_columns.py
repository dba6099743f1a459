"""The columns of the tables: the same as what Python readers see, and typed."""

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketq.archive_lines import ArchiveLines, Damage
from bucketq.archive_selection import Selection
from bucketq.archived_job import FinishedStatus, decode_archived, encode_archived, with_batch
from bucketq.job import STALE, TIMED_OUT, Attempt, Job, Outcome
from bucketq.spark.archived_columns import UnreadableLinesError, archived, extra_fields
from bucketq.spark.columns import ARCHIVE, ATTEMPT, JOBS, LINES
from bucketq.spark.line_columns import as_they_are
from bucketq.spark.live_columns import live

NOW = datetime(2026, 2, 15, 10, tzinfo=UTC)

moments = st.datetimes(
    datetime(2020, 1, 1),  # noqa: DTZ001 (bounds have no zone)
    datetime(2040, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
texts = st.text(max_size=20)
json_payloads = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["json", "result", "batch", "x"]), inner)
    ),
    max_leaves=5,
).map(msgspec.json.encode)
attempts = st.builds(
    Attempt,
    claimed_at=moments,
    ended_at=moments,
    outcome=st.sampled_from(Outcome),
    worker=st.none() | texts,
    error=st.none() | texts,
)
jobs = st.builds(
    Job,
    id=st.uuids().map(str),
    entrypoint=st.text(min_size=1, max_size=10),
    payload=json_payloads | st.binary(max_size=20),
    priority=st.integers(-5, 5),
    created_at=moments,
    attempts=st.integers(1, 5),
    worker=st.none() | texts,
    history=st.lists(attempts, max_size=3).map(tuple),
)
stowed_jobs = st.builds(
    lambda job: msgspec.structs.replace(
        job, payload=b"", payload_object="payloads/000000000008-00000000000000aa", payload_size=70_000
    ),
    jobs,
)


def line_of(job, status=FinishedStatus.COMPLETED, error=None, result=b"", finished_at=NOW, claimed_at=NOW):
    return encode_archived(job, status, claimed_at, finished_at, error, result)


errors = st.none() | st.sampled_from([STALE, TIMED_OUT + "5 s"]) | texts
lines = st.builds(
    line_of,
    jobs | stowed_jobs,
    st.sampled_from(FinishedStatus),
    errors,
    st.just(b"") | json_payloads,
) | st.builds(
    # Nobody held these at their end.
    lambda job, status, error: line_of(job, status, error, claimed_at=None),
    jobs | stowed_jobs,
    st.sampled_from([FinishedStatus.EXPIRED, FinishedStatus.DEAD]),
    errors,
)


def is_json(payload):
    try:
        json.loads(payload.decode(), parse_constant=None)
        msgspec.json.decode(payload)
    except (ValueError, msgspec.DecodeError):
        return False
    return True


def expected(line):
    job = decode_archived(line)
    row = {name: getattr(job, name) for name in ARCHIVE.names if name not in ("payload_json", "result")}
    row["status"] = str(job.status)
    row["attempts"] = [
        {name: getattr(attempt, name) for name in ATTEMPT.names} | {"outcome": str(attempt.outcome)}
        for attempt in job.attempts
    ]
    row["payload"] = None if job.payload_object else job.payload
    row["payload_json"] = job.payload.decode() if is_json(job.payload) else None
    return row


@given(st.lists(lines, min_size=1, max_size=8), st.booleans(), st.booleans())
def test_columns_hold_what_the_lines_say(lines, is_compacted, is_formatted):
    written = [with_batch(line, 7) for line in lines] if is_compacted else lines
    if is_formatted:
        written = [msgspec.json.format(line, indent=1).replace(b"\n", b" ") for line in written]
    batch = archived(written, ARCHIVE.names, Selection())
    assert batch.schema == ARCHIVE
    for line, row in zip(lines, batch.to_pylist(), strict=True):
        result = row.pop("result")
        wanted = expected(line)
        if is_formatted:
            for key in ("payload", "payload_json"):
                if row["payload_json"] is not None:
                    row[key] = msgspec.json.decode(row[key])
                    wanted[key] = msgspec.json.decode(wanted[key])
        assert row == wanted
        assert (None if result is None else msgspec.json.decode(result)) == decode_archived(line).result


@given(st.lists(jobs | stowed_jobs, max_size=5))
def test_live_jobs_become_columns(jobs):
    batch = live(jobs, JOBS.names)
    assert batch.schema == JOBS
    for job, row in zip(jobs, batch.to_pylist(), strict=True):
        assert row["id"] == job.id
        assert row["status"] == "queued"
        assert row["payload"] == (None if job.payload_object else job.payload)
        assert (row["payload_json"] is not None) == is_json(job.payload)
        assert [attempt["error"] for attempt in row["attempts"]] == [one.error for one in job.history]


def test_only_the_columns_and_jobs_that_are_asked_for_are_made():
    def job(number):
        return Job(id=str(number), entrypoint=f"e{number % 2}", payload=b"[1]", attempts=1, created_at=NOW)

    hour = timedelta(hours=1)
    some = [line_of(job(number), finished_at=NOW + number * hour) for number in range(4)]
    some[3] = line_of(job(3), FinishedStatus.DEAD, "no", finished_at=NOW + 3 * hour)

    def ids(**wanted):
        return archived(some, ["id"], Selection(**wanted)).to_pydict()["id"]

    assert ids() == ["0", "1", "2", "3"]
    assert ids(since=NOW + hour) == ["1", "2", "3"]
    assert ids(until=NOW + hour) == ["0"]
    assert ids(entrypoint="e1") == ["1", "3"]
    assert ids(status=FinishedStatus.DEAD) == ["3"]
    assert ids(status=FinishedStatus.COMPLETED, entrypoint="e1", since=NOW) == ["1"]
    assert archived(some, ["result", "id"], Selection()).schema.names == ["result", "id"]


GOOD = line_of(Job(id="a", entrypoint="mail", attempts=1, created_at=NOW))


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"{",
        b"[]",
        GOOD[:40],
        GOOD + GOOD,
        GOOD.replace(b'"id":"a",', b""),
        GOOD.replace(b'"id":"a"', b'"id":7'),
        GOOD.replace(b'"v":1', b'"v":2'),
        GOOD.replace(b'"v":1', b'"v":1,"status":"done"'),
        GOOD.replace(b'"id":"a"', b'"id":"\xff"'),
        GOOD[:-1] + b',"payload":"!!!!"}',
        GOOD[:-1] + b',"payload":"abc"}',
        GOOD[:-1] + b',"json":{"a":}}',
        GOOD.replace(b'"created_at":"2026', b'"created_at":"soon 2026'),
    ],
)
def test_what_is_no_archived_job_is_refused(bad):
    assert archived([GOOD, GOOD], ["id"], Selection()).num_rows == 2
    with pytest.raises(UnreadableLinesError):
        archived([GOOD, bad, GOOD], ["id"], Selection())


def test_parts_of_a_line_may_stand_anywhere():
    moved = GOOD[:-1] + b',"json":{"a":1},"status":"dead","result":null,"error":"no","x":[{"json":1}]}'
    [row] = archived([moved], ["status", "error", "payload_json", "result"], Selection()).to_pylist()
    assert row == {"status": "dead", "error": "no", "payload_json": '{"a":1}', "result": None}
    assert extra_fields([GOOD, moved]).to_pylist() == [None, '{"x":[{"json":1}]}']


def test_json_that_cannot_stand_in_a_line_is_json_all_the_same():
    pretty = b' {\n "a": 1\n}\n'
    job = Job(id="a", entrypoint="mail", payload=pretty, attempts=1, created_at=NOW)
    for batch in (
        archived([line_of(job)], ["payload", "payload_json"], Selection()),
        live([job], ["payload", "payload_json"]),
    ):
        assert batch.to_pylist() == [{"payload": pretty, "payload_json": pretty.decode()}]


def test_lines_as_they_are_tell_their_place_and_what_is_wrong_with_them():
    good = line_of(Job(id="1", entrypoint="mail", created_at=NOW))
    name = "archive/2026-02-15T10/000000000003-000000000007.json"
    lines = ArchiveLines.of(name, [good, with_batch(good, 5), b'{"id": 1', b"\xff"])
    table = as_they_are(lines, [Damage(name, 9, "it ends too soon")], LINES.names)
    rows = [(row["line"], row["batch"], row["text"]) for row in table.to_pylist()]
    texts = [good.decode(), with_batch(good, 5).decode(), '{"id": 1', "\\xff", None]
    assert rows == list(zip((2, 3, 4, 5, 9), (7, 5, 7, 7, 7), texts, strict=True))
    reasons = table.column("reason").to_pylist()
    assert reasons[:2] == [None, None]
    assert all(reason.startswith("no archived job: ") for reason in reasons[2:4])
    assert reasons[4] == "it ends too soon"
