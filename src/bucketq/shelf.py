"""Shelf: the contents of segments that were read lately, within reach of the state machine.

And those of staged parts, whose jobs are finished. It holds a number of bytes, and the backlog may have
any number of them. Two things keep an operation that needs more than fits from being retried forever:

    pinned    what an operation was deferred for stays until that operation was tried again
    Findings  what an operation has found in segments, or not, is kept between its tries
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from bucketq.archived_job import lines_of
from bucketq.backlog import SegmentNeededError
from bucketq.job import Job
from bucketq.key_shelf import KeyShelf
from bucketq.ledger import StagedPart
from bucketq.segment import DueSegment, Key, Needed, Segment, SegmentKeys, lost
from bucketq.segment_lines import Question, SegmentLines, still_in

_CAPACITY_BYTES = 64 * 1024 * 1024
# How many failed searches are remembered: a caller that waits for a job searches again and again.
_ABSENT_MAX = 10_000
# Of so many limit keys it is remembered where their jobs begin in a segment.
_LIMIT_KEYS_MAX = 100_000
# A dequeue waits for no more segments to fill its batch.
_DEFERRALS_MAX = 100


class Findings:
    """What one operation has learned from segments and staged parts, which never change.

    It grows with the number of questions and of segments, not with their contents.
    """

    def __init__(self, questions: Iterable[Question] = (), deferrals_max: int = _DEFERRALS_MAX) -> None:
        # Numbered: a segment that was searched when there were n questions answers the first n of them.
        self.questions = {question: number for number, question in enumerate(dict.fromkeys(questions))}
        self._answers: dict[str, int] = {}
        self._found: dict[tuple[str, Question], Job | bytes] = {}
        # How often the operation may still wait for a segment if it can be answered without.
        self._deferrals_left = deferrals_max
        self._awaited: str | None = None

    @property
    def may_wait(self) -> bool:
        """Whether an operation that can be answered without another segment should wait for it."""
        return self._deferrals_left > 0

    def ask(self, questions: Iterable[Question]) -> None:
        """Add questions, so that each segment is searched once for all of them."""
        for question in questions:
            self.questions.setdefault(question, len(self.questions))

    def defer(self, needed: Needed) -> None:
        """Record that the operation waits for a segment."""
        self._deferrals_left -= 1
        self._awaited = needed.name

    def learn_awaited(self, held: Mapping[str, SegmentLines | list[bytes]]) -> None:
        """Search the segment that was waited for, if it is there.

        The operation may not come to that by itself this time, because another segment is not within reach.
        """
        content = held.get(self._awaited) if self._awaited is not None and self.questions else None
        if content is not None and self._awaited is not None:
            self.learn(self._awaited, content)

    def has_answer(self, name: str, question: Question) -> bool:
        """Whether an object was searched for this."""
        self.ask((question,))
        return self.questions[question] < self._answers.get(name, 0)

    def get(self, name: str, question: Question) -> Job | bytes | None:
        """The job, or its line, as the object has it."""
        return self._found.get((name, question))

    def learn(self, name: str, content: SegmentLines | list[bytes]) -> None:
        """Search the content of an object for all questions so far."""
        if isinstance(content, SegmentLines):
            for question, job in content.search(self.questions).items():
                self._found[name, question] = job
        else:
            ids = [question.text for question in self.questions if question.field == "id"]
            for job_id, line in lines_of(content, ids).items():
                self._found[name, Question(job_id)] = line
        self._answers[name] = len(self.questions)


class _LimitKeys(NamedTuple):
    """Where the jobs of each limit key begin in a segment."""

    segment: Segment
    written: dict[str, Key]
    # Where jobs have left `segment`; None for a key without jobs.
    moved: dict[str, Key | None]


class Shelf:
    """Holds segments up to a size; the one that was not used for longest leaves first.

    Asked for a segment that it does not hold it raises SegmentNeededError, and
    CorruptStateError for one that is known to be gone from the storage.
    """

    def __init__(self, capacity_bytes: int = _CAPACITY_BYTES) -> None:
        self.capacity_bytes = capacity_bytes
        self._size = 0
        self._held: dict[str, SegmentLines | list[bytes]] = {}
        self._sizes: dict[str, int] = {}
        self._pinned: dict[str, int] = {}
        self._gone: set[str] = set()
        self.keys = KeyShelf()
        # Segments and ids that are not in them, the most recent last.
        self._absent: dict[tuple[str, Question], None] = {}
        # Where the jobs of limit keys begin in segments that were passed over: one that is not within reach
        # need not be read again for that.
        self._limit_keys: dict[str, _LimitKeys] = {}
        # Those of the operation that is being applied.
        self.findings = Findings()

    def serve(self, findings: Findings | None) -> None:
        """Answer an operation from now on, with what it has learned before."""
        self.findings = findings or Findings()
        self.findings.learn_awaited(self._held)

    def __contains__(self, segment: Needed) -> bool:
        if isinstance(segment, SegmentKeys):
            return segment in self.keys
        return segment.name in self._held and not isinstance(segment, DueSegment)

    def has_room_for(self, segment: Needed, under_way: int = 0) -> bool:
        """Whether it would push no other out, nor what is under way."""
        if isinstance(segment, SegmentKeys):
            return True
        size = segment.segment.size if isinstance(segment, DueSegment) else segment.size
        return self._size + under_way + size <= self.capacity_bytes

    @property
    def entries(self) -> int:
        """How many searches it remembers."""
        return len(self._absent)

    def put(self, segment: Needed, content: bytes) -> None:
        """Take in what was read. Raises CorruptStateError if it is not whole."""
        if isinstance(segment, SegmentKeys):
            self.keys.put(segment, content)
            return
        assert not isinstance(segment, DueSegment)
        self._put_away(segment.name)
        lines = segment.lines(content) if isinstance(segment, StagedPart) else SegmentLines(segment, content)
        self._held[segment.name] = lines
        self._sizes[segment.name] = len(content)
        self._size += len(content)
        unpinned = [name for name in self._held if name not in self._pinned and name != segment.name]
        for name in unpinned:
            if self._size <= self.capacity_bytes:
                break
            self._put_away(name)

    def pin(self, name: str) -> None:
        """Keep a segment, once it is read, until it is unpinned as often."""
        self._pinned[name] = self._pinned.get(name, 0) + 1

    def unpin(self, name: str) -> None:
        """Let go of a segment that was pinned."""
        self._pinned[name] -= 1
        if not self._pinned[name]:
            del self._pinned[name]

    def remove(self, name: str) -> None:
        """Forget a segment that is not needed any more."""
        self._put_away(name)
        self._limit_keys.pop(name, None)
        self.keys.remove(name)

    def keep_only(self, segments: Iterable[Segment], parts: Iterable[StagedPart]) -> None:
        """Forget all but these."""
        segments = list(segments)
        self.keys.keep_only(segments)
        # An operation may bring segments that the queue does not refer to yet.
        kept = {*(segment.name for segment in segments), *(part.name for part in parts), *self._pinned}
        for name in self._held.keys() - kept:
            self.remove(name)
        self._gone &= kept

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

    def first_of_key(self, segment: Segment, limit_key: str, number: int) -> list[Job]:
        """The next jobs of a limit key that are still in the segment; "" stands for those without one."""
        return self._lines(segment).first_of_key(segment, limit_key, number)

    def limit_keys(self, segment: Segment) -> dict[str, Key]:
        """Where the jobs of each limit key begin in a segment, or behind that."""
        known = self._limit_keys.pop(segment.name, None)
        if known is None or not (segment is known.segment or segment.is_left_of(known.segment)):
            # Perhaps jobs are back that had left, by an operation that was undone.
            places = known.written if known else self._lines(segment).limit_keys(segment)
            known = _LimitKeys(segment, places, {})
        self._limit_keys[segment.name] = known
        while sum(len(one.written) for one in self._limit_keys.values()) > _LIMIT_KEYS_MAX:
            if len(self._limit_keys) == 1:
                break
            del self._limit_keys[next(iter(self._limit_keys))]
        return {key: place for key, place in {**known.written, **known.moved}.items() if place is not None}

    def note_first_of_key(self, segment: Segment, limit_key: str, place: Key | None) -> None:
        """Note where the jobs of a limit key begin in a segment now; None if there are none."""
        known = self._limit_keys.get(segment.name)
        if known is not None:
            moved = known.moved if segment.is_left_of(known.segment) else {}
            self._limit_keys[segment.name] = _LimitKeys(segment, known.written, {**moved, limit_key: place})

    def find(self, segment: Segment, job_id: str) -> Job | None:
        """The job with this id, if it is still in the segment."""
        return self.search(segment, Question(job_id))

    def search(self, segment: Segment, question: Question) -> Job | None:
        """The job that is looked for, if it is still in the segment."""
        if (segment.name, question) in self._absent:
            return None
        written = self._written(segment, question)
        if written is None:
            self._absent[segment.name, question] = None
            if len(self._absent) > _ABSENT_MAX:
                del self._absent[next(iter(self._absent))]
            return None
        assert isinstance(written, Job)
        return still_in(segment, written)

    def find_line(self, part: StagedPart, job_id: str) -> bytes | None:
        """The line of the job with this id in a staged part."""
        line = self._written(part, Question(job_id))
        assert not isinstance(line, Job)
        return line

    def without(self, segment: Segment, gone: Job) -> Segment | None:
        """What is left of the segment when a job leaves it."""
        lines = self._held.get(segment.name)
        return segment.without(gone) if lines is None else self._lines(segment).without(segment, gone)

    def sort_out(self, segment: Segment, until: Key) -> Exception:
        """What to raise for a segment of scheduled jobs whose due ones have to be sorted out first."""
        if segment.name in self._gone:
            return self._lost(segment)
        return SegmentNeededError([DueSegment(segment, until)])

    def _written(self, needed: Segment | StagedPart, question: Question) -> Job | bytes | None:
        if not self.findings.has_answer(needed.name, question):
            self.findings.learn(needed.name, self._taken(needed))
        return self.findings.get(needed.name, question)

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
                raise self._lost(needed)
            raise SegmentNeededError([needed])
        self._held[needed.name] = lines
        return lines

    def _lost(self, needed: Segment | StagedPart) -> Exception:
        self._gone.remove(needed.name)
        reason = "there is no such object"
        return needed.lost(reason) if isinstance(needed, StagedPart) else lost(needed, reason)
