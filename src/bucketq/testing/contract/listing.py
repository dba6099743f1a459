"""Listing: the live jobs, in a settled order, all or some of them."""

from typing import Any

from bucketq.errors import ConfigurationError
from bucketq.job import JobStatus
from bucketq.queue import Queue
from bucketq.testing.contract.suite import QueueSuite, raises


class Listing(QueueSuite):
    """The live jobs, in a settled order, all or some of them."""

    async def test_jobs_are_listed_status_by_status_each_in_its_order(self) -> None:
        async with self.open() as q:
            await self._dead_job(q, "mail", "dead")
            last = await q.enqueue("mail", "last", priority=5)
            ids = await q.enqueue_many("mail", range(30))
            running = await q.dequeue("mail", batch_size=3)
            first = await q.enqueue("thumb", "first", priority=-1)
            late = await q.enqueue("mail", "late", delay=7200)
            soon = await q.enqueue("thumb", "soon", delay=3600)
            blocked = await q.enqueue("mail", "blocked", after=[last])
            listed = await _ids(q)
            assert listed[:3] == [job.id for job in running]
            assert listed[3:-1] == [first.id, *ids[3:], last.id, soon.id, late.id, blocked.id]
            assert len(listed) == 36, "the dead one comes last"
            statuses = [job.status async for job in q.jobs()]
            assert statuses[0] is JobStatus.IN_PROGRESS
            assert statuses[-1] is JobStatus.DEAD

    async def test_jobs_are_chosen_by_status_entrypoint_age_and_text(self) -> None:
        async with self.open() as q:
            dead = await self._dead_job(q, "mail", "x")
            await q.enqueue_many("mail", range(20))
            thumbs = await q.enqueue_many("thumb", [{"image": f"cat-{number}.png"} for number in range(20)])
            keyed = await q.enqueue("thumb", {"image": "dog"}, key="dog-7")
            assert await _ids(q, status="dead") == [dead.id]
            assert await _ids(q, status=JobStatus.QUEUED, entrypoint="thumb") == [*thumbs, keyed.id]
            assert await _ids(q, entrypoint="nobody") == []
            assert await _ids(q, limit=5, entrypoint="thumb") == list(thumbs[:5])
            assert len(await _ids(q, limit=100)) == 42
            assert await _ids(q, text="Boom") == [dead.id], "its error, in capitals or not"
            assert await _ids(q, text="dog-7") == [keyed.id], "its key"
            assert await _ids(q, text=thumbs[13]) == [thumbs[13]], "its id"
            assert await _ids(q, older_than=3600) == []
            assert len(await _ids(q, older_than=0)) == 42
            for wrong in ({"status": "finished"}, {"limit": 0}, {"older_than": -1}):
                with raises(ConfigurationError):
                    await _ids(q, **wrong)

    async def test_pages_follow_each_other(self) -> None:
        async with self.open() as q:
            ids = await q.enqueue_many("mail", range(25))
            dead = await self._dead_job(q, "thumb", "x")
            paged, token = [], ""
            for expected in (10, 10, 6):
                page = await q.page(token, size=10)
                assert len(page.jobs) == expected
                paged += [job.id for job in page.jobs]
                token = page.next_token
            assert (paged, token) == ([*ids, dead.id], "")
            page = await q.page(size=1, status="queued", entrypoint="mail", text=ids[13].upper())
            assert [job.id for job in page.jobs] == [ids[13]]
            assert page.looked == 14, "no more than it takes"
            assert (await q.page(page.next_token, text=ids[13])).jobs == [], "it goes on from there"
            for wrong in ({"size": 0}, {"size": 1001}, {"token": "here"}, {"status": "finished"}):
                with raises(ConfigurationError):
                    await q.page(**wrong)

    async def test_a_job_is_read_wherever_it_stands(self) -> None:
        async with self.open() as q:
            ids = await q.enqueue_many("mail", range(30))
            [running] = await q.dequeue("mail")
            dead = await self._dead_job(q, "thumb", "x")
            for job_id in (*ids, dead.id):
                found = await q.read_job(job_id)
                assert found is not None
                assert found.id == job_id
                assert found == await q.find(job_id)
            await q.ack(running)
            assert await q.read_job(running) is None
            assert await q.read_job("nobody") is None


async def _ids(q: Queue, **chosen: Any) -> list[str]:
    return [job.id async for job in q.jobs(**chosen)]
