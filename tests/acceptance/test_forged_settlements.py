"""A worker settles the jobs of a segment that it has claimed, and writes nothing else to the archive."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import grpc
import msgspec
import pytest
from msgspec.structs import replace

import bucketq
from bucketq import BucketQError, Settings
from bucketq.archive_name import hour_of
from bucketq.broker.tokens import new_token
from bucketq.job import Claim, Job
from bucketq.ledger import StagedPart, batch_content, batch_lines
from bucketq.object_name import segment_name, staged_name
from bucketq.operation import Bury, DequeueSegment, Nack, SettleSegment
from bucketq.segment_claim import CompletedJobs, given_back
from bucketq.segment_lines import SegmentWriter
from bucketq.side_objects import SideObjects
from bucketq.v1 import queue_pb2 as pb
from bucketq.wire import operation_message
from tests.acceptance.served import served, url_of

SETTINGS = ("--hot-jobs-max", "20", "--segment-jobs-max", "10")
PRODUCER, WORKER = new_token("web", ["producer"]), new_token("mailer", ["worker"])
TOKENS = ";".join(token.line for _, token in (PRODUCER, WORKER))


class Work:
    """A worker with a real token that has claimed a segment, and forges what it writes."""

    def __init__(self, queue, claim, jobs):
        self.queue, self.claim, self.jobs = queue, claim, jobs
        self._names = iter(range(1, 1000))

    @property
    def name(self):
        return staged_name(self.claim.version, f"{next(self._names):016x}")

    async def part(self, jobs, change=lambda lines: lines, now=None, **entry):
        """Stage lines, changed as a function says, and an entry, changed as told."""
        completed = CompletedJobs()
        for job in jobs:
            completed.add(job, now or datetime.now(UTC), b'{"by":"%b"}' % job.id.encode())
        [(honest, content)] = completed.finish(self.claim.version, lambda: f"{next(self._names):016x}")
        content = batch_content(change(batch_lines(content)))
        part = replace(honest, name=self.name, size=len(content), **entry)
        await self.queue.storage.objects.create(part.name, content)
        return part

    async def rest(self, jobs, **entry):
        """Write a segment of jobs, with an entry that is changed as told."""
        writer = SegmentWriter()
        for job in jobs:
            writer.add(job)
        name = segment_name(self.claim.version, f"{next(self._names):016x}")
        segment, content = writer.finish(name)
        await self.queue.storage.objects.create(name, content)
        return replace(segment, **entry)

    async def is_refused(self, *args, **kwargs):
        before = await self.queue.stats()
        with pytest.raises(BucketQError) as refused:
            await self.queue.settle_segment(self.claim, *args, **kwargs)
        assert await self.queue.stats() == before
        assert "Nothing was changed" in str(refused.value)


@asynccontextmanager
async def working(tmp_path):
    url = f"file://{tmp_path}/queue.json"
    with served(url, *SETTINGS, BUCKETQ_TOKENS=TOKENS) as broker:
        broker.wait_for("leading")
        at = url_of("grpc", broker)
        small = Settings(hot_jobs_max=20, segment_jobs_max=10)
        async with bucketq.connect(at, token=PRODUCER[0], settings=small) as q:
            await q.enqueue_many("mail", [b'{"to":"alice"}'] * 60)
        async with bucketq.connect(at, token=WORKER[0]) as q:
            claim = await q.dequeue_segment("mail", "worker-1")
            content = await q.storage.objects.read(claim.segment.name)
            work = Work(q, claim, claim.jobs(content))
            work.address = broker.address
            yield work
            # It still holds the claim, and can settle honestly.
            jobs = work.jobs
            await q.settle_segment(claim, await honest(work, jobs))
            assert (await q.stats()).completed_total == len(jobs)
            assert await q.result(jobs[0].id, timeout=20) == {"by": jobs[0].id}
        assert [line for line in broker.log if line.get("level") == "error"] == []


async def honest(work, jobs):
    completed = CompletedJobs()
    for job in jobs:
        completed.add(job, datetime.now(UTC), b'{"by":"%b"}' % job.id.encode())
    return await SideObjects(work.queue.storage.objects).create_staged(completed, work.claim.version)


def in_first(old, new):
    def change(lines):
        assert old in lines[0]
        return [lines[0].replace(old, new, 1), *lines[1:]]

    return change


def with_fields(**fields):
    def change(lines):
        return [msgspec.json.encode(msgspec.json.decode(lines[0]) | fields), *lines[1:]]

    return change


OTHER_TIME = "2020-01-01T00:00:00Z"
FORGED_LINES = {
    "payload": in_first(b"alice", b"mallory"),
    "entrypoint": in_first(b'"entrypoint":"mail"', b'"entrypoint":"pay"'),
    "id of a stranger": in_first(b'"id":"', b'"id":"stranger-'),
    "id of another job": lambda lines: [lines[1], *lines[1:]],
    "created_at": with_fields(created_at=OTHER_TIME),
    "claimed_at": with_fields(claimed_at=OTHER_TIME),
    "worker": with_fields(worker="another"),
    "status": with_fields(status="dead"),
    "priority": with_fields(priority=-5),
    "attempts": with_fields(attempts_total=7),
    "error": with_fields(error="x"),
    "key": with_fields(key="k"),
    "tenant": with_fields(tenant="acme"),
    "redrive_of": with_fields(redrive_of="1"),
    "traceparent": with_fields(traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    "payload_object": with_fields(payload_object="payloads/000000000008-00000000000000aa"),
    "format": with_fields(v=2),
    "unknown field": with_fields(surprise=1),
    "batch of the archive": with_fields(batch=1),
    "field twice": in_first(b'"entrypoint":"mail"', b'"entrypoint":"pay","entrypoint":"mail"'),
    "result twice": in_first(b',"result":', b',"result":1,"result":'),
    "result too large": in_first(b'"by":"', b'"by":"' + b"x" * 70_000),
    "result nests deeply": in_first(b'"result":', b'"result":' + b"[" * 70 + b"]" * 70 + b',"other":'),
    "result is no JSON": in_first(b'"result":{', b'"result":{,'),
    "spaces": in_first(b'"entrypoint":"mail"', b'"entrypoint": "mail"'),
    "garbage": lambda lines: [b"garbage", *lines[1:]],
    "not UTF-8": lambda lines: [b"\xff" * 100, *lines[1:]],
    "empty": lambda lines: [b"", *lines[1:]],
    "null": lambda lines: [b"null", *lines[1:]],
    "finished before the claim": with_fields(finished_at=OTHER_TIME),
    "fewer lines": lambda lines: lines[1:],
    "more lines": lambda lines: [*lines, lines[0]],
    "many short lines": lambda lines: [b""] * 100_000,
}


async def test_forged_lines_are_refused(tmp_path):
    async with working(tmp_path) as work:
        for name, change in FORGED_LINES.items():
            print(name)
            await work.is_refused([await work.part(work.jobs, change)])


async def test_forged_entries_of_lines_are_refused(tmp_path):
    async with working(tmp_path) as work:
        now, jobs = datetime.now(UTC), work.jobs
        for entry in (
            {"hour": hour_of(now + timedelta(hours=5))},
            {"ids": ("zz", "zz")},
            {"count": len(jobs) - 1},
        ):
            await work.is_refused([await work.part(jobs, **entry)])
        far = now + timedelta(days=400)
        await work.is_refused([await work.part(jobs, now=far)])
        absent = StagedPart(name=work.name, hour=hour_of(now), count=len(jobs), size=9, ids=("0", "z"))
        with pytest.raises(BucketQError):
            await work.queue.settle_segment(work.claim, [absent])


async def test_each_job_has_exactly_one_outcome(tmp_path):
    async with working(tmp_path) as work:
        first, *others = jobs = work.jobs
        now = datetime.now(UTC)
        nack = Nack(Claim.of(first), "no", now)
        stranger = Bury(Claim("stranger", first.token), "no", now)
        elsewhere = Job(id="elsewhere", entrypoint="mail", created_at=now, sequence=first.sequence)
        rest = await work.rest(given_back([first]))
        # Each has the right number of jobs.
        await work.is_refused([await work.part([others[0], *others])])
        await work.is_refused([await work.part(jobs[:-1])], [nack])
        await work.is_refused([await work.part(others)], [stranger])
        await work.is_refused([await work.part(jobs[:-1])], rest=[rest])
        await work.is_refused([await work.part(others[1:])], [nack], [rest])
        await work.is_refused([await work.part(others)], rest=[await work.rest([elsewhere])])
        await work.is_refused([await work.part([others[0]]), await work.part(jobs[:-1])])
        # And these have not.
        await work.is_refused([await work.part(others)])
        await work.is_refused([])


FORGED_REST = {
    "payload": {"payload": b'{"to":"mallory"}'},
    "priority": {"priority": -5},
    "max_attempts": {"max_attempts": 99},
    "attempts": {"attempts": 3},
    "created_at": {"created_at": datetime(2020, 1, 1, tzinfo=UTC)},
    "place": {"sequence": 1_000_000},
    "tenant": {"tenant": "acme"},
    "payload_object": {"payload": b"", "payload_object": "archive/2026-01-01T00/1.json", "payload_size": 1},
    "token": {"token": "mine"},
    "entrypoint": {"entrypoint": "pay"},
}


async def test_forged_jobs_that_go_back_are_refused(tmp_path):
    async with working(tmp_path) as work:
        first, *others = work.jobs
        [waiting] = given_back([first])
        for name, changes in FORGED_REST.items():
            print(name)
            rest = await work.rest([replace(waiting, **changes)])
            await work.is_refused([await work.part(others)], rest=[rest])
        for entry in (
            {"ids": ("zz", "zz")},
            {"plain": False},
            {"limit_key": "gpu"},
            {"tenant": "acme"},
            {"payloads": 3},
            {"keys": 2},
            {"holes": (1,)},
            {"last": (9, 0, 9)},
        ):
            await work.is_refused([await work.part(others)], rest=[await work.rest([waiting], **entry)])


async def test_a_claim_that_comes_with_its_settlement_is_checked_too(tmp_path):
    """The client chooses the token of a claim, and finds the next segment: so it could settle unseen."""
    async with working(tmp_path) as work:
        q, now = work.queue, datetime.now(UTC)
        objects = [info.name async for info in q.storage.objects.list("backlog/")]
        for name in objects:
            segment = replace(work.claim.segment, name=name)
            garbage = await work.part(work.jobs, in_first(b"alice", b"mallory"))
            operations = [
                DequeueSegment("mail", "chosen", now, "worker-2"),
                SettleSegment(Claim(segment.name, "chosen"), (garbage,), (), (), now),
            ]
            request = pb.BatchRequest(
                session=f"forged-{name}", number=1, operations=map(operation_message, operations)
            )
            with grpc.insecure_channel(work.address) as channel:
                answer = channel.unary_unary("/bucketq.v1.Queue/Batch")(
                    request.SerializeToString(),
                    metadata=[("authorization", f"Bearer {WORKER[0]}")],
                    timeout=20,
                )
            _, settled = pb.BatchResponse.FromString(answer).answers
            assert settled.WhichOneof("answer") == "refusal", settled
        assert (await q.stats()).completed_total == 0
