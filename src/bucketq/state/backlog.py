"""The backlog: waiting jobs leave queue.json for segments, and come in again when it is their turn.

A segment's content comes from the shelf. Where it is not there yet, SegmentNeededError is raised.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from msgspec.structs import replace

from bucketq.backlog import SEGMENT_LINE_BYTES, at_hand, at_hand_of_key, overflow, parked_max
from bucketq.errors import ConfigurationError
from bucketq.job import Job, JobStatus
from bucketq.jobline import line_bytes
from bucketq.object_name import begun_at
from bucketq.passed import PassedJob
from bucketq.segment import Key, Segment, key_of
from bucketq.segment_lines import Question
from bucketq.state.view import View
from bucketq.unique import Holder

# Those that can wait elsewhere.
_SPILLABLE = (JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.DEAD)
_NEW = (JobStatus.QUEUED, JobStatus.SCHEDULED)


class WaitingPart(NamedTuple):
    """A segment of jobs that have become due, with the turns of their tenants as in `DealtJobs`."""

    segment: Segment
    ahead: dict[str, int]
    last: dict[str, int]


class WithBacklog(View):
    """What can stand in segments, what had better, and what comes back."""

    def spillable(self) -> int:
        """How many jobs in queue.json itself could stand in segments."""
        return sum(map(self._table.count, _SPILLABLE))

    def overflow(self) -> list[list[Job]]:
        """The jobs that had better stand in segments, for each line."""
        limit_keys = self._dispatcher if self.limits.limit_keys else None
        jobs, known = self.with_status(*_SPILLABLE), self.backlog.lines
        return overflow(jobs, self.settings, self._lines, limit_keys, known)

    def upcoming_segments(self) -> list[Segment]:
        """The segments that will soon be needed by those who dequeue here."""
        soon: dict[str, Segment] = {}
        for wanted in self._table.ready.asked:
            for segment in self.backlog.upcoming(wanted, 2):
                soon[segment.name] = segment
                if segment.count > self.settings.hot_jobs_max:
                    break
        return list(soon.values())

    def enqueue_segments(self, segments: Iterable[Segment], payloads: Iterable[str] = ()) -> None:
        """Put the jobs of segments, whose lines count from 1 on, at the end of their priority's line.

        `payloads` are the objects with their payloads, if a client wrote them.
        """
        segments = tuple(segments)
        for name in payloads:
            self._check_payload(name)
        bases = self.turns.give_segments(segments)
        moved = [segment.moved(self.sequence, base) for segment, base in zip(segments, bases, strict=True)]
        names = [segment.name for segment in (*self.backlog, *moved)]
        if len(set(names)) < len(names):
            raise ConfigurationError("a segment is in the queue already")
        if any(segment.status not in _NEW for segment in moved):
            raise ConfigurationError(f"new jobs are {' or '.join(_NEW)}")
        if any(segment.crash or segment.hold for segment in moved):
            raise ConfigurationError("new jobs are not claimed yet, and were not tried before")
        if any(segment.keys for segment in moved):
            raise ConfigurationError("jobs with unique keys are enqueued one by one, not in segments")
        for segment in moved:
            self._refuse_collected(segment.name)
            self._make_room(SEGMENT_LINE_BYTES)
            self.sequence += segment.count
            self.enqueued_total += segment.count
        self.backlog = self.backlog.replaced((), moved)
        self.changes += 1

    def _check_payload(self, name: str) -> None:
        """Raise unless an object can be the payload of a new job, and is not that of another one."""
        self._refuse_collected(name)
        is_taken = self._table.has_payload(name) or self.batches.has_payload(name)
        # A segment that was begun before the object holds no job with it.
        begun, question = begun_at(name), Question(name, "payload_object")
        if is_taken or any(
            self.shelf.search(segment, question)
            for segment in self.backlog.with_payloads()
            if begun_at(segment.name) >= begun
        ):
            raise ConfigurationError(
                f"{name} is the payload of another job already. Create an object for each job."
            )

    def spill(self, parts: Iterable[tuple[Segment, Iterable[Job]]]) -> list[Segment]:
        """Let segments stand for waiting jobs, but for those that moved on meanwhile.

        Return the segments that are not taken in, because most of their jobs moved on.
        """
        taken, refused = list[Segment](), list[Segment]()
        for segment, jobs in parts:
            self._refuse_collected(segment.name)
            still_there, moved_on = list[Job](), list[int]()
            for job in jobs:
                found = self._table.get(job.id)
                if found is job or found == job:
                    still_there.append(job)
                else:
                    moved_on.append(job.sequence)
            if len(moved_on) > segment.count // 2:
                refused.append(segment)
                continue
            for job in still_there:
                self._remove(job)
            taken.append(replace(segment, count=len(still_there), holes=tuple(moved_on)))
        if taken:
            self.backlog = self.backlog.replaced((), taken)
        return refused

    def merge(self, old: tuple[Segment, ...], new: tuple[Segment, ...]) -> bool:
        """Let segments stand for others that held the same jobs.

        False if a job has left one of those meanwhile: then nothing is changed. Only a single segment
        that replaces a single one bears that: the job leaves the new one too.
        """
        for segment in new:
            self._refuse_collected(segment.name)
        held = {segment.name: segment for segment in self.backlog}
        one = held.get(old[0].name) if len(old) == len(new) == 1 else None
        if one is not None and one.is_left_of(old[0]):
            left = replace(new[0], count=one.count, holes=one.holes[len(old[0].holes) :])
            new = (replace(left, first=one.first, in_line=one.in_line) if one.first > left.first else left,)
        elif any(held.get(segment.name) != segment for segment in old):
            return False
        self.backlog = self.backlog.replaced([held[segment.name] for segment in old], new)
        self.dropped += [name for segment in old for name in segment.objects]
        self.changes += 1
        return True

    def sort_out(
        self,
        old: Segment,
        waiting: Iterable[WaitingPart],
        rest: Iterable[Segment],
        places: Sequence[Sequence[Key]] = (),
    ) -> list[Segment]:
        """Let segments of waiting jobs stand for the due jobs of a scheduled one, and others for the rest.

        Those that are not taken in are returned: all of them, and then nothing is changed, if the old one was
        changed meanwhile, or its jobs need turns and got none. A job that has left it leaves the new one too,
        if `places` tells where the jobs of each new one stood.
        """
        waiting, rest = tuple(waiting), tuple(rest)
        segments = [*(part.segment for part in waiting), *rest]
        is_of_one_priority = all(part.segment.first[0] == part.segment.last[0] for part in waiting)
        held = next((one for one in self.backlog if one.name == old.name), None)
        if held is None or (old.entrypoint in self.turns.entrypoints and not is_of_one_priority):
            return segments
        gone = _gone(held, places)
        if not held.is_left_of(old) or held.count != old.count - sum(map(len, gone)):
            return segments
        bases = [self._turn_base(part) for part in waiting]
        for (segment, _, last), base in zip(waiting, bases, strict=True):
            for tenant, turn in last.items():
                self.turns.give(segment.entrypoint, segment.first[0], tenant, base + turn)
        new, empty = list[Segment](), list[Segment]()
        for segment, base, holes in zip_longest(segments, bases, gone):
            self._refuse_collected(segment.name)
            if len(holes or ()) == segment.count:
                empty.append(segment)
            else:
                left = replace(segment, count=segment.count - len(holes or ()), holes=holes or ())
                new.append(left.moved(0, base or 0))
        self.backlog = self.backlog.replaced([held], new)
        self.dropped += old.objects
        self.changes += 1
        return empty

    def _turn_base(self, part: WaitingPart) -> int:
        """What to add to the turns of a segment, so that no tenant has a later job in line already."""
        line = part.segment.entrypoint, part.segment.first[0]
        if not part.last:
            return self.turns.next(*line, None)
        behind = (self.turns.base(*line, tenant) - ahead for tenant, ahead in part.ahead.items())
        return max(self.turns.base(*line, None), *behind)

    def absorb(self, segment: Segment) -> None:
        """Bring in every job of a segment that is on the shelf."""
        self._bring_in(segment, list(self.shelf.jobs(segment)), None)

    def _take_out(self, found: Holder) -> None:
        job, segment = found
        if job.turn and job.status is JobStatus.QUEUED:
            self.turns.give_back(job)
            self._table.turned.look_at([(job.entrypoint, job.priority)], job.tenant)
        if segment is None:
            self._remove(job)
            return
        left = self.shelf.without(segment, job)
        self.backlog = self.backlog.replaced([segment], [left] if left else [])
        self.changes += 1
        if left is None:
            self.dropped += segment.objects

    def _bring_some_in(self, segment: Segment, until: Key | None = None) -> None:
        # Half of what stays, so that it is not soon sent back.
        jobs_max, bytes_max = (limit // 2 for limit in at_hand(self.settings, self._lines))
        if segment.limit_key is not None:
            jobs_max = 1 if self._is_crowded else min(jobs_max, at_hand_of_key(self.settings) // 2)
        limits = [key for key in (until, self.backlog.follower(segment)) if key is not None]
        taken, left = self.shelf.take(segment, jobs_max, bytes_max, min(limits, default=None))
        self._bring_in(segment, taken, left)

    @property
    def _is_crowded(self) -> bool:
        """Whether no more jobs should come in that may have to wait for room for their limit keys.

        At half of what may wait here, so that what comes in is not soon sent back.
        """
        jobs_max, bytes_max = parked_max(self.settings)
        ready = self._table.ready
        return len(ready.aside) > jobs_max // 2 or ready.aside_size > bytes_max // 2

    def _bring_one_in(self, passed: PassedJob) -> None:
        """Bring in a job from among the others of a segment, if it is where it should be.

        It is noted where the next one of its limit key is.
        """
        segment, jobs = passed.segment, self.shelf.first_of_key(passed.segment, passed.limit_key, 2)
        if jobs and key_of(jobs[0]) == passed.first:
            left = self.shelf.without(segment, jobs[0])
            self._bring_in(segment, jobs[:1], left)
            if left is None:
                return
            segment, jobs = left, jobs[1:]
        place = key_of(jobs[0]) if jobs else None
        self.shelf.note_first_of_key(segment, passed.limit_key, place)
        self._dispatcher.move(segment, passed.limit_key, place)

    def _bring_in(self, segment: Segment, jobs: list[Job], left: Segment | None) -> None:
        self.backlog = self.backlog.replaced([segment], [left] if left else [])
        if left is None:
            self.dropped += segment.objects
        for job in jobs:
            if self._table.get(job.id) is not None:
                # Somebody enqueued an id twice while this one was out of sight: it is one job.
                if segment.status is not JobStatus.DEAD:
                    self.enqueued_total -= 1
                continue
            self._put(job)
            self.size += line_bytes(job)

    def collect(self, version: int) -> None:
        """From now on let nobody begin to refer to an object from before this version."""
        # Never beyond the next version, or new objects would be refused until that comes.
        version = min(version, self.version + 1)
        if version > self.collected_version:
            self.collected_version = version
            self.changes += 1


def _gone(held: Segment, places: Sequence[Sequence[Key]]) -> list[tuple[int, ...]]:
    """Of jobs that stood at these places in a segment, those that are not in it any more."""
    holes = frozenset(held.holes)
    return [tuple(place[2] for place in of if place < held.first or place[2] in holes) for of in places]
