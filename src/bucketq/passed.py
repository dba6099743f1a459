"""PassedSegments: segments in line that stay where they are, by the limit keys of their jobs.

In queue.json most of these jobs would only wait for room for their keys, and there is little room for such.
So it is noted where in the segment the jobs of each key begin. A job that may begin is taken out from among
the others.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bucketq.segment import Key, Segment

_HEAP_SLACK = 64


class PassedJob(NamedTuple):
    """The first job of a limit key in a segment that was passed over; the key "" is that of jobs without."""

    segment: Segment
    limit_key: str
    # It does not stand before this place.
    first: Key


class PassedSegments:
    """By entrypoint the segments that were passed over, and where the jobs of each limit key begin."""

    def __init__(self) -> None:
        # As they were when these places were right: jobs may have left since, but none has come back.
        self._segments: dict[str, dict[str, Segment]] = {}
        self._places: dict[str, dict[str, dict[str, Key]]] = {}
        # The same places as heaps. Places that have moved leave their entries behind.
        self._heaps: dict[tuple[str, str], list[tuple[Key, str]]] = {}
        # How many places it knows.
        self.entries = 0

    def __contains__(self, segment: Segment) -> bool:
        return segment.name in self._segments.get(segment.entrypoint, ())

    def has_some_of(self, entrypoint: str) -> bool:
        """Whether a segment of an entrypoint was passed over."""
        return entrypoint in self._segments

    def put(self, segment: Segment, places: Mapping[str, Key]) -> None:
        """Pass over a segment in which the jobs of limit keys begin at these places, or behind them."""
        self._segments.setdefault(segment.entrypoint, {})[segment.name] = segment
        for limit_key, place in places.items():
            self._set(segment, limit_key, place)

    def first(self, entrypoint: str, limit_key: str) -> PassedJob | None:
        """Where the next job of a limit key may be."""
        if (segments := self._segments.get(entrypoint)) is None:
            return None
        places = self._places.get(entrypoint, {}).get(limit_key)
        if not places:
            return None
        heap = self._heaps[entrypoint, limit_key]
        while places.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        place, name = heap[0]
        return PassedJob(segments[name], limit_key, place)

    def move(self, segment: Segment, limit_key: str, place: Key | None) -> None:
        """In the segment as it is now, the jobs of a limit key begin here; None if there are none."""
        self._segments[segment.entrypoint][segment.name] = segment
        self._set(segment, limit_key, place)

    def follow(self, entrypoint: str, line: Sequence[Segment]) -> list[str]:
        """Forget segments that are not in the line any more, or have jobs again; tell of which limit keys."""
        passed = self._segments.get(entrypoint, {})
        if not passed:
            return []
        now = {segment.name: segment for segment in line if segment.name in passed}
        forgotten = []
        for name, segment in list(passed.items()):
            if name in now and (now[name] is segment or now[name].is_left_of(segment)):
                passed[name] = now[name]
                continue
            del passed[name]
            for limit_key, places in list(self._places.get(entrypoint, {}).items()):
                if name in places:
                    self._set(segment, limit_key, None)
                    forgotten.append(limit_key)
        if not passed:
            del self._segments[entrypoint]
        return forgotten

    def _set(self, segment: Segment, limit_key: str, place: Key | None) -> None:
        keys = self._places.setdefault(segment.entrypoint, {})
        places = keys.setdefault(limit_key, {})
        self.entries += (place is not None) - (segment.name in places)
        line = segment.entrypoint, limit_key
        if place is not None:
            places[segment.name] = place
            heap = self._heaps.setdefault(line, [])
            heapq.heappush(heap, (place, segment.name))
            if len(heap) > 2 * len(places) + _HEAP_SLACK:
                heap[:] = sorted((place, name) for name, place in places.items())
            return
        places.pop(segment.name, None)
        if not places:
            del keys[limit_key]
            self._heaps.pop(line, None)
        if not keys:
            del self._places[segment.entrypoint]
