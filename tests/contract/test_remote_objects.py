"""What lies beside a queue, by way of its broker: listed, archived and verified as on the storage itself."""

import asyncio

import pytest

from bucketq import ConfigurationError, InMemoryStorage, LocalFileSystemStorage, Settings, connect
from bucketq.archive import Archive
from bucketq.broker.serving import serving
from bucketq.broker.tokens import Tokens, new_token
from bucketq.verify import verify

TINY = Settings(
    hot_jobs_max=4,
    hot_bytes_max=800,
    segment_jobs_max=5,
    payload_inline_max=10,
    archive_jobs_max=3,
    archive_payloads=True,
    commit_interval_s=0.01,
    poll_interval_s=0.05,
)

ways = pytest.mark.parametrize("scheme", ["grpc", "http", "ws"])


def url_of(broker, scheme):
    return f"{scheme}://{broker.address if scheme == 'grpc' else broker.http}"


async def listed(storage, prefix=""):
    return sorted([info async for info in storage.objects.list(prefix)])


@ways
async def test_the_archive_and_verify_work_by_way_of_a_broker(tmp_path, scheme):
    storage = LocalFileSystemStorage(tmp_path / "queue.json")
    async with (
        serving(storage, settings=TINY) as broker,
        connect(url_of(broker, scheme), settings=TINY) as q,
    ):
        await q.enqueue_many("mail", [{"large": "x" * 50}] * 30)
        done = await q.dequeue("mail", batch_size=7)
        assert await q.ack_many(done) == []
        while not await listed(storage, "archive/"):
            await asyncio.sleep(0.01)
        archive = Archive(q.storage)
        assert {job.id async for job in archive.jobs()} == {job.id for job in done}
        found = await archive.find(done[0])
        assert await archive.fetch_payload(found) == done[0].payload
        verdict = await verify(q.storage)
        assert verdict.is_sound, verdict.problems
        assert (verdict.live, verdict.archived) == (23, 7)
        assert verdict.segments
        assert verdict.payloads
        segment = (await listed(q.storage, "backlog/"))[0]
        (tmp_path / "queue" / segment.name).unlink()
        assert segment.name in "".join((await verify(q.storage)).problems)


@ways
async def test_a_viewer_verifies_what_it_is_shown(tmp_path, scheme):
    secret, token = new_token("looker", ["viewer"])
    boss, admin = new_token("boss", ["admin"])
    async with (
        serving(
            LocalFileSystemStorage(tmp_path / "queue.json"), settings=TINY, tokens=Tokens([token, admin])
        ) as broker,
        connect(url_of(broker, scheme), token=boss, settings=TINY) as q,
        connect(url_of(broker, scheme), token=secret, settings=TINY) as viewer,
    ):
        await q.enqueue_many("mail", range(30))
        assert await q.dequeue("mail", batch_size=3)
        verdict = await verify(viewer.storage)
        assert verdict.is_sound, verdict.problems
        assert verdict.live == 30


@ways
async def test_any_number_of_objects_is_listed_page_by_page(scheme):
    storage = InMemoryStorage()
    for number in range(25_001):
        await storage.objects.create(f"payloads/{number:05}", b"")
    await storage.objects.create("archive/1", b"abc")
    async with serving(storage) as broker, connect(url_of(broker, scheme)) as q:
        assert await listed(q.storage) == await listed(storage)
        assert await listed(q.storage, "arch") == await listed(storage, "archive/")
        assert await listed(q.storage, "nothing") == []
        for prefix in ("../", "archive//", ".hidden", "a\\b"):
            with pytest.raises(ConfigurationError, match="no object name"):
                await listed(q.storage, prefix)
