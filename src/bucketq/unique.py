"""Unique keys: which job has a key, be it in queue.json or in a segment."""

from typing import NamedTuple

from bucketq.backlog import Backlog
from bucketq.fingerprint import fingerprint
from bucketq.job import Job
from bucketq.segment import Segment
from bucketq.segment_lines import Question
from bucketq.shelf import Shelf
from bucketq.table import JobTable


class Holder(NamedTuple):
    """A job, and the segment in which it stands, unless it is in queue.json itself."""

    job: Job
    segment: Segment | None = None


def holder_of(key: str, table: JobTable, backlog: Backlog, shelf: Shelf) -> Holder | None:
    """The job that waits or runs with a key, if there is one.

    Raises SegmentNeededError until the fingerprints of all segments with keys have been read,
    and then the segments that have this one.
    """
    if (job := table.with_key(key)) is not None:
        return Holder(job)
    if keyed := backlog.keyed():
        for segment in shelf.keys.may_hold(keyed, fingerprint(key)):
            if (job := shelf.search(segment, Question(key, "key"))) is not None:
                return Holder(job, segment)
    return None
