"""KeyShelf: the fingerprints of the unique keys in segments, within reach of the state machine."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable

from bucketq.backlog import SegmentNeededError
from bucketq.fingerprint import unpack
from bucketq.segment import Segment, SegmentKeys, lost


class KeyShelf:
    """Holds the companions of all segments that it was asked for: each is needed by every new key."""

    def __init__(self) -> None:
        # By the names of the segments.
        self._held: dict[str, array[int]] = {}
        self._gone: set[str] = set()

    def __contains__(self, keys: SegmentKeys) -> bool:
        return keys.segment.name in self._held

    def put(self, keys: SegmentKeys, content: bytes) -> None:
        """Take in what was read."""
        self._held[keys.segment.name] = unpack(content)

    def remove(self, name: str) -> None:
        """Forget the keys of a segment that is not needed any more."""
        self._held.pop(name, None)

    def keep_only(self, segments: Iterable[Segment]) -> None:
        """Forget all but those of these segments."""
        kept = {segment.name for segment in segments if segment.keys}
        for name in self._held.keys() - kept:
            self.remove(name)
        self._gone &= kept

    def miss(self, keys: SegmentKeys) -> None:
        """Neither the companion nor its segment is there; whoever asks next is told so, once."""
        self._gone.add(keys.segment.name)

    def may_hold(self, segments: Iterable[Segment], fingerprint: int) -> list[Segment]:
        """The segments in which a job with such a key is, or was.

        Raises SegmentNeededError, and CorruptStateError for a segment that is known to be gone.
        """
        found, unread, held_by = [], [], self._held
        for segment in segments:
            held = held_by.get(segment.name)
            if held is None:
                unread.append(segment)
                continue
            place = bisect_left(held, fingerprint)
            if place < len(held) and held[place] == fingerprint:
                found.append(segment)
        if not unread:
            return found
        for segment in unread:
            if segment.name in self._gone:
                self._gone.remove(segment.name)
                raise lost(segment, "there is no such object")
        raise SegmentNeededError([SegmentKeys(segment) for segment in unread])
