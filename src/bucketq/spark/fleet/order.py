"""Order: what a task of Spark's is to do, and what it tells when it is through. All of it is pickled.

driver ── Order: the kit, and jobs or a slice of a segment ──▶ executor
driver ◀── Done | SliceDone | Unready | Lost ─────────────────────┘
"""

from typing import NamedTuple

from bucketq.app.outcome import Outcome
from bucketq.job import Job
from bucketq.ledger import StagedPart
from bucketq.segment_claim import SegmentClaim


class Kit(NamedTuple):
    """What an executor needs for any order of a fleet."""

    # See `shipment`.
    app: bytes
    entrypoints: tuple[str, ...]
    # How many async handlers, and how many plain ones, run at the same time in a task.
    concurrency: int
    threads: int
    # Where a table of the results is written, if anywhere.
    results: str | None = None


class Slice(NamedTuple):
    """Some jobs of a segment that was claimed as a whole, by their places in it."""

    claim: SegmentClaim
    places: range


Work = tuple[Job, ...] | Slice


class Order(NamedTuple):
    """What one task is to do; without work it only gets ready."""

    kit: Kit
    work: Work = ()


class Done(NamedTuple):
    """How each job of the order ended; None for one that was not begun."""

    outcomes: list[Outcome | None]
    took_s: float


class SliceDone(NamedTuple):
    """How the jobs of a slice ended, of which the first ones were begun.

    Those that are simply completed are in staged objects; the others come by themselves.
    """

    staged: tuple[StagedPart, ...]
    ended: list[tuple[Job, Outcome]]
    begun: int
    took_s: float


class Unready(NamedTuple):
    """The app cannot run there, or what it has done cannot be told: nothing came of the work."""

    error: str


class Lost(NamedTuple):
    """The task came to no end, and nobody knows how far it got."""

    error: str = "its executor, or its process, died"


Report = Done | SliceDone | Unready | Lost
