"""Backlog: the jobs that stand in segments beside queue.json, as its manifest tells.

A value: a change makes a new one. It also knows which segments had better be one, so that
neither their number nor the number of them that compete for the next job grows with the
length of the backlog. `overflow` tells which jobs had better be in it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

from bucketq.job import Claim, Job, JobStatus
from bucketq.jobline import line_bytes
from bucketq.segment import Hold, Key, Needed, Segment, key_of
from bucketq.settings import Settings
from bucketq.wanted import Wanted, names_of

# A segment should be worth its object.
_SPILL_MIN_JOBS = 32
_AT_HAND_MIN_JOBS = 32
# So many small neighbours are merged at least.
_NEIGHBOURS_MIN = 4
# How many segments may be in line at the same place before they are sorted into each other.
_OVERLAP_MAX = 8
# An entry of the manifest, about.
SEGMENT_LINE_BYTES = 300
# So many limit keys may have segments of their own, however small queue.json is to be.
_KEY_LINES_MIN = 8
# A segment that so many jobs have left one by one is written again: each costs bytes in every commit.
HOLES_MAX = 250


class SegmentNeededError(Exception):
    """What was asked cannot be told before these segments have been read."""

    def __init__(self, segments: Sequence[Needed]) -> None:
        super().__init__(*(segment.name for segment in segments))
        self.segments = tuple(segments)


# Jobs of the same status and entrypoint stand in one line; those of a limit key may have their own.
Line = tuple[JobStatus, str, str | None]

_QUEUED, _SCHEDULED, _IN_PROGRESS = JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.IN_PROGRESS


class Backlog:
    """The segments of a queue, in each line in order."""

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._lines: dict[Line, list[Segment]] = {}
        self._counts: dict[tuple[JobStatus, str], int] = {}
        # Whether limit keys have segments of their own.
        self.has_key_lines = False
        # Found out once, if anybody asks.
        self._firsts: dict[JobStatus, Segment | None] = {}
        self._keyed: list[Segment] | None = None
        self._with_payloads: list[Segment] | None = None
        self._holey: list[Segment] | None = None
        self._held: dict[Claim, tuple[Segment, Hold]] | None = None
        self._put(segments)

    def __iter__(self) -> Iterator[Segment]:
        return chain.from_iterable(self._lines.values())

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    @property
    def lines(self) -> Collection[Line]:
        """Those that have segments."""
        return self._lines.keys()

    def count(self, status: JobStatus, wanted: Wanted = None) -> int:
        """How many jobs of a status are here, of some entrypoints or of all."""
        if wanted is not None:
            return sum(self._counts.get((status, name), 0) for name in names_of(wanted))
        return sum(count for (of_status, _), count in self._counts.items() if of_status is status)

    def changed_lines(self, before: "Backlog") -> list[Line]:
        """The lines whose segments are others than in an earlier backlog."""
        gone = before._lines.keys() - self._lines.keys()
        return [*gone, *(of for of, line in self._lines.items() if before._lines.get(of) is not line)]

    @property
    def entrypoints(self) -> set[str]:
        """Those of which a job waits here."""
        return {line[1] for line in self._lines if line[0] is _QUEUED}

    def has_turns(self, entrypoint: str, priority: int, tenant: str | None = None) -> bool:
        """Whether jobs with turns may wait here, of one tenant or of all."""
        segments: Iterable[Segment] = self._lines.get((_QUEUED, entrypoint, None), ())
        if self.has_key_lines:
            segments = self.of_line(_QUEUED, entrypoint)
        return any(
            segment.first[0] <= priority <= segment.last[0]
            and segment.may_have_turns
            and (tenant is None or segment.tenant in (None, tenant))
            for segment in segments
        )

    def first_of_key(self, entrypoint: str, limit_key: str) -> Segment | None:
        """The segment whose turn comes next of those of a limit key."""
        line = self._lines.get((_QUEUED, entrypoint, limit_key))
        return line[0] if line else None

    def line(self, status: JobStatus, entrypoint: str) -> Sequence[Segment]:
        """The segments with jobs of a status and an entrypoint in order, but for those of limit keys."""
        return self._lines.get((status, entrypoint, None), ())

    def upcoming(self, wanted: Wanted, number: int) -> list[Segment]:
        """The segments of waiting jobs whose turns come next."""
        heads = chain.from_iterable(line[:number] for line in self._of(_QUEUED, wanted))
        return sorted(heads, key=_turn)[:number]

    def first(self, wanted: Wanted) -> Segment | None:
        """The segment of waiting jobs whose turn comes next."""
        return self._first(_QUEUED, wanted)

    def first_scheduled(self, wanted: Wanted = None) -> Segment | None:
        """The segment with the job that is due next, of some entrypoints or of all."""
        return self._first(_SCHEDULED, wanted)

    def firsts_scheduled(self, wanted: Wanted) -> list[Segment]:
        """Of each entrypoint the segment with the job that is due next."""
        return [line[0] for line in self._of(_SCHEDULED, wanted)]

    def _first(self, status: JobStatus, wanted: Wanted) -> Segment | None:
        if isinstance(wanted, str):
            line = self._lines.get((status, wanted, None))
            return line[0] if line else None
        if wanted is None and status in self._firsts:
            return self._firsts[status]
        first = min((line[0] for line in self._of(status, wanted)), key=_turn, default=None)
        if wanted is None:
            self._firsts[status] = first
        return first

    def follower(self, segment: Segment) -> Key | None:
        """Where the next segment of a line begins."""
        line = self._lines[line_of(segment)]
        return next((other.first for other in line[line.index(segment) + 1 :]), None)

    def replaced(self, old: Iterable[Segment], new: Iterable[Segment]) -> "Backlog":
        """The backlog with some segments in the place of others.

        It costs as much as there are lines, so it is better called once for many segments.
        """
        after = Backlog()
        after._lines, after._counts = dict(self._lines), dict(self._counts)
        leaving: dict[Line, dict[int, Segment]] = {}
        for segment in old:
            leaving.setdefault(line_of(segment), {})[id(segment)] = segment
        for line, segments in leaving.items():
            others = [other for other in after._lines[line] if id(other) not in segments]
            is_there = len(others) + len(segments) == len(after._lines[line])
            assert is_there, f"{', '.join(one.name for one in segments.values())}: not in the backlog"
            after._lines[line] = others
            after._counts[line[:2]] -= sum(segment.count for segment in segments.values())
            if not after._lines[line]:
                del after._lines[line]
            if not after._counts[line[:2]]:
                del after._counts[line[:2]]
        after.has_key_lines = self.has_key_lines and any(line[2] is not None for line in after._lines)
        after._put(new)
        return after

    def of_line(self, status: JobStatus, entrypoint: str) -> Iterator[Segment]:
        """The segments with jobs of a status and an entrypoint, whatever their limit keys."""
        found = (line for of, line in self._lines.items() if of[0] is status and of[1] == entrypoint)
        return chain.from_iterable(found)

    def may_hold(self, job_id: str) -> list[Segment]:
        """The segments in which the job could be."""
        return [segment for segment in self if segment.may_hold(job_id)]

    def keyed(self) -> list[Segment]:
        """The segments of jobs that hold unique keys."""
        if self._keyed is None:
            self._keyed = [segment for segment in self if segment.keys]
        return self._keyed

    def with_payloads(self) -> list[Segment]:
        """The segments of jobs that have their payload in an object."""
        if self._with_payloads is None:
            self._with_payloads = [segment for segment in self if segment.payloads]
        return self._with_payloads

    def holey(self) -> list[Segment]:
        """The segments that many jobs have left one by one."""
        if self._holey is None:
            self._holey = [one for one in self if len(one.holes) > HOLES_MAX and one.hold is None]
        return self._holey

    def held(self) -> dict[Claim, tuple[Segment, Hold]]:
        """The segments that somebody has claimed as a whole. Such a claim names the segment, not a job."""
        if self._held is None:
            held = ((segment, segment.hold) for segment in self if segment.hold is not None)
            self._held = {Claim(segment.name, hold.token): (segment, hold) for segment, hold in held}
        return self._held

    def worth_merging(self, settings: Settings, unreadable: Collection[str] = ()) -> list[Segment]:
        """Segments of one line that should be sorted into each other, or one that should be written again."""
        if holey := [segment for segment in self.holey() if segment.name not in unreadable]:
            return holey[:1]
        for (status, *_), whole_line in self._lines.items():
            if status is _IN_PROGRESS:
                continue
            line = [segment for segment in whole_line if segment.name not in unreadable]
            # The first one is left out: jobs leave it all the time, and then a merge is in vain.
            if found := _overlapping(line) or _small_neighbours(line[1:], settings):
                return found
        return []

    def _of(self, status: JobStatus, wanted: Wanted) -> list[list[Segment]]:
        """The segments of each entrypoint, but for those of limit keys."""
        if wanted is None:
            return [line for of, line in self._lines.items() if of[0] is status and of[2] is None]
        return [line for name in names_of(wanted) if (line := self._lines.get((status, name, None)))]

    def _put(self, segments: Iterable[Segment]) -> None:
        new: dict[Line, list[Segment]] = {}
        for segment in segments:
            new.setdefault(line_of(segment), []).append(segment)
        for line, added in new.items():
            self._lines[line] = sorted([*self._lines.get(line, ()), *added], key=_turn)
            self.has_key_lines = self.has_key_lines or line[2] is not None
            count = sum(segment.count for segment in added)
            self._counts[line[:2]] = self._counts.get(line[:2], 0) + count


def line_of(segment: Segment) -> Line:
    """The line that a segment stands in."""
    return segment.status, segment.entrypoint, segment.limit_key


def at_hand(settings: Settings, lines: int) -> tuple[int, int]:
    """How many jobs, and bytes of them, each of so many lines keeps in queue.json."""
    return (
        max(settings.hot_jobs_max // 4 // lines, min(settings.hot_jobs_max // 4, _AT_HAND_MIN_JOBS)),
        settings.hot_bytes_max // 4 // lines,
    )


class LimitKeys(Protocol):
    """What is known of limit keys."""

    def is_limited(self, limit_key: str) -> bool: ...
    def is_saturated(self, limit_key: str) -> bool: ...


def at_hand_of_key(settings: Settings) -> int:
    """How many jobs of a limit key with segments of its own stay in queue.json."""
    return max(1, min(settings.hot_jobs_max // 4, _AT_HAND_MIN_JOBS))


def parked_max(settings: Settings) -> tuple[int, int]:
    """How many jobs, and bytes of them, may wait in queue.json for room for their limit keys.

    queue.json may be larger than its limits by as much, and by a few jobs of each entrypoint that are not
    worth a segment.
    """
    return settings.hot_jobs_max // 4, settings.hot_bytes_max // 4


def overflow(
    jobs: Iterable[Job],
    settings: Settings,
    lines_total: int,
    limit_keys: LimitKeys | None = None,
    known: Collection[Line] = (),
) -> list[list[Job]]:
    """Of the jobs in queue.json that may leave it, those that had better stand in segments.

    Of each line the last ones. The first ones stay, so that workers find their next jobs at
    hand. Those of a limit key have a line of their own if they are many, so that nobody has to
    look through them while no other one may begin. A few stay: they would come back at once. Of the keys with
    a few jobs that may not begin, some of all stay. `known` are the lines in segments.
    """
    jobs_max, bytes_max = at_hand(settings, lines_total)
    lines: dict[Line, list[Job]] = {}
    for job in sorted(jobs, key=key_of):
        own = job.limit_key if limit_keys and job.status is _QUEUED else None
        if limit_keys and own is not None and not limit_keys.is_limited(own):
            own = None
        lines.setdefault((job.status, job.entrypoint, own), []).append(job)
    parked: list[Job] = []
    new_lines_max = max(_KEY_LINES_MIN, settings.hot_bytes_max // 8 // SEGMENT_LINE_BYTES)
    new_lines_max -= sum(line[2] is not None for line in known)
    own_lines = [line for line in lines if line[2] is not None]
    for of in sorted(own_lines, key=lambda of: len(lines[of]), reverse=True):
        if len(lines[of]) >= at_hand_of_key(settings) and (of in known or new_lines_max > 0):
            new_lines_max -= of not in known
            continue
        few, plain = lines.pop(of), (of[0], of[1], None)
        if limit_keys and limit_keys.is_saturated(of[2] or ""):
            parked += few
        else:
            lines[plain] = sorted([*lines.get(plain, ()), *few], key=key_of)
    rests: list[list[Job]] = []
    for of, line in lines.items():
        most = at_hand_of_key(settings) if of[2] else jobs_max
        rests.append(_behind(line, most, bytes_max))
    behind = _behind(sorted(parked, key=key_of), *parked_max(settings))
    entrypoints = dict.fromkeys(job.entrypoint for job in behind)
    rests += [[job for job in behind if job.entrypoint == entrypoint] for entrypoint in entrypoints]
    least_bytes = settings.hot_bytes_max // 8
    return [
        rest for rest in rests if len(rest) >= _SPILL_MIN_JOBS or sum(map(line_bytes, rest)) >= least_bytes
    ]


def _behind(line: list[Job], jobs_max: int, bytes_max: int) -> list[Job]:
    """What stands behind so many jobs, or bytes of them."""
    staying = size = 0
    while staying < min(len(line), jobs_max) and size < bytes_max:
        size += line_bytes(line[staying])
        staying += 1
    return line[staying:]


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
