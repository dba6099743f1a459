"""Document: queue.json as msgspec reads it."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw

from bucketq.batches import JobBatch
from bucketq.election import Leader
from bucketq.job import Count
from bucketq.jobline import StoredJob
from bucketq.kept_keys import KeptKey
from bucketq.ledger import StagedPart
from bucketq.limits import Limits
from bucketq.loads import LoadMark
from bucketq.rate_buckets import StoredBuckets
from bucketq.schedule import StoredSchedule
from bucketq.segment import Key, Segment
from bucketq.sessions import SessionMark
from bucketq.signatures import Signature
from bucketq.turns import TurnLine

FORMAT = 9
# Names of objects have room for twelve digits.
Version = Annotated[int, Meta(ge=0, lt=10**12)]
Day = Annotated[str, Meta(pattern=r"^\d{4}-[01]\d-[0-3]\d$")]


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What stands before all else."""

    format: Count = 0
    version: Version
    sequence: Count = 0
    enqueued_total: Count = 0
    completed_total: Count = 0
    dead_total: Count = 0
    cancelled_total: Count = 0
    writers: Mapping[str, Signature] = {}
    forgotten_version: Version = 0
    collected_version: Version = 0
    epoch: Count = 0


class StoredSegment(Segment, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A segment of the backlog, of any format so far."""

    # Before format 6 there were no turns in them.
    first: Any
    last: Any

    def segment(self) -> Segment:
        """The segment that it stands for."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return Segment(**fields | {"first": _key(self.first), "last": _key(self.last)})


def _key(stored: Any) -> Key:
    if isinstance(stored, list) and len(stored) == 2:
        stored = [stored[0], 0, stored[1]]
    key: Key = msgspec.convert(stored, Key)
    return key


class StoredBatch(JobBatch, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A batch, with its follower as a job's line spells it."""

    then: StoredJob | None = None

    def batch(self) -> JobBatch:
        """The batch that it stands for."""
        then = self.then and self.then.job()
        return JobBatch(total=self.total, left=self.left, failed=self.failed, then=then)


class Document(Header, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of it."""

    leader: Leader | None = None
    sessions: dict[str, SessionMark] = {}
    forgotten_sessions: Count = 0
    loads: dict[str, LoadMark] = {}
    kept_keys: dict[str, KeptKey] = {}
    batches: dict[str, StoredBatch] = {}
    schedules: list[StoredSchedule] = []
    limits: Limits = Limits()
    buckets: StoredBuckets = StoredBuckets()
    turns: dict[str, dict[int, TurnLine]] = {}
    archived: dict[Day, Count] = {}
    expired: dict[Day, Count] = {}
    expired_total: Count = 0
    sealed: dict[str, list[Raw]] = {}
    staged: dict[str, list[StagedPart]] = {}
    finished: list[Raw] = []
    segments: list[StoredSegment] = []
    jobs: list[StoredJob]
