"""Shelf: the contents of segments that were read lately, within reach of the state machine.

And those of staged parts, whose jobs are finished.
"""

from collections.abc import Iterable, Iterator

from bucketq.backlog import SegmentNeededError
from bucketq.job import Job
from bucketq.key_shelf import KeyShelf
from bucketq.ledger import StagedPart
from bucketq.segment import Key, Needed, Segment, SegmentKeys, lost
from bucketq.segment_lines import SegmentLines

_CAPACITY_BYTES = 64 * 1024 * 1024
_ABSENT_MAX = 10_000


class Shelf:
    """Holds segments up to a size; the one that was not used for longest leaves first.

    Asked for a segment that it does not hold it raises SegmentNeededError, and
    CorruptStateError for one that is known to be gone from the storage.
    """

    def __init__(self, capacity_bytes: int = _CAPACITY_BYTES) -> None:
        self._capacity_bytes = capacity_bytes
        self._size = 0
        self._held: dict[str, SegmentLines | list[bytes]] = {}
        self._sizes: dict[str, int] = {}
        self._gone: set[str] = set()
        self.keys = KeyShelf()
        # Which ids were looked for in vain, by segment: those never come into it.
        self._absent: dict[str, set[str]] = {}

    def __contains__(self, segment: Needed) -> bool:
        return segment in self.keys if isinstance(segment, SegmentKeys) else segment.name in self._held

    @property
    def is_full(self) -> bool:
        """Whether one more may push another out."""
        return self._size >= self._capacity_bytes * 7 // 8

    def put(self, segment: Needed, content: bytes) -> None:
        """Take in what was read. Raises CorruptStateError if it is not whole."""
        if isinstance(segment, SegmentKeys):
            self.keys.put(segment, content)
            return
        self._put_away(segment.name)
        lines = segment.lines(content) if isinstance(segment, StagedPart) else SegmentLines(segment, content)
        self._held[segment.name] = lines
        self._sizes[segment.name] = len(content)
        self._size += len(content)
        while self._size > self._capacity_bytes and len(self._held) > 1:
            self._put_away(next(iter(self._held)))

    def remove(self, name: str) -> None:
        """Forget a segment that is not needed any more."""
        self._put_away(name)
        self.keys.remove(name)

    def keep_only(self, segments: Iterable[Segment], parts: Iterable[StagedPart]) -> None:
        """Forget all but these."""
        segments = list(segments)
        self.keys.keep_only(segments)
        kept = {*(segment.name for segment in segments), *(part.name for part in parts)}
        for name in self._held.keys() - kept:
            self.remove(name)
        self._gone &= kept
        for name in self._absent.keys() - kept:
            del self._absent[name]

    def miss(self, segment: Needed) -> None:
        """The storage has no such object; whoever asks next is told so, once.

        If another process has used the segment up, nobody asks any more once the cached
        state is brought up to date.
        """
        if isinstance(segment, SegmentKeys):
            self.keys.miss(segment)
        else:
            self._gone.add(segment.name)

    def jobs(self, segment: Segment) -> Iterator[Job]:
        """The jobs that are still in the segment, in order."""
        return self._lines(segment).jobs(segment)

    def take(
        self, segment: Segment, jobs_max: int, bytes_max: int, until: Key | None
    ) -> tuple[list[Job], Segment | None]:
        """The next jobs of the segment, and what is left of it then."""
        return self._lines(segment).take(segment, jobs_max, bytes_max, until)

    def find(self, segment: Segment, job_id: str) -> Job | None:
        """The job with this id, if it is still in the segment."""
        absent = self._absent.setdefault(segment.name, set())
        if job_id in absent:
            return None
        lines = self._lines(segment)
        if not lines.mentions(job_id) and len(absent) < _ABSENT_MAX:
            absent.add(job_id)
        return lines.find(segment, job_id)

    def find_key(self, segment: Segment, key: str) -> Job | None:
        """The job with this unique key, if it is still in the segment."""
        return self._lines(segment).find_key(segment, key)

    def without(self, segment: Segment, gone: Job) -> Segment | None:
        """What is left of the segment when a job leaves it."""
        return self._lines(segment).without(segment, gone)

    def lines(self, part: StagedPart) -> list[bytes]:
        """The lines of a staged part."""
        lines = self._taken(part)
        assert isinstance(lines, list)
        return lines

    def _put_away(self, name: str) -> None:
        if self._held.pop(name, None) is not None:
            self._size -= self._sizes.pop(name)

    def _lines(self, segment: Segment) -> SegmentLines:
        lines = self._taken(segment)
        assert isinstance(lines, SegmentLines)
        return lines

    def _taken(self, needed: Segment | StagedPart) -> SegmentLines | list[bytes]:
        lines = self._held.pop(needed.name, None)
        if lines is None:
            if needed.name in self._gone:
                self._gone.remove(needed.name)
                gone = "there is no such object"
                raise needed.lost(gone) if isinstance(needed, StagedPart) else lost(needed, gone)
            raise SegmentNeededError([needed])
        self._held[needed.name] = lines
        return lines
