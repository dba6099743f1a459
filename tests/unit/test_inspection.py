"""Inspection: what a broker does not take from a client, whatever that is written in."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from bucketq import ConfigurationError, Job, JobStatus
from bucketq.batches import JobBatch, NamedBatch
from bucketq.broker.inspection import inspected
from bucketq.errors import PayloadError
from bucketq.failure import ERROR_MAX
from bucketq.job import Claim
from bucketq.limits import Limit, Limits
from bucketq.new_job import NAME_MAX
from bucketq.operation import (
    Ack,
    AckMany,
    Adopt,
    Bury,
    Crash,
    Dequeue,
    DequeueSegment,
    Enqueue,
    EnqueueBatch,
    EnqueueSegments,
    Find,
    FindBatch,
    Heartbeat,
    HeartbeatMany,
    LookUp,
    Nack,
    Release,
    ReleaseSegment,
    SettleSegment,
    Transact,
)
from bucketq.operation.limits import Pause, Resume, SetLimit
from bucketq.operation.schedules import PutSchedule, RemoveSchedule
from bucketq.operation.settlements import Cancel, Discard, Redrive, SettleMany
from bucketq.schedule import Schedule
from bucketq.segment import Segment
from bucketq.wanted import WANTED_MAX

NOW = datetime(2026, 1, 1, tzinfo=UTC)
JOB = Job(id="1", entrypoint="mail", created_at=NOW)
CLAIM = Claim("1", "t")
PAYLOAD = "payloads/000000000000-00000000000000aa"
LONG = "x" * (NAME_MAX + 1)
OF_BATCH = replace(JOB, id="2", batch="then")
THEN = replace(JOB, id="then", batch="then")
SCHEDULE = Schedule(name="poll", every_s=60.0, job=JOB)
NO_RATE = Limit(rate=float("inf"))
LONG_SEGMENT = Segment(
    name="backlog/1/2", entrypoint=LONG, count=1, size=1, first=(0, 0, 1), last=(0, 0, 1), ids=("", "g")
)

GOOD = {
    "jobs": Enqueue((JOB, replace(JOB, id="2", payload_object=PAYLOAD, payload_size=1))),
    "a batch": EnqueueBatch(THEN, Enqueue((OF_BATCH,)), NOW),
    "an adoption": Adopt("load", 1, (OF_BATCH, SCHEDULE, Limits(entrypoints={"mail": Limit(rate=1.0)})), NOW),
    "a claim": Dequeue("mail", 1, "t", NOW, "w"),
    "a claim by nobody": Dequeue("mail", 1, "t", NOW, None),
    "a beat": Heartbeat(CLAIM, NOW, 0.5, "halfway"),
    "an ack": Ack(CLAIM, NOW, b"[1,2]"),
    "acks": AckMany((CLAIM, CLAIM), NOW, (b"[1,2]", b"")),
    "a transaction": Transact((Enqueue((JOB,)), Ack(CLAIM, NOW), Nack(CLAIM, "no", NOW))),
    "a pause of all": Pause(None),
    "a schedule": PutSchedule(SCHEDULE, NOW),
}
WRONG = {
    "an id that is too long": Enqueue((replace(JOB, id=LONG),)),
    "an entrypoint that is too long": Enqueue((replace(JOB, entrypoint=LONG),)),
    "a segment of an entrypoint that is too long": EnqueueSegments((LONG_SEGMENT,)),
    "a segment of a batch, of an entrypoint that is too long": EnqueueBatch(
        THEN, EnqueueSegments((LONG_SEGMENT,)), NOW
    ),
    "a payload that is no payload": Enqueue((replace(JOB, payload_object="archive/1"),)),
    "a payload that is a segment": Enqueue(
        (replace(JOB, payload_object="backlog/000000000000-00000000000000aa.json"),)
    ),
    "a payload within, and one beside": Enqueue((replace(JOB, payload=b"1", payload_object=PAYLOAD),)),
    "to do a job again of too long a name": Enqueue((replace(JOB, redrive_of="x" * 100_000),)),
    "to wait for too long a name": Enqueue((replace(JOB, after=(LONG,)),)),
    "to wait for nobody": Enqueue((replace(JOB, after=("",)),)),
    "to wait for too many": Enqueue((replace(JOB, after=tuple(map(str, range(1001)))),)),
    "a time before all": Enqueue((replace(JOB, created_at=datetime(1, 1, 1, tzinfo=UTC)),)),
    "a time after all": Enqueue((replace(JOB, created_at=datetime(9999, 1, 1, tzinfo=UTC)),)),
    "more attempts than all": Enqueue((replace(JOB, max_attempts=2**64 - 1),)),
    "more crashes than all": Enqueue((replace(JOB, max_crashes=2**64 - 1),)),
    "a key for ever": Enqueue((replace(JOB, key="k", key_for_s=1e308),)),
    "a timeout that is no number": Enqueue((replace(JOB, timeout_s=float("nan")),)),
    "a job of a batch alone": Enqueue((OF_BATCH,)),
    "a priority beyond all": Enqueue((replace(JOB, priority=2**60),)),
    "a batch whose jobs are of another": EnqueueBatch(THEN, Enqueue((replace(OF_BATCH, batch="x"),)), NOW),
    "a follower of another batch": EnqueueBatch(replace(THEN, batch="x"), Enqueue(()), NOW),
    "a follower that waits": EnqueueBatch(replace(THEN, after=("0",)), Enqueue(()), NOW),
    "a follower with a key": EnqueueBatch(replace(THEN, key="k"), Enqueue(()), NOW),
    "a wrong follower": EnqueueBatch(replace(THEN, entrypoint=LONG), Enqueue(()), NOW),
    "a wrong job of a batch": EnqueueBatch(THEN, Enqueue((replace(OF_BATCH, entrypoint=""),)), NOW),
    "a load that is too long": Adopt(LONG, 1, (), NOW),
    "a wrong job to adopt": Adopt("load", 1, (replace(JOB, entrypoint=LONG),), NOW),
    "a running job to adopt": Adopt("load", 1, (replace(JOB, status=JobStatus.IN_PROGRESS),), NOW),
    "a held job to adopt": Adopt("load", 1, (replace(JOB, token="t"),), NOW),
    "a wrong schedule to adopt": Adopt("load", 1, (replace(SCHEDULE, every_s=-1.0),), NOW),
    "a wrong limit to adopt": Adopt("load", 1, (Limits(entrypoints={"mail": NO_RATE}),), NOW),
    "a pause that is too long to adopt": Adopt("load", 1, (Limits(paused=(LONG,)),), NOW),
    "a wrong limit of a key to adopt": Adopt("load", 1, (Limits(limit_keys={"k": NO_RATE}),), NOW),
    "a batch to adopt of too long a name": Adopt(
        "load", 1, (NamedBatch(LONG, JobBatch(total=1, left=1)),), NOW
    ),
    "a job to adopt that was tried too often": Adopt("load", 1, (replace(JOB, attempts=2**60),), NOW),
    "a job to adopt with a long error": Adopt("load", 1, (replace(JOB, error="x" * 300_000),), NOW),
    "an adoption that has seen too much": Adopt("load", 1, (), NOW, seen=LONG),
    "to settle a job of too long a name": Ack(Claim(LONG, "t"), NOW),
    "to settle by too long a token": Ack(Claim("1", LONG), NOW),
    "to settle many, one of too long a name": AckMany((CLAIM, Claim(LONG, "t")), NOW),
    "to give back a job of too long a name": Release((Claim(LONG, "t"),)),
    "to give back a segment of too long a name": ReleaseSegment(Claim(LONG, "t")),
    "a crash of too long a name": Crash(Claim(LONG, "t"), NOW),
    "a part of a transaction of too long a name": Transact((Ack(Claim(LONG, "t"), NOW),)),
    "to find too long a name": Find(LONG),
    "to look up too long a name": LookUp(LONG),
    "to find a batch of too long a name": FindBatch(LONG),
    "to end a schedule of too long a name": RemoveSchedule(LONG),
    "progress beyond the end": Heartbeat(CLAIM, NOW, 2.0),
    "progress of one of many": HeartbeatMany((Heartbeat(CLAIM, NOW), Heartbeat(CLAIM, NOW, 2.0))),
    "a claim without a token": Dequeue("mail", 1, "", NOW),
    "a claim by too long a name": Dequeue("mail", 1, "t", NOW, LONG),
    "a claim of too long an entrypoint": Dequeue(LONG, 1, "t", NOW),
    "a claim of entrypoints that are too long": Dequeue(("mail", LONG), 1, "t", NOW),
    "a claim of too many entrypoints": Dequeue(tuple(map(str, range(WANTED_MAX + 1))), 1, "t", NOW),
    "a claim of a segment of too long an entrypoint": DequeueSegment(LONG, "t", NOW),
    "a claim of a segment without a token": DequeueSegment("mail", "", NOW),
    "a wrong failure of a segment": SettleSegment(CLAIM, (), (Nack(CLAIM, "no", NOW, -1.0),), (), NOW),
    "results of fewer jobs": AckMany((CLAIM,), NOW, (b"1", b"2")),
    "a wait of less than nothing": Nack(CLAIM, "no", NOW, -1.0),
    "to cancel nothing": Cancel("", NOW),
    "to discard nothing": Discard(""),
    "to redrive nothing": Redrive("", "2", NOW),
    "to redrive as nothing": Redrive("1", "", NOW),
    "to discard nothing among many": SettleMany((Discard("1"), Discard(""))),
    "a schedule of too long a job's name": PutSchedule(replace(SCHEDULE, job=replace(JOB, id=LONG)), NOW),
    "a schedule that comes too often": PutSchedule(
        replace(SCHEDULE, every_s=0.0, cron="0-59," * 10**5 + "0 * * * *"), NOW
    ),
    "a schedule of jobs that may begin for ever": PutSchedule(
        replace(SCHEDULE, job=replace(JOB, expires_at=datetime(9999, 1, 1, tzinfo=UTC))), NOW
    ),
    "a schedule of a wrong job": PutSchedule(replace(SCHEDULE, job=replace(JOB, entrypoint=LONG)), NOW),
    "a wrong schedule": PutSchedule(replace(SCHEDULE, every_s=-1.0), NOW),
    "to pause nothing": Pause(""),
    "to resume nothing": Resume(""),
    "a wrong limit": SetLimit("mail", None, NO_RATE),
    "a transaction of something else": Transact((Release((CLAIM,)),)),
    "a wrong part of a transaction": Transact((Enqueue((replace(JOB, entrypoint=""),)),)),
}


@pytest.mark.parametrize("operation", GOOD.values(), ids=GOOD)
def test_what_makes_sense_passes_as_it_is(operation):
    assert inspected(operation) == operation


@pytest.mark.parametrize("operation", WRONG.values(), ids=WRONG)
def test_what_makes_no_sense_is_refused(operation):
    with pytest.raises(ConfigurationError):
        inspected(operation)


@pytest.mark.parametrize("result", [b"{", b"[1,\n2]"])
def test_a_result_that_is_no_line_of_json_is_refused(result):
    for operation in (Ack(CLAIM, NOW, result), AckMany((CLAIM, CLAIM), NOW, (b"", result))):
        with pytest.raises(PayloadError):
            inspected(operation)


def test_what_is_refused_is_named_in_few_words():
    """A refusal may be kept in queue.json."""
    for operation in WRONG.values():
        with pytest.raises(ConfigurationError) as refused:
            inspected(operation)
        assert len(str(refused.value)) < 1500


def test_a_huge_error_is_cut():
    for operation in (Nack(CLAIM, "x" * 10**6, NOW), Bury(CLAIM, "x" * 10**6, NOW)):
        assert ERROR_MAX < len(inspected(operation).error) < ERROR_MAX + 100
    [failed] = inspected(SettleSegment(CLAIM, (), (Nack(CLAIM, "x" * 10**6, NOW),), (), NOW)).failed
    assert ERROR_MAX < len(failed.error) < ERROR_MAX + 100
