"""The shelf remembers where the jobs of limit keys begin in a segment, also when jobs have left it."""

from datetime import UTC, datetime

from bucketq import Job
from bucketq.segment import key_of
from bucketq.segment_lines import SegmentWriter
from bucketq.shelf import Shelf

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_places_follow_the_jobs_that_left_and_come_back_when_that_is_undone():
    jobs = [
        Job(
            id=f"job-{number}", entrypoint="mail", created_at=NOW, sequence=number, limit_key="ab"[number % 2]
        )
        for number in range(1, 7)
    ]
    writer, shelf = SegmentWriter(), Shelf()
    for job in jobs:
        writer.add(job)
    segment, content = writer.finish("backlog/000000000001-00000000000000aa.json")
    shelf.put(segment, content)
    first = {"b": key_of(jobs[0]), "a": key_of(jobs[1])}
    assert shelf.limit_keys(segment) == first

    left = shelf.without(segment, jobs[1])
    shelf.note_first_of_key(left, "a", key_of(jobs[3]))
    assert shelf.limit_keys(left) == first | {"a": key_of(jobs[3])}
    shelf.note_first_of_key(left, "a", None)
    assert shelf.limit_keys(left) == {"b": key_of(jobs[0])}
    assert shelf.limit_keys(segment) == first, "the operation was undone"
