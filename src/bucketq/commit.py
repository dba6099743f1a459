"""The commit engine: a batch of operations becomes one compare-and-set write.

    apply the batch to the cached state ── nothing changed ──▶ is the cache current? answer
            │
            ▼
    write(if_match=etag) ── landed ──▶ answer everyone
            │ refused, failed, no answer: the write may have landed all the same
            ▼
    read the object again
            ├─ it holds our commit's signature ──▶ it landed: answer everyone
            ├─ it has not changed ──▶ send the very same bytes again
            └─ somebody else's commit came first ──▶ apply the batch to that state, write

Why the answers are right: a conditional write can only ever land on the etag that it
names, so once the object has moved on without our signature, that write is dead and the
batch may be applied anew. As long as the object has not moved, the first write may still
be under way, so only the same bytes are sent again: whichever lands, it says the same.

An operation that needs a segment of the backlog which has not been read is not answered: it
is handed back, to be submitted again when the segment is on the shelf.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

from bucketq.account import Account
from bucketq.archive_name import version_of_batch
from bucketq.backlog import SegmentNeededError
from bucketq.clock import Clock
from bucketq.codec import StateEncoder, decode
from bucketq.contention import Contention
from bucketq.deadline import ANSWER_S, in_time, last_since_s, with_time
from bucketq.errors import (
    CASConflictError,
    NotWrittenError,
    OutcomeUnknownError,
    SlowDownError,
    StorageError,
    UnusableStorageError,
)
from bucketq.figures import Figures
from bucketq.lookout import Lookout
from bucketq.mint import Mint
from bucketq.operation import Heartbeat, Operation, operations_in, wakes_of
from bucketq.overdue import Overdue
from bucketq.pace import Pace
from bucketq.patience import Patience
from bucketq.pending import Pending, give_answer, ignore, refuse
from bucketq.retry import Backoff
from bucketq.riders import Riders
from bucketq.segment import Needed
from bucketq.settings import Settings
from bucketq.shelf import Shelf
from bucketq.stale import StaleWatch
from bucketq.state import QueueState, Stats
from bucketq.storage.port import Bucket, ObjectStoragePort, Provable, Watchable, describe
from bucketq.tracing.switch import TRACING

log = logging.getLogger("bucketq")

T = TypeVar("T")

# Longer than a write waits for the lock of a file.
_ANSWER_S_MIN = 4.0

Outcomes = list[tuple[Pending, object]]

# Looks that a writer which waits for its turn has under way at a time.
_LOOKS_MAX = 8


class Rest(NamedTuple):
    """What a batch leaves to be done."""

    # What sets the answers of abandoned callers right again.
    amends: list[Operation]
    # Operations that can be answered when segments, at least the first of each, have been read.
    deferred: dict[tuple[Needed, ...], list[Pending]]


class Committer:
    """Owns the cached state of one queue and commits batches to it, one at a time."""

    def __init__(
        self,
        storage: ObjectStoragePort,
        *,
        settings: Settings,
        backoff: Backoff,
        clock: Clock,
        mint: Mint,
        account: Account,
        figures: Figures | None = None,
        answer_within_s: float | None = None,
    ) -> None:
        # Callers have time for a few commits.
        self.pace = Pace(settings.commit_interval_s, max(1.0, settings.retry_for_s / 3))
        # The last version that was seen, and when.
        self._seen = 0, float("-inf")
        self.account = account
        self.figures = figures or Figures()
        # As this process last saw it; None when it has to be read before the next commit.
        self.state: QueueState | None = None
        # The counts, as they were when the storage held them.
        self.stats: Stats | None = None
        self.is_busy = False
        # When the last write was sent, whether it landed or not; and when, at first, the last that landed.
        self.sent_s = self.landed_sent_s = float("-inf")
        self.shelf = Shelf(settings.segment_cache_bytes)
        # Objects that the queue does not refer to any more.
        self.dropped: list[str] = []
        # Batches whose objects are in the archive: the next write lets go of them.
        self.archived: set[str] = set()
        # Batches that this writer has sealed.
        self.sealed: set[str] = set()
        # That of the object as it was seen, or written, last.
        self.etag: str | None = None
        self.lookout = Lookout(storage, clock)
        self._encoder: StateEncoder | None = None
        self._storage = storage
        self.bucket = storage if isinstance(storage, Bucket) else None
        self._provable = storage if isinstance(storage, Provable) else None
        self._settings = settings
        self._backoff = backoff
        self._clock = clock
        self._mint = mint
        self._watch = StaleWatch(settings.stale_after_s)
        self._overdue = Overdue(self._watch, clock)
        self.riders = Riders(self._watch, settings.stale_after_s, clock)
        # Beats of workers come every third of the stale timeout: a lost request must not cost their claims.
        self._answer_within_s = answer_within_s or max(_ANSWER_S_MIN, settings.stale_after_s / 4)
        # Since when the storage has not answered, and its last error since it did.
        self._blind_since_s: float | None = None
        self._trouble: Exception | None = None
        # Whether a write of the batch was sent that may land; whether a caller was given an error meanwhile.
        self._may_land = self._has_left = False
        self._writer = mint.token()
        self._number = 0
        # Where a storage tells of changes it is a file or memory, and there a loser reads in no time.
        is_alone = settings.sole_writer or isinstance(storage, Watchable)
        self._contention = Contention(self._writer, is_alone)
        self._seen_etags: deque[str | None] = deque(maxlen=_LOOKS_MAX)
        self._looks: set[asyncio.Task[tuple[bytes, str | None] | None]] = set()

    async def commit(self, batch: list[Pending]) -> Rest:
        """Answer every operation of the batch that can be answered; return what is left to do."""
        riders = self.riders.take()
        self.is_busy = True
        self._may_land = self._has_left = False
        began_s = self._clock.monotonic_s()
        # Commits that are meant to be apart are not late.
        limit_s = self._settings.retry_for_s + max(self.pace.wanted_s, self.account.interval_s())
        since_s = last_since_s(batch, began_s)
        patience = Patience(limit_s, self._backoff, self._clock, self._mint, since_s)
        try:
            if self._trouble is not None and began_s - since_s > max(limit_s, ANSWER_S):
                raise self._trouble
            work = self._settle(batch, riders, patience)
            answers = await in_time(work, batch, since_s, limit_s, self._clock, self._gave_up)
        except Exception as error:
            self.figures.unknown_unsettled += isinstance(error, OutcomeUnknownError)
            self.riders.put_back(riders)
            now_s = self._clock.monotonic_s()
            # Whatever the cache holds of this batch must not outlive its failure.
            self.state = None
            answers = [(pending, with_time(error, now_s - pending.since_s)) for pending in batch]
        except BaseException:
            self.state = None
            refuse(batch, None)
            raise
        finally:
            self.is_busy = False
        rest = Rest([], {})
        for pending, outcome in answers:
            if isinstance(outcome, SegmentNeededError):
                if pending.findings is not None:
                    pending.findings.defer(outcome.segments[0])
                rest.deferred.setdefault(outcome.segments, []).append(pending)
            elif amends := give_answer(pending, outcome):
                rest.amends.append(amends)
        return rest

    @property
    def interval_s(self) -> float:
        """How far commits have to be apart now: as is wanted, as the storage bears, as the budget allows."""
        return max(self.pace.interval_s(self._clock.monotonic_s()), self.account.interval_s())

    def held_for_s(self, waited_s: float) -> float:
        """For how long the budget holds the next commit back for somebody who has waited; 0 if it may go."""
        if (interval_s := self.account.interval_s()) <= waited_s:
            return 0.0
        return max(0.0, min(self.sent_s + interval_s - self._clock.monotonic_s(), interval_s - waited_s))

    def _gave_up(self) -> Exception:
        """What a caller is told whose time is up."""
        self._has_left = True
        if self._trouble is None:
            self._trouble = StorageError(f"{describe(self._storage)} has not answered")
        return _unknown(self._trouble) if self._may_land else self._trouble

    async def _settle(
        self, batch: list[Pending], riders: dict[str, Heartbeat], patience: Patience
    ) -> Outcomes:
        began_s = self._clock.monotonic_s()
        is_current = self._settings.sole_writer
        # A conflict would cost some milliseconds.
        if self.state is None or (not is_current and self.lookout.has_changed(self.etag)):
            await self._look(patience)
            is_current = True
        while True:
            assert self.state is not None
            claims, retries = self.state.claims, self.state.retries
            answers, changed = self._apply(batch, riders)
            if changed:
                if await self._await_turn(patience):
                    is_current = True
                    continue
                applied = self.state
                if await self._write_traced(patience, len(answers)):
                    operations = sum(operations_in(pending.operation) for pending, _ in answers)
                    self.figures.landed(operations, self._clock.monotonic_s() - began_s)
                    self.figures.claims += applied.claims - claims
                    self.figures.retries += applied.retries - retries
                    return answers
            elif is_current or not _any_is_answered(answers) or not await self._look(patience):
                self.riders.put_back(riders)
                return answers
            # What was read since the batch was submitted is current enough to answer it.
            is_current = True

    def _apply(self, batch: list[Pending], riders: Mapping[str, Heartbeat]) -> tuple[Outcomes, bool]:
        assert self.state is not None
        state = self.state
        changes_before, state.applied_at = state.changes, self._clock.now()
        self._has_left = False
        self._overdue.end_attempts(state)
        self._overdue.requeue_silent(state, batch, riders.values())
        answers: Outcomes = []
        for pending in batch:
            if pending.answer is None or not pending.answer.done():
                searching, findings = pending.searching()
                self.shelf.serve(findings)
                outcome = _outcome(state, pending.operation)
                answers.append((searching, outcome))
                if isinstance(outcome, SegmentNeededError):
                    for wake in wakes_of(pending.operation):
                        _outcome(state, wake)
        self.shelf.serve(None)
        if state.changes == changes_before:
            return answers, False
        for beat in riders.values():
            # One whose claim is gone meanwhile learns it from its next heartbeat.
            _outcome(state, beat)
        for name in self.archived:
            state.drop_archived(name)
        return answers, True

    async def _await_turn(self, patience: Patience) -> bool:
        """Wait until this writer may write; say whether it has read a newer state meanwhile."""
        contention, has_changed = self._contention, False
        # A committer may go on in another event loop; what began in the old one is lost.
        self._looks = {look for look in self._looks if look.get_loop() is asyncio.get_running_loop()}
        while not patience.is_exhausted():
            now_s = self._clock.monotonic_s()
            left_s = contention.wait_s(now_s)
            if not left_s:
                break
            if len(self._looks) < _LOOKS_MAX:
                if not contention.look_in_s(now_s):
                    contention.looked(now_s)
                    look = asyncio.create_task(self._fetch(), name="bucketq look")
                    look.add_done_callback(ignore)
                    self._looks.add(look)
                left_s = min(left_s, contention.look_in_s(now_s))
            if not self._looks:
                await asyncio.sleep(left_s)
                continue
            # Looks that come too late are left alone: to cancel a request costs its connection.
            done, self._looks = await asyncio.wait(
                self._looks, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
            # One that failed is another's business: the write will meet the same trouble, and see to it.
            for found in [look.result() for look in done if not look.cancelled() and not look.exception()]:
                # Most of what is on its way when something new is found brings the same once more.
                if found is not None and found[1] not in self._seen_etags:
                    has_changed |= self._adopt(*found, if_newer=True)
        return has_changed

    async def _write_traced(self, patience: Patience, operations: int) -> bool:
        if TRACING.spans is None:
            return await self._write(patience)
        with TRACING.spans.committing(operations) as span:
            has_landed = await self._write(patience)
            assert self.state is not None
            span.set_attribute("bucketq.version", self.state.version)
            span.set_attribute("bucketq.landed", has_landed)
            span.set_attribute("bucketq.failed_writes", patience.attempts)
            return has_landed

    async def _write(self, patience: Patience) -> bool:
        """Write the state: True once it has landed, False if another commit came first."""
        assert self.state is not None
        assert self._encoder is not None
        if self._provable is not None:
            await self._provable.prove()
        if self.state.is_seal_due(self._clock.now()):
            self.state.seal()
        self._number = self._contention.number_after(self._number)
        self.state.stamp(self._writer, self._number)
        stats = self.state.stats
        if not stats.is_conserved:
            raise AssertionError(f"this commit would lose or double a job: {stats}")
        version, touched, dropped = self.state.version, tuple(self.state.touched), self.state.dropped
        self.state.dropped = []
        pieces = self._encoder.encode()
        unanswered: Exception | None = None
        first_sent_s = self._clock.monotonic_s()
        while True:
            if self._has_left and unanswered is None:
                # A caller was told that nothing was written: these bytes would write what it asked for.
                self.state = None
                await self._look(patience)
                return False
            try:
                self._may_land = True
                self.etag = await self._answered(self._put(pieces), patience)
            except UnusableStorageError as error:
                if unanswered:
                    raise _unknown(unanswered) from error
                raise
            except NotWrittenError as error:
                self._may_land = unanswered is not None
                self._note(error, patience)
                if patience.is_exhausted():
                    if unanswered:
                        raise _unknown(unanswered) from error
                    raise
                await patience.pause()
            except (CASConflictError, StorageError, OSError) as error:
                unanswered = error
                self._note(error, patience)
                self._contention.refused(self._clock.monotonic_s())
                # Asked before the pause: what comes after it is another try.
                is_last = patience.is_exhausted()
                interval_s = self.pace.interval_s(self._clock.monotonic_s())
                await patience.pause(interval_s if isinstance(error, SlowDownError) else 0)
                if await self._look(patience, unanswered=error):
                    self._may_land = False
                    if not self._is_in_what_was_found(version, error, is_last):
                        if self._contention.is_far:
                            patience.calm()
                        return False
                    self._note_landing(version, dropped, first_sent_s)
                    return True
                if is_last:
                    raise _unknown(error) from error
            else:
                self._see()
                self._seen_etags.append(self.etag)
                self._contention.took(self._clock.monotonic_s() - self.sent_s)
                self._contention.saw(self.state.signatures.writers, self._clock.monotonic_s())
                self.stats = stats
                self.pace.landed(self._clock.monotonic_s())
                self._note_landing(version, dropped, first_sent_s)
                self._watch.observe(self.state, touched, self._clock.monotonic_s())
                return True

    def _note_landing(self, version: int, dropped: list[str], first_sent_s: float) -> None:
        assert self.state is not None
        self.landed_sent_s = first_sent_s
        self._seen = version, self._clock.monotonic_s()
        self.lookout.wrote()
        self.figures.queue_bytes = self.state.size
        self.dropped += dropped
        names = self.state.ledger.sealed.keys()
        self.archived &= names
        self.sealed = (self.sealed & names) | {name for name in names if version_of_batch(name) == version}

    async def _put(self, pieces: list[bytes]) -> str:
        self.sent_s = self._clock.monotonic_s()
        try:
            with self.figures.counting_failures():
                if self.bucket is not None:
                    return await self.bucket.write(pieces, if_match=self.etag)
                return await self._storage.write(b"".join(pieces), if_match=self.etag)
        finally:
            self.figures.write_s.add(self._clock.monotonic_s() - self.sent_s)

    async def _answered(self, request: Coroutine[Any, Any, T], patience: Patience) -> T:
        """The answer to a request; it may take longer each time."""
        within_s = self._answer_within_s * 2 ** min(patience.attempts, 10)
        scope = asyncio.timeout(within_s)
        try:
            async with scope:
                return await request
        except TimeoutError as error:
            if not scope.expired():
                raise
            told = f"{describe(self._storage)} has not answered within {within_s:g} s"
            raise StorageError(told, error) from error

    def _is_in_what_was_found(self, version: int, error: Exception, is_last: bool) -> bool:
        """Whether the write is in what was read since. Raises if that cannot tell, or at the last try."""
        assert self.state is not None
        if self.state.signatures.holds(self._writer, self._number):
            self.figures.unknown_landed += 1
            log.info("version %d had landed although its answer was lost", version)
            return True
        if self.state.signatures.forgotten_version >= version:
            raise _unknown(error) from error
        # A conflict and a slow-down are answers.
        if not isinstance(error, CASConflictError | SlowDownError):
            self.figures.unknown_lost += 1
        if is_last:
            raise CASConflictError(
                "other writers were faster on every try; nothing was changed. Try again, or let one"
                " BrokerQueue write for many callers."
            ) from error
        return False

    async def _look(self, patience: Patience, unanswered: Exception | None = None) -> bool:
        """Bring the cache up to date; say whether the object had changed."""
        while True:
            try:
                with self.lookout.looking(), self.figures.counting_failures():
                    found = await self._answered(self._fetch(), patience)
                    self._see()
                    if found is not None:
                        self._adopt(*found)
                return found is not None
            except Exception as error:
                is_passing = isinstance(error, StorageError | OSError)
                if is_passing and not isinstance(error, UnusableStorageError):
                    self._note(error, patience)
                    if not patience.is_exhausted():
                        await patience.pause()
                        continue
                if unanswered:
                    raise _unknown(unanswered) from error
                raise

    async def _fetch(self) -> tuple[bytes, str | None] | None:
        began_s = self._clock.monotonic_s()
        found = await self._read()
        self._contention.took(self._clock.monotonic_s() - began_s)
        return found

    async def _read(self) -> tuple[bytes, str | None] | None:
        if self.state is None:
            return await self._storage.read()
        if self.bucket is not None:
            return await self.bucket.read_if_changed(self.etag)
        content, etag = await self._storage.read()
        return None if etag == self.etag else (content, etag)

    def _adopt(self, content: bytes, etag: str | None, if_newer: bool = False) -> bool:
        state = QueueState() if etag is None else decode(content, describe(self._storage))
        self._seen_etags.append(etag)
        if if_newer and self.state is not None and state.version <= self.state.version:
            return False
        if self.etag is not None and not content:
            what = "gone: somebody deleted it" if etag is None else "empty: somebody emptied it"
            log.warning("%s is %s. Starting an empty one.", describe(self._storage), what)
        if self.state is not None:
            self.lookout.news()
        self.state = state
        self._contention.saw(state.signatures.writers, self._clock.monotonic_s())
        self.stats = self.state.stats
        self.state.settings, self.state.shelf = self._settings, self.shelf
        self.state.archives = self._settings.archive and self.bucket is not None
        self.shelf.keep_only(self.state.backlog, self.state.ledger.parts())
        self.etag = etag
        self._encoder = StateEncoder(self.state)
        now_s, (version, seen_s) = self._clock.monotonic_s(), self._seen
        self._seen = self.state.version, now_s
        self.pace.others_landed(self.state.version - version, now_s - seen_s, now_s)
        self._watch.observe_all(self.state, now_s)
        return True

    def _see(self) -> None:
        self._trouble = None
        if self._blind_since_s is not None:
            self._watch.excuse(self._clock.monotonic_s() - self._blind_since_s)
            self._blind_since_s = None

    def _note(self, error: Exception, patience: Patience) -> None:
        self._trouble = error
        if isinstance(error, SlowDownError):
            self.pace.slow_down(self._clock.monotonic_s())
        if not isinstance(error, CASConflictError):
            # A storage that asks to slow down is there, for the workers too.
            if self._blind_since_s is None and not isinstance(error, SlowDownError):
                self._blind_since_s = self._clock.monotonic_s()
            # Once for a batch is enough to be seen.
            level = logging.DEBUG if patience.attempts else logging.WARNING
            log.log(
                level, "storage trouble, trying again for up to %g s: %s", self._settings.retry_for_s, error
            )


def _outcome(state: QueueState, operation: Operation) -> object:
    try:
        return state.apply(operation)
    except Exception as error:
        return error


def _any_is_answered(answers: Outcomes) -> bool:
    return not all(isinstance(outcome, SegmentNeededError) for _, outcome in answers)


def _unknown(error: Exception) -> OutcomeUnknownError:
    return OutcomeUnknownError(
        f"a write was sent and its fate could not be learnt ({error})."
        " Look into the queue before repeating what was asked.",
        error,
    )
