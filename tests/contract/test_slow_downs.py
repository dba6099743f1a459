"""A bucket that takes five writes a second to one object, over real HTTP: little is wasted, nothing lost."""

import asyncio
import json
import time
from collections.abc import Iterator

import pytest

from bucketq import BrokerQueue, GCSStorage, Settings
from tests.contract.gcs_fake import FakeGCS, running
from tests.contract.servers import BUCKET, Server

FOR_S = 3.0


@pytest.fixture
def fake() -> Iterator[FakeGCS]:
    with FakeGCS() as fake:
        fake.write_every_s = 0.2
        yield fake


@pytest.fixture
def server(fake: FakeGCS) -> Iterator[Server]:
    with running(fake) as server:
        yield server


@pytest.mark.parametrize("answer", [(429, "TooManyRequests"), (503, "SlowDown")])
async def test_a_hundred_callers_and_five_writes_a_second(
    fake: FakeGCS, server: Server, answer: tuple[int, str]
) -> None:
    fake.too_soon = answer
    told: list[str] = []
    until_s = time.monotonic() + FOR_S

    async def call(q: BrokerQueue) -> None:
        while time.monotonic() < until_s:
            told.append((await q.enqueue("mail")).id)

    storage = GCSStorage(BUCKET, "jobs.json", **server.options)
    async with BrokerQueue(storage, settings=Settings(hot_jobs_max=10**6, hot_bytes_max=10**7)) as q:
        await asyncio.gather(*(call(q) for _ in range(100)))
    document = json.loads(fake.blobs["jobs.json"].content)
    assert sorted(job["id"] for job in document["jobs"]) == sorted(told)
    assert len(set(told)) == len(told)
    landed = document["version"]
    # How few they are is told by the virtual clock, in tests/faults; here the machine itself may be slow.
    assert fake.refused < landed, "most of them while the pace is being found"
    assert landed > 0.5 * FOR_S / fake.write_every_s
