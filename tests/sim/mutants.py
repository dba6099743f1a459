"""Known mistakes, put into the engine one at a time, to prove that the simulator sees them.

A mutant replaces a piece of a function's source text, so that each reads as the slip that
somebody could make.
"""

import inspect
import sys
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass

from bucketq import (
    archive,
    commit,
    group,
    ledger,
    operation,
    overdue,
    ready,
    schedule,
    segment_lines,
    sessions,
    side_objects,
    signatures,
    table,
    upkeep,
)
from bucketq import dispatch as limit_dispatch
from bucketq.broker import broker
from bucketq.operation import chores
from bucketq.remote import lane
from bucketq.state import backlog, claims, contents, dispatch, endings, segment_claims, view


@dataclass(frozen=True)
class Mutant:
    """`right` in the source of `owner.function` becomes `wrong`."""

    mistake: str
    owner: type
    function: str
    right: str
    wrong: str
    # A run in which it shows, as the simulator is now. Where that has changed, the search goes on from there.
    first_seed: int = 0

    @contextmanager
    def at_work(self):
        original = self.owner.__dict__[self.function]
        source = textwrap.dedent(inspect.getsource(original))
        assert source.count(self.right) == 1, f"{self.mistake}: its place in the source has changed"
        module = sys.modules[self.owner.__module__]
        namespace = dict(vars(module))
        exec(compile(source.replace(self.right, self.wrong), "<mutant>", "exec"), namespace)
        setattr(self.owner, self.function, namespace[self.function])
        try:
            yield
        finally:
            setattr(self.owner, self.function, original)


MUTANTS = [
    Mutant(
        "skip the commit-id check: a landed write whose answer was lost is applied again",
        signatures.Signatures,
        "holds",
        "return signature is not None and signature.number == number",
        "return False",
    ),
    Mutant(
        "mint ids in the retry loop: a replay makes a second job",
        operation.Enqueue,
        "__call__",
        "state.enqueue(job,",
        "state.enqueue(msgspec.structs.replace(job, id=f'{job.id}-{state.version}'),",
    ),
    Mutant(
        "answer before the write has landed",
        commit.Committer,
        "_settle",
        "if changed:\n",
        "if changed:\n            [give_answer(*answered) for answered in answers]\n",
        first_seed=4,
    ),
    Mutant(
        "trust the cache for 'empty'",
        commit.Committer,
        "_settle",
        "is_current = self._settings.sole_writer",
        "is_current = True",
        first_seed=3,
    ),
    Mutant(
        "ignore the token on ack",
        claims.WithClaims,
        "_held",
        "claim.token is not None and claim.token != job.token",
        "False",
        first_seed=2,
    ),
    Mutant(
        "requeue by the wall clock, which another writer may have set",
        overdue.Overdue,
        "requeue_silent",
        "self._watch.stale(state, now_s), ",
        "[job for job in state.in_progress_jobs()"
        " if (self._clock.now() - job.heartbeat_at).total_seconds() > self._watch._stale_after_s], ",
    ),
    Mutant(
        "keep the failed batch's mutations in the cache",
        commit.Committer,
        "commit",
        "self.state = None\n        answers = [",
        "answers = [",
        first_seed=90,
    ),
    Mutant(
        "sign each attempt anew: a first attempt that lands late is not recognised",
        commit.Committer,
        "_write",
        "if is_last:",
        "self._number += 1\n"
        "            self.state.signatures.sign(self._writer, self._number, version)\n"
        "            pieces = self._encoder.encode()\n"
        "            if is_last:",
        first_seed=684,
    ),
    Mutant(
        "take a pushed-out signature for a write that never landed",
        commit.Committer,
        "_is_in_what_was_found",
        "self.state.signatures.forgotten_version >= version",
        "False",
        first_seed=2721,
    ),
    Mutant(
        "serve the newest job first",
        ready.ReadyLine,
        "push",
        "(key_of(job), job.id)",
        "((job.priority, -job.sequence), job.id)",
    ),
    Mutant(
        "leave what a refused transaction did before it was refused",
        table.JobTable,
        "roll_back",
        "for job_id, job, was_touched in reversed(undo):",
        "for job_id, job, was_touched in ():",
    ),
    Mutant(
        "answer only the first caller of a batch",
        group.GroupCommit,
        "_run",
        "await self._committer.commit(batch)",
        "await self._committer.commit(batch[:1])",
    ),
    Mutant(
        "never look for stale jobs",
        overdue.Overdue,
        "requeue_silent",
        "if silent or segments:",
        "if False:",
        first_seed=4,
    ),
    Mutant(
        "refer to a segment before it is written",
        side_objects.SideObjects,
        "create_segment",
        "await self.create(segment.name, content)",
        "asyncio.create_task(self.create(segment.name, content))",
    ),
    Mutant(
        "refer to a payload before it is written",
        side_objects.SideObjects,
        "create_payload",
        "await self.create(name, content)",
        "asyncio.create_task(self.create(name, content))",
    ),
    Mutant(
        "delete what a commit drops before it has landed",
        commit.Committer,
        "_write",
        "self.state.dropped = []",
        "self.state.dropped = []\n    self.dropped += dropped",
    ),
    Mutant(
        "let a late commit refer to what was collected",
        contents.Contents,
        "_refuse_collected",
        "version is None or version < self.collected_version",
        "False",
        first_seed=26,
    ),
    Mutant(
        "collect a payload because its job stands in a segment",
        chores.Collect,
        "__call__",
        "if segment.payloads",
        "if False",
    ),
    Mutant(
        "serve what stands in queue.json before what stands in segments",
        dispatch.WithDispatch,
        "_next_ready",
        "key_of(job) < segment.first",
        "True",
    ),
    Mutant(
        "say empty when the segment has not been read",
        operation.Dequeue,
        "__call__",
        "if not claimed or (isinstance",
        "if False and (isinstance",
    ),
    Mutant(
        "spill a job that was claimed meanwhile",
        backlog.WithBacklog,
        "spill",
        "found is job or found == job",
        "found is not None",
        first_seed=2,
    ),
    Mutant(
        "forget that a job left its segment before the segment was taken in",
        backlog.WithBacklog,
        "spill",
        "holes=tuple(moved_on)",
        "holes=()",
        first_seed=5,
    ),
    Mutant(
        "put back what left a segment while it was merged",
        backlog.WithBacklog,
        "merge",
        "held.get(segment.name) != segment",
        "segment.name not in held",
        first_seed=113,
    ),
    Mutant(
        "leave the jobs that were brought in where they came from",
        segment_lines.SegmentLines,
        "take",
        ", first=key, in_line",
        ", in_line",
        first_seed=3,
    ),
    Mutant(
        "let go of a batch before its object is created",
        upkeep.Upkeep,
        "_archive",
        "await self._archive_batch(objects, name, batch)",
        "asyncio.create_task(self._archive_batch(objects, name, batch))",
        first_seed=582,
    ),
    Mutant(
        "seal a finished job twice",
        ledger.Ledger,
        "seal",
        "self.finished, self.finished_size, self.oldest = [], 0, None",
        # One of them: with all of them the file would grow until nothing moves.
        "self.finished, self.finished_size, self.oldest = self.finished[-1:], 0, None",
    ),
    Mutant(
        "remove the payload of a job that is tried again",
        claims.WithClaims,
        "_end_attempt",
        "self._put(ended)",
        "self._put(ended)\n    self.dropped += [job.payload_object] if job.payload_object else []",
    ),
    Mutant(
        "apply a client's batch that is sent again",
        operation.Batch,
        "__call__",
        "mark.number >= self.number",
        "False",
        first_seed=103,
    ),
    Mutant(
        "tell a batch again without its claims",
        operation.Batch,
        "_told_again",
        "else operation and told_by(state, operation, held)",
        "else ([] if isinstance(operation, Dequeue) else operation and told_by(state, operation, held))",
        first_seed=423,
    ),
    Mutant(
        "apply the batch of a client that may be forgotten",
        sessions.Sessions,
        "is_forgotten",
        "session not in self._marks and self.forgotten_version > seen_version",
        "False",
        first_seed=867,
    ),
    Mutant(
        "number a batch anew when it is sent again",
        lane.Lane,
        "_batch",
        "number, seen_version = max(1, self._number), self._seen_version",
        "self._number += 1; number, seen_version = self._number, self._seen_version",
        first_seed=103,
    ),
    Mutant(
        "fire a tick and leave the schedule where it is",
        schedule.Schedules,
        "fired",
        "replace(schedule, next_at=next_at, last_at=last_at)",
        "replace(schedule, last_at=last_at)",
        first_seed=1017,
    ),
    Mutant(
        "let a key be taken while its job runs",
        table.JobTable,
        "_set",
        "if job.key is not None and job.status is not _DEAD:",
        "if job.key is not None and job.status is _QUEUED:",
        first_seed=1005,
    ),
    Mutant(
        "count the running jobs of a limit key one too few",
        limit_dispatch.Dispatcher,
        "_room_of_key",
        "self._table.running_keys.get(limit_key, 0), now",
        "self._table.running_keys.get(limit_key, 0) - 1, now",
        first_seed=1035,
    ),
    Mutant(
        "try a cancelled job again",
        claims.WithClaims,
        "_end_attempt",
        "if job.is_cancelled:",
        "if False:",
        first_seed=1015,
    ),
    Mutant(
        "let a job begin when the first of those it waits for is done",
        endings.WithEndings,
        "_tell",
        "without(child, (job.id,), now)",
        "without(child, child.after, now)",
        first_seed=1025,
    ),
    Mutant(
        "give out jobs of any entrypoint to whoever wants several",
        ready.ReadyLine,
        "first",
        "map(self.head, wanted)",
        "map(self.head, (*wanted, None))",
        first_seed=1001,
    ),
    Mutant(
        "give the results of many jobs to others of them",
        operation.AckMany,
        "__call__",
        "self.results or",
        "self.results[::-1] or",
        first_seed=1013,
    ),
    Mutant(
        "bring a job into line before its time",
        dispatch.WithDispatch,
        "wake",
        "is not None and key_of(job) <= latest",
        "is not None",
        first_seed=1001,
    ),
    Mutant(
        "let a segment of scheduled jobs stand in line before all of them are due",
        dispatch.WithDispatch,
        "_wake_sorted",
        " and segment.last <= latest",
        " and segment.first <= latest",
        first_seed=1029,
    ),
    Mutant(
        "forget which jobs have left a segment while it was written again",
        backlog.WithBacklog,
        "merge",
        "holes=one.holes[len(old[0].holes) :]",
        "holes=()",
        first_seed=1109,
    ),
    Mutant(
        "settle a segment by its name alone",
        segment_claims.WithSegmentClaims,
        "_held_segment",
        "self.backlog.held().get(claim)",
        "{one.job_id: held for one, held in self.backlog.held().items()}.get(claim.job_id)",
        first_seed=1378,
    ),
    Mutant(
        "count no crash when the worker of a segment falls silent",
        segment_claims.WithSegmentClaims,
        "requeue_stale_segment",
        "plain=False, crash=crash",
        "plain=True",
        first_seed=1002,
    ),
    Mutant(
        "claim a segment though others stand among its jobs",
        segment_claims.WithSegmentClaims,
        "claim_segment",
        "(job and key_of(job) < segment.last) or (follower and follower < segment.last)",
        "job and key_of(job) < segment.first",
        first_seed=1026,
    ),
    Mutant(
        "collect the lines of completed jobs before they are archived",
        view.View,
        "object_names",
        "payloads | segments | {part.name for part in self.ledger.parts()}",
        "payloads | segments",
        first_seed=1242,
    ),
    Mutant(
        "let go of staged lines before the archive has them",
        upkeep.Upkeep,
        "_archive_batch",
        "lines += part.lines(await objects.read(part.name))",
        "await objects.read(part.name)",
        first_seed=1002,
    ),
    Mutant(
        "pass over staged lines when the archive is read",
        archive.Archive,
        "sealed_lines",
        "for part in batch.parts:",
        "for part in ():",
        first_seed=2594,
    ),
    Mutant(
        "replace every leader at the own address, not only the one that was there at the start",
        broker.Broker,
        "_is_predecessor",
        " and not self._has_looked",
        "",
        first_seed=11,
    ),
]
