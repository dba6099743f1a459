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
        self._held: dict[str, array[int]] = {}
        self._gone: set[str] = set()

    def __contains__(self, keys: SegmentKeys) -> bool:
        return keys.name in self._held

    def put(self, keys: SegmentKeys, content: bytes) -> None:
        """Take in what was read."""
        self._held[keys.name] = unpack(content)

    def remove(self, name: str) -> None:
        """Forget a companion that is not needed any more."""
        self._held.pop(name, None)

    def keep_only(self, segments: Iterable[Segment]) -> None:
        """Forget all but those of these segments."""
        kept = {SegmentKeys(segment).name for segment in segments if segment.keys}
        for name in self._held.keys() - kept:
            self.remove(name)
        self._gone &= kept

    def miss(self, keys: SegmentKeys) -> None:
        """Neither the companion nor its segment is there; whoever asks next is told so, once."""
        self._gone.add(keys.name)

    def may_hold(self, segments: Iterable[Segment], fingerprint: int) -> list[Segment]:
        """The segments in which a job with such a key is, or was.

        Raises SegmentNeededError, and CorruptStateError for a segment that is known to be gone.
        """
        found, unread = list[Segment](), list[SegmentKeys]()
        for segment in segments:
            keys = SegmentKeys(segment)
            held = self._held.get(keys.name)
            if held is None:
                unread.append(keys)
                continue
            place = bisect_left(held, fingerprint)
            if place < len(held) and held[place] == fingerprint:
                found.append(segment)
        for keys in unread:
            if keys.name in self._gone:
                self._gone.remove(keys.name)
                raise lost(keys.segment, "there is no such object")
        if unread:
            raise SegmentNeededError(unread)
        return found
