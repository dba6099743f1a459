"""A producer adds segments of new jobs, and nothing else."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

import bucketq
from bucketq import BucketQError, Job, JobStatus
from bucketq.broker.tokens import new_token
from bucketq.job import Attempt, Outcome
from bucketq.object_name import segment_name
from bucketq.operation import EnqueueSegments
from bucketq.segment import Segment
from bucketq.segment_lines import SegmentWriter
from tests.acceptance.hostile import MB, Besieged
from tests.acceptance.served import served, url_of

SECRET, TOKEN = new_token("web", ["producer"])
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAYLOAD = {"payload_object": "payloads/000000000000-00000000000000aa", "payload_size": 1}
FORGED = {
    "attempts": {"attempts": 5},
    "crashes": {"crashes": 2},
    "history": {"history": (Attempt(claimed_at=NOW, ended_at=NOW, outcome=Outcome.FAILED),)},
    "error": {"error": "x"},
    "token": {"token": "mine", "worker": "me", "claimed_at": NOW},
    "status": {"status": JobStatus.DEAD},
    "in progress": {"status": JobStatus.IN_PROGRESS},
    "entrypoint": {"entrypoint": "pay"},
    "batch": {"batch": "of another"},
    "an object that is no payload": {"payload_object": "archive/2026-01-01T00/1.json", "payload_size": 1},
    "a long id": {"id": "1" * 5000},
    "place": {"sequence": 1},
    "a place behind all": {"sequence": 10**15},
    "a turn behind all": {"turn": 10**15},
    "a time after all": {"created_at": datetime(9999, 1, 1, tzinfo=UTC)},
    "a payload that is not there": PAYLOAD,
    "cancelled": {"is_cancelled": True},
    "max_crashes": {"max_crashes": 0},
    "a unique key": {"key": "k"},
}
# What the second of three jobs is like, and what the entry says.
FORGED_ENTRIES = [
    ({}, {"ids": ("zz", "zz")}),
    ({}, {"ids": ("", "z" * 100_000)}),
    ({}, {"limit_key": ""}),
    ({}, {"tenant": "acme"}),
    ({}, {"limit_key": "gpu"}),
    ({}, {"payloads": 1}),
    (PAYLOAD, {"payloads": 0}),
    ({"timeout_s": 9.0}, {"plain": True}),
]


async def test_forged_jobs_of_segments_are_refused(tmp_path):
    with served(f"file://{tmp_path}/queue.json", BUCKETQ_TOKENS=TOKEN.line) as broker:
        broker.wait_for("leading")
        async with bucketq.connect(url_of("grpc", broker), token=SECRET) as q:
            jobs = [
                Job(id=f"0{number}", entrypoint="mail", created_at=NOW, sequence=number, max_attempts=3)
                for number in (1, 2, 3)
            ]

            async def enqueue(token, jobs, **entry):
                writer = SegmentWriter()
                for job in jobs:
                    writer.add(job)
                segment, content = writer.finish(segment_name(0, f"{token:016x}"))
                await q.storage.objects.create(segment.name, content)
                await q._submit(EnqueueSegments((replace(segment, **{"plain": False} | entry),)))

            for token, (name, change) in enumerate(FORGED.items(), 1):
                print(name)
                # In the middle, and with an entry that does not show it.
                forged = [jobs[0], replace(jobs[1], **change), jobs[2]]
                with pytest.raises(BucketQError):
                    await enqueue(token, forged, limit_key=None, tenant=None, ids=("0", "z"), keys=0)
            for token, (change, entry) in enumerate(FORGED_ENTRIES, 100):
                print(entry)
                forged = [jobs[0], replace(jobs[1], **change), jobs[2]]
                with pytest.raises(BucketQError):
                    await enqueue(token, forged, **entry)
            assert (await q.stats()).queued == 0
            await enqueue(200, jobs)
            assert (await q.stats()).queued == 3


async def test_the_memory_for_segments_that_are_checked_is_bounded(tmp_path):
    with served(f"file://{tmp_path}/queue.json", BUCKETQ_TOKENS=TOKEN.line) as broker:
        target = Besieged(broker)
        before_bytes = target.memory_bytes
        target.forget_peak()
        content = b'{"format":1,"entrypoint":"mail","jobs":[\n' + b"{},\n" * (2 * MB) + b"{}\n]}\n"
        segment = Segment(
            name=segment_name(0, "0" * 16),
            entrypoint="mail",
            count=2 * MB + 1,
            size=len(content),
            first=(0, 0, 1),
            last=(0, 0, 1),
            ids=("0", "z"),
        )
        async with bucketq.connect(url_of("grpc", broker), token=SECRET) as q:
            await q.storage.objects.create(segment.name, content)
            with pytest.raises(BucketQError, match="too short for jobs"):
                await q._submit(EnqueueSegments((segment,)))
            assert (await q.stats()).queued == 0
        assert target.peak_bytes - before_bytes < 60 * MB, "the content has 8 MB, and comes in pieces"
