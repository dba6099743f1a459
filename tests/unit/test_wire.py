"""The messages between brokers and clients: what goes in comes out, and the generated code is current."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from bucketq import (
    ClaimLostError,
    ConfigurationError,
    Job,
    JobCancelledError,
    JobNotFoundError,
    JobStatus,
    KeyTakenError,
    OutcomeUnknownError,
    PayloadError,
    ScheduleNotFoundError,
    Stats,
)
from bucketq.batches import JobBatch, NamedBatch
from bucketq.errors import NotLeaderError, SessionForgottenError
from bucketq.job import Attempt, Claim, Outcome
from bucketq.ledger import StagedPart
from bucketq.limits import Limits
from bucketq.operation import (
    Ack,
    AckMany,
    Adopt,
    Bury,
    Count,
    Crash,
    Dequeue,
    DequeueSegment,
    Elect,
    Enqueue,
    EnqueueSegments,
    Find,
    Heartbeat,
    HeartbeatMany,
    HeartbeatSegment,
    Nack,
    Refresh,
    Release,
    ReleaseSegment,
    RequeueSilent,
    SettleSegment,
    Transact,
)
from bucketq.operation.schedules import ListSchedules, PutSchedule, RemoveSchedule
from bucketq.operation.settlements import Cancel, Discard, Redrive, SettleMany
from bucketq.schedule import Missed, Schedule
from bucketq.segment import Hold, Segment
from bucketq.segment_claim import SegmentClaim
from bucketq.v1 import queue_pb2 as pb
from bucketq.wire import answer_message, answer_of, operation_message, operation_of
from bucketq.wire.jobs import new_job_of

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 1, 1, 12, 30, 0, 123456, tzinfo=UTC)
NEW = Job(id="1", entrypoint="mail", payload=b"\x00", priority=-5, max_attempts=7, created_at=NOW)
FULL = Job(
    id="1",
    entrypoint="mail",
    payload_object="payloads/000000000008-00000000000000aa",
    payload_size=70_000,
    status=JobStatus.IN_PROGRESS,
    priority=-(2**53 - 1),
    created_at=NOW,
    heartbeat_at=NOW + timedelta(seconds=1),
    sequence=2**53 - 1,
    attempts=3,
    max_attempts=2**53 - 1,
    claimed_at=NOW + timedelta(microseconds=1),
    token="t",
    worker="host:1",
    error="no",
    history=(Attempt(claimed_at=NOW, ended_at=NOW, outcome=Outcome.STALE, worker="", error=None),),
)
SEGMENT = Segment(
    name="backlog/000000000008-00000000000000bb.json",
    entrypoint="mail",
    count=3,
    size=100,
    first=(1, 0, 8),
    last=(1, 0, 10),
    ids=("a", "b"),
)
HELD = replace(
    SEGMENT,
    status=JobStatus.IN_PROGRESS,
    plain=True,
    hold=Hold(token="t", worker="host:1", claimed_at=NOW, heartbeat_at=NOW),
)
PART = StagedPart(
    name="staged/000000000008-00000000000000cc.json",
    hour="2026-01-01T12",
    count=1,
    size=100,
    ids=("a", "a"),
)
CRON = Schedule(name="report", cron="30 9 * * *", tz="Europe/Vienna", missed=Missed.ALL, job=NEW)
EVERY = Schedule(name="poll", every_s=1.5, next_at=NOW, last_at=NOW - timedelta(seconds=1), job=NEW)
DEAD = replace(FULL, status=JobStatus.DEAD, token=None)
BATCH = NamedBatch("9", JobBatch(total=3, left=2, failed=1, then=NEW))
CLAIM, UNFENCED = Claim("1", "t"), Claim("2")
OUTCOMES = (Nack(CLAIM, "no", NOW, 7.5, "line 7"), Bury(CLAIM, "never", NOW), Crash(CLAIM, NOW))
ONCE = replace(NEW, max_attempts=1, max_crashes=1)
OPERATIONS = [
    Enqueue((NEW, NEW)),
    Enqueue((ONCE, replace(ONCE, max_crashes=3), replace(ONCE, max_attempts=2, max_crashes=3))),
    EnqueueSegments((SEGMENT,)),
    Adopt("import-1", 7, (DEAD, BATCH, CRON, Limits(paused=("mail",))), NOW, (("2", False),), "seen"),
    Dequeue(None, 1, "t", NOW, "host:1"),
    Dequeue("", 10_000, "t", NOW),
    Dequeue(("mail", "thumb"), 1, "t", NOW),
    Ack(CLAIM, NOW, b'{"a":1}'),
    Ack(UNFENCED, NOW),
    AckMany((CLAIM, UNFENCED), NOW),
    AckMany((CLAIM, UNFENCED), NOW, (b"", b"[1]")),
    Nack(CLAIM, None, NOW),
    Nack(CLAIM, "", NOW),
    Bury(CLAIM, "no", NOW),
    Heartbeat(CLAIM, NOW),
    HeartbeatMany((Heartbeat(CLAIM, NOW), Heartbeat(UNFENCED, NOW, 0.5, "half"))),
    Release((CLAIM,)),
    RequeueSilent(NOW - timedelta(minutes=5), NOW),
    Find("1"),
    Count(),
    Refresh(),
    Transact((Ack(CLAIM, NOW), Enqueue((NEW,)))),
    Enqueue((NEW,), "replace"),
    Transact((Enqueue((NEW,), "raise"),)),
    Cancel("1", NOW),
    Cancel("1", NOW, SEGMENT.name),
    Redrive("1", "2", NOW, SEGMENT.name),
    Discard("1", SEGMENT.name),
    SettleMany((Redrive("1", "2", NOW), Discard("3", SEGMENT.name))),
    PutSchedule(CRON, NOW),
    PutSchedule(EVERY, NOW),
    RemoveSchedule("report"),
    ListSchedules(),
    Crash(CLAIM, NOW),
    DequeueSegment("mail", "t", NOW, "host:1"),
    HeartbeatSegment(Claim(SEGMENT.name, "t"), NOW),
    SettleSegment(Claim(SEGMENT.name, "t"), (PART,), OUTCOMES, (SEGMENT,), NOW),
    ReleaseSegment(Claim(SEGMENT.name, "t")),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: type(operation).__name__)
def test_operations_come_as_they_were_sent(operation):
    sent = operation_message(operation).SerializeToString()
    assert operation_of(pb.Operation.FromString(sent), NOW) == operation


ANSWERS = [
    (Enqueue((NEW,)), [Job(**{**{f: getattr(NEW, f) for f in NEW.__struct_fields__}, "sequence": 9})]),
    (Dequeue(None, 1, "t", NOW), [FULL]),
    (Dequeue(None, 1, "t", NOW), []),
    (Dequeue(None, 1, "t", NOW), None),
    (Ack(CLAIM, NOW), None),
    (AckMany((CLAIM,), NOW), []),
    (HeartbeatMany((Heartbeat(CLAIM, NOW),)), []),
    (Nack(CLAIM, None, NOW), FULL),
    (RequeueSilent(NOW, NOW), 3),
    (Refresh(), 2**53 - 1),
    (Count(), Stats(1, 2, 3, 4, 5, 6)),
    (Find("1"), FULL),
    (Find("1"), [SEGMENT]),
    (Find("1"), []),
    (Enqueue((replace(NEW, key="k"),)), [replace(FULL, id="another")]),
    (Cancel("1", NOW), FULL),
    (Cancel("1", NOW), [SEGMENT]),
    (Redrive("1", "2", NOW), FULL),
    (Redrive("1", "2", NOW), [SEGMENT]),
    (Discard("1"), [SEGMENT]),
    (Discard("1"), 1),
    (SettleMany(()), 0),
    (PutSchedule(EVERY, NOW), EVERY),
    (ListSchedules(), [CRON, EVERY]),
    (ListSchedules(), []),
    (DequeueSegment("mail", "t", NOW), SegmentClaim(HELD, 7)),
    (DequeueSegment("mail", "t", NOW), None),
]


def test_a_client_that_sets_no_crashes_gets_as_many_as_attempts():
    for attempts, crashes in ((0, 3), (1, 1), (2, 2), (9, 3)):
        message = pb.NewJob(id="1", entrypoint="mail", created_at_us=1, max_attempts=attempts)
        assert new_job_of(message, NOW, None).max_crashes == crashes
        message.options.timeout_s = 1.0
        assert new_job_of(message, NOW, None).max_crashes == crashes


@pytest.mark.parametrize(("operation", "answer"), ANSWERS)
def test_answers_come_as_they_were_sent(operation, answer):
    sent = answer_message(operation, answer).SerializeToString()
    assert answer_of(operation, pb.Answer.FromString(sent)) == answer


@pytest.mark.parametrize(
    "error",
    [
        JobNotFoundError("1"),
        ClaimLostError("1", "another worker holds it now"),
        JobCancelledError("1"),
        KeyTakenError("1", "the key is that of job 1"),
        PayloadError("too large"),
        ScheduleNotFoundError("no schedule"),
        OutcomeUnknownError("who knows"),
        NotLeaderError("10.0.0.7:7420"),
        SessionForgottenError(7),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_come_as_they_were_sent(error):
    found = answer_of(Refresh(), answer_message(Refresh(), error))
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))
    [refused] = answer_of(AckMany((), NOW), answer_message(AckMany((), NOW), [error]))
    assert str(refused) == str(error)


def test_what_no_client_sends_is_refused():
    with pytest.raises(ConfigurationError):
        operation_message(Elect("a", "b", None, NOW))
    with pytest.raises(ConfigurationError, match="does not know"):
        operation_of(pb.Operation(), NOW)
    with pytest.raises(ConfigurationError, match="id"):
        operation_of(pb.Operation(enqueue=pb.EnqueueRequest(jobs=[pb.NewJob(entrypoint="mail")])), NOW)
    with pytest.raises(ConfigurationError, match="token"):
        operation_of(pb.Operation(dequeue=pb.DequeueRequest()), NOW)
    with pytest.raises(ConfigurationError, match="from 1 to 100"):
        many = pb.DequeueRequest(token="t", entrypoints=map(str, range(1001)))
        operation_of(pb.Operation(dequeue=many), NOW)
    with pytest.raises(ConfigurationError, match="if_exists"):
        operation_of(pb.Operation(enqueue=pb.EnqueueRequest(if_exists="never")), NOW)
    cancel = pb.Operation(cancel=pb.CancelRequest(job_id="1"))
    with pytest.raises(ConfigurationError, match="redriven or discarded"):
        operation_of(pb.Operation(settle_many=pb.SettleManyRequest(operations=[cancel])), NOW)
    with pytest.raises(ConfigurationError, match="token"):
        operation_of(pb.Operation(dequeue_segment=pb.DequeueSegmentRequest(entrypoint="mail")), NOW)
    with pytest.raises(ConfigurationError, match="nacked, buried"):
        operation_of(pb.Operation(settle_segment=pb.SettleSegmentRequest(failed=[cancel])), NOW)
    with pytest.raises(ConfigurationError, match="segment"):
        operation_of(pb.Operation(enqueue_segments=pb.EnqueueSegmentsRequest(segments=[b"{"])), NOW)


def test_the_generated_code_is_that_of_the_proto(tmp_path):
    """If it is not: make proto."""
    source = "proto/bucketq/v1/queue.proto"
    command = [sys.executable, "-m", "grpc_tools.protoc", "-Iproto", f"--python_out={tmp_path}"]
    subprocess.run([*command, f"--pyi_out={tmp_path}", source], cwd=ROOT, check=True)
    for made in (tmp_path / "bucketq" / "v1").iterdir():
        assert (ROOT / "src" / "bucketq" / "v1" / made.name).read_text() == made.read_text(), made.name
