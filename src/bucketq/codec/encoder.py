"""StateEncoder: QueueState -> the pieces of queue.json."""

import msgspec
from msgspec.structs import replace

from bucketq.backlog import Backlog
from bucketq.batches import JobBatch
from bucketq.codec.document import FORMAT, Header
from bucketq.jobline import encode_job
from bucketq.ledger import FinishedLine
from bucketq.schedule import Schedules, encode_schedule
from bucketq.state import QueueState

_JOBS_PER_BLOCK = 64
_encode = msgspec.json.Encoder().encode


class StateEncoder:
    """Encodes one state again and again; only the jobs touched in between cost anything.

    Jobs that were enqueued one after another share a block. A commit encodes the jobs it
    touched, joins their blocks, and passes on all other blocks as they are: a queue of
    megabytes is written without being copied.
    """

    def __init__(self, state: QueueState) -> None:
        self._state = state
        self._blocks: dict[int, dict[str, bytes]] | None = None
        self._joined: dict[int, bytes] = {}
        self._backlog = Backlog()
        self._manifest = b""
        self._schedules = Schedules()
        self._schedule_lines = b""
        self._finished: list[FinishedLine] | None = None
        self._finished_blocks: list[bytes] = []
        self._kept_keys = -1, b""
        self._batches: dict[str, bytes] | None = None
        self._batch_lines = b""

    def encode(self) -> list[bytes]:
        """The pieces of a queue.json that holds the state as it is now."""
        self._join_touched_blocks()
        state = self._state
        header = Header(
            format=FORMAT,
            version=state.version,
            sequence=state.sequence,
            enqueued_total=state.enqueued_total,
            completed_total=state.completed_total,
            dead_total=state.dead_total,
            cancelled_total=state.cancelled_total,
            writers=state.signatures.writers,
            forgotten_version=state.signatures.forgotten_version,
            collected_version=state.collected_version,
            epoch=state.epoch,
        )
        if state.backlog is not self._backlog:
            self._backlog = state.backlog
            lines = b",\n".join(map(_encode, state.backlog))
            self._manifest = b',"segments":[\n%b\n]' % lines if lines else b""
        pieces = [
            _encode(header)[:-1],
            *self._marks(),
            *self._on_the_way(),
            self._manifest,
            b',"jobs":[\n',
        ]
        for block in self._joined.values():
            pieces += (block, b",\n")
        if self._joined:
            pieces.pop()
        pieces.append(b"\n]}\n")
        state.size = sum(map(len, pieces))
        return pieces

    def _marks(self) -> list[bytes]:
        """The pieces for who leads, and for what brokers' clients and bulk loads have done."""
        state = self._state
        pieces = []
        if state.leader is not None:
            pieces.append(b',"leader":' + _encode(state.leader))
        sessions = state.sessions
        if sessions.forgotten_version:
            pieces.append(b',"forgotten_sessions":%d' % sessions.forgotten_version)
        if sessions.marks:
            pieces.append(b',"sessions":' + _encode(sessions.marks))
        if state.loads.marks:
            pieces.append(b',"loads":' + _encode(state.loads.marks))
        if state.kept_keys:
            if self._kept_keys[0] != state.kept_keys.changes:
                self._kept_keys = state.kept_keys.changes, _encode(state.kept_keys.kept)
            pieces += (b',"kept_keys":', self._kept_keys[1])
        self._join_touched_batches()
        pieces.append(self._batch_lines)
        if state.schedules is not self._schedules:
            self._schedules = state.schedules
            spelt = b",\n".join(map(encode_schedule, state.schedules))
            self._schedule_lines = b',"schedules":[\n%b\n]' % spelt if spelt else b""
        pieces.append(self._schedule_lines)
        if state.limits:
            pieces.append(b',"limits":' + _encode(state.limits))
        if state.buckets:
            pieces.append(b',"buckets":' + _encode(state.buckets.stored()))
        if state.turns:
            pieces.append(b',"turns":' + _encode(state.turns.stored()))
        return pieces

    def _on_the_way(self) -> list[bytes]:
        """The pieces for what is on its way to the archive, or has arrived there."""
        ledger = self._state.ledger
        pieces = []
        if ledger.archived:
            pieces.append(b',"archived":' + _encode(ledger.archived))
        if ledger.expired_total:
            counts = _encode(ledger.expired), ledger.expired_total
            pieces.append(b',"expired":%b,"expired_total":%d' % counts)
        if sealed := {name: batch.lines for name, batch in ledger.sealed.items() if batch.lines}:
            batches = (
                _encode(name) + b":[\n" + b",\n".join(lines) + b"\n]" for name, lines in sealed.items()
            )
            pieces.append(b',"sealed":{' + b",".join(batches) + b"}")
        if staged := {name: batch.parts for name, batch in ledger.sealed.items() if batch.parts}:
            pieces.append(b',"staged":' + _encode(staged))
        if ledger.finished is not self._finished:
            self._finished, self._finished_blocks = ledger.finished, []
        if not ledger.finished:
            return pieces
        # It only grows until it is sealed, so that full blocks are joined once.
        done = len(self._finished_blocks) * _JOBS_PER_BLOCK
        for start in range(done, len(ledger.finished) - _JOBS_PER_BLOCK + 1, _JOBS_PER_BLOCK):
            block = ledger.finished[start : start + _JOBS_PER_BLOCK]
            self._finished_blocks.append(b",\n".join(entry.line for entry in block) + b",\n")
        rest = ledger.finished[len(self._finished_blocks) * _JOBS_PER_BLOCK :]
        tail = b",\n".join(entry.line for entry in rest)
        if not rest:
            *blocks, last = self._finished_blocks
            return [*pieces, b',"finished":[\n', *blocks, last[:-2], b"\n]"]
        return [*pieces, b',"finished":[\n', *self._finished_blocks, tail, b"\n]"]

    def _join_touched_batches(self) -> None:
        batches = self._state.batches
        if self._batches is None:
            self._batches, batches.touched = {}, dict.fromkeys(name for name, _ in batches)
        if not batches.touched:
            return
        for name in batches.touched:
            batch = batches.get(name)
            if batch is None:
                self._batches.pop(name, None)
            else:
                self._batches[name] = _encode(name) + b":" + encode_batch(batch)
        batches.touched.clear()
        lines = b",\n".join(self._batches.values())
        self._batch_lines = b',"batches":{\n%b\n}' % lines if lines else b""

    def _join_touched_blocks(self) -> None:
        state = self._state
        touched = state.touched
        if self._blocks is None:
            self._blocks = {}
            touched = {job.id: job.sequence for job in state.jobs}
        numbers = []
        for job_id, sequence in touched.items():
            number = sequence // _JOBS_PER_BLOCK
            numbers.append(number)
            block = self._blocks.setdefault(number, {})
            job = state.find(job_id)
            if job is not None:
                block[job_id] = encode_job(job)
            else:
                block.pop(job_id, None)
        for number in dict.fromkeys(numbers):
            if self._blocks[number]:
                self._joined[number] = b",\n".join(self._blocks[number].values())
            else:
                del self._blocks[number]
                self._joined.pop(number, None)
        state.touched.clear()


def encode_batch(batch: JobBatch) -> bytes:
    """A batch, with its follower as a job's line spells it."""
    if batch.then is None:
        return _encode(batch)
    return _encode(replace(batch, then=None))[:-1] + b',"then":' + encode_job(batch.then) + b"}"


def encode(state: QueueState) -> bytes:
    """The bytes of a queue.json that holds this state."""
    return b"".join(StateEncoder(state).encode())
