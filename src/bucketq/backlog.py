"""Backlog: the waiting jobs that stand in segments beside queue.json, as its manifest tells.

A value: a change makes a new one. It also knows which segments had better be one, so that
neither their number nor the number of them that compete for the next job grows with the
length of the backlog. `overflow` tells which jobs had better be in it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from bucketq.job import Job
from bucketq.jobline import line_bytes
from bucketq.segment import Key, Segment
from bucketq.settings import Settings

# A segment should be worth its object.
_SPILL_MIN_JOBS = 32
_AT_HAND_MIN_JOBS = 32
# So many small neighbours are merged at least.
_NEIGHBOURS_MIN = 4
# How many segments may be in line at the same place before they are sorted into each other.
_OVERLAP_MAX = 8


class SegmentNeededError(Exception):
    """What was asked cannot be told before these segments have been read."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        super().__init__(*(segment.name for segment in segments))
        self.segments = tuple(segments)


class Backlog:
    """The segments of a queue, each entrypoint's in the order of their turns."""

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._lines: dict[str, list[Segment]] = {}
        self._counts: dict[str, int] = {}
        self._put(segments)

    def __iter__(self) -> Iterator[Segment]:
        return chain.from_iterable(self._lines.values())

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    @property
    def entrypoints(self) -> Collection[str]:
        """Those that have segments."""
        return self._lines.keys()

    def waiting(self, entrypoint: str | None = None) -> int:
        """How many jobs wait here, of one entrypoint or of all."""
        return sum(self._counts.values()) if entrypoint is None else self._counts.get(entrypoint, 0)

    def upcoming(self, entrypoint: str | None, number: int) -> list[Segment]:
        """The segments whose turns come next."""
        if entrypoint is not None:
            return self._lines.get(entrypoint, [])[:number]
        heads = chain.from_iterable(line[:number] for line in self._lines.values())
        return sorted(heads, key=_turn)[:number]

    def first(self, entrypoint: str | None) -> Segment | None:
        """The segment whose turn comes next."""
        if entrypoint is not None:
            line = self._lines.get(entrypoint)
            return line[0] if line else None
        return min((line[0] for line in self._lines.values()), key=_turn, default=None)

    def follower(self, segment: Segment) -> Key | None:
        """Where the segment behind the first one of an entrypoint begins."""
        line = self._lines[segment.entrypoint]
        return line[1].first if len(line) > 1 else None

    def replaced(self, old: Iterable[Segment], new: Iterable[Segment]) -> "Backlog":
        """The backlog with some segments in the place of others."""
        after = Backlog()
        after._lines, after._counts = dict(self._lines), dict(self._counts)
        for segment in old:
            line = after._lines[segment.entrypoint]
            after._lines[segment.entrypoint] = [other for other in line if other is not segment]
            after._counts[segment.entrypoint] -= segment.count
            if not after._lines[segment.entrypoint]:
                del after._lines[segment.entrypoint], after._counts[segment.entrypoint]
        after._put(new)
        return after

    def may_hold(self, job_id: str) -> list[Segment]:
        """The segments in which the job could be."""
        return [segment for segment in self if segment.may_hold(job_id)]

    def worth_merging(self, settings: Settings, unreadable: Collection[str] = ()) -> list[Segment]:
        """Segments of one entrypoint that had better be sorted into each other, if any."""
        for whole_line in self._lines.values():
            line = [segment for segment in whole_line if segment.name not in unreadable]
            # The first one is left out: jobs leave it all the time, and then a merge is in vain.
            if found := _overlapping(line) or _small_neighbours(line[1:], settings):
                return found
        return []

    def _put(self, segments: Iterable[Segment]) -> None:
        new: dict[str, list[Segment]] = {}
        for segment in segments:
            new.setdefault(segment.entrypoint, []).append(segment)
        for entrypoint, added in new.items():
            self._lines[entrypoint] = sorted([*self._lines.get(entrypoint, ()), *added], key=_turn)
            self._counts[entrypoint] = sum(segment.count for segment in self._lines[entrypoint])


def at_hand(settings: Settings, entrypoints: int) -> tuple[int, int]:
    """How many jobs, and bytes of them, each of so many entrypoints keeps in queue.json."""
    return (
        max(settings.hot_jobs_max // 4 // entrypoints, min(settings.hot_jobs_max // 4, _AT_HAND_MIN_JOBS)),
        settings.hot_bytes_max // 4 // entrypoints,
    )


def overflow(waiting: Iterable[Job], settings: Settings, entrypoints: int) -> list[list[Job]]:
    """Of the jobs that wait in queue.json, in order, those that had better stand in segments.

    For each entrypoint the last ones. The first ones stay, so that workers find their next
    jobs at hand.
    """
    jobs_max, bytes_max = at_hand(settings, entrypoints)
    lines: dict[str, list[Job]] = {}
    for job in waiting:
        lines.setdefault(job.entrypoint, []).append(job)
    leaving = []
    for line in lines.values():
        staying = size = 0
        while staying < min(len(line), jobs_max) and size < bytes_max:
            size += line_bytes(line[staying])
            staying += 1
        rest = line[staying:]
        if len(rest) >= _SPILL_MIN_JOBS or sum(map(line_bytes, rest)) >= settings.hot_bytes_max // 8:
            leaving.append(rest)
    return leaving


def _turn(segment: Segment) -> Key:
    return segment.first


def _overlapping(line: list[Segment]) -> list[Segment]:
    """More segments than may be in line at one place."""
    active: list[Segment] = []
    for segment in line:
        active = [other for other in active if other.last > segment.first]
        active.append(segment)
        if len(active) > _OVERLAP_MAX:
            return active
    return []


def _small_neighbours(line: list[Segment], settings: Settings) -> list[Segment]:
    """Neighbours that fit into one segment, none of them as large as the others together."""
    window: list[float] = []
    for end, segment in enumerate(line, 1):
        window.append(_fill(segment, settings))
        while sum(window) > 1:
            del window[0]
        if len(window) >= _NEIGHBOURS_MIN and max(window) <= sum(window) / 2:
            return line[end - len(window) : end]
    return []


def _fill(segment: Segment, settings: Settings) -> float:
    return max(segment.count / settings.segment_jobs_max, segment.size / settings.segment_bytes_max)
