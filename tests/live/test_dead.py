"""Dead letters by what they died of, and jobs wherever they are."""

from bucketq.archive import Archive
from bucketq.live import dead
from bucketq.live.dead import look_at_dead
from bucketq.live.finding import fetch_payload, find_job
from tests.live.watched import WatchedQueue


async def test_dead_letters_are_grouped_by_entrypoint_and_the_first_line_of_the_error(monkeypatch):
    async with WatchedQueue() as queue:
        await queue.enqueue_many("mail", range(4))
        await queue.enqueue("fax")
        for error in ("Refused: no\nhost a", "Refused: no\nhost b", "Timeout"):
            last = await queue.kill("mail", error)
            queue.wait(1)
        await queue.kill("fax", "Timeout")
        seen = await look_at_dead(queue)
        assert [group[:3] for group in seen.groups] == [
            ("mail", "Refused: no", 2),
            ("fax", "Timeout", 1),
            ("mail", "Timeout", 1),
        ]
        assert seen.groups[2].newest.id == last.id
        assert [job.entrypoint for job in seen.jobs] == ["fax", "mail", "mail", "mail"]
        assert (seen.looked, seen.is_all) == (4, True)
        assert (seen.matching("mail", "Timeout"), seen.matching("mail", "o")) == (1, 3)
        assert [group[:3] for group in (await look_at_dead(queue, "mail", "host b")).groups] == [
            ("mail", "Refused: no", 1)
        ]
        monkeypatch.setattr(dead, "LOOKED_MAX", 3)
        assert (await look_at_dead(queue))[2:] == (3, False)


async def test_a_job_is_found_with_its_payload_also_when_it_is_finished():
    async with WatchedQueue() as queue:
        job = await queue.enqueue("mail", {"to": "ada"})
        assert (await find_job(queue, job.id)).status == "queued"
        await queue.ack((await queue.dequeue("mail"))[0])
        found = await find_job(queue, job.id)
        assert found.status == "completed"
        assert await fetch_payload(queue, found) == b'{"to":"ada"}'
        assert await find_job(queue, "nobody") is None


async def test_the_newest_finished_jobs_come_first_wherever_they_are():
    async with WatchedQueue() as queue:
        finished = []
        for number in range(600):
            job = await queue.enqueue("mail" if number % 2 else "fax")
            await queue.ack((await queue.dequeue(job.entrypoint))[0])
            finished.append(job.id)
            queue.wait(30)
        archive = Archive(queue.storage)
        assert await archive.objects_of("2026-02-15"), "some have arrived"
        newest = [job.id for job in await archive.newest(500)]
        assert newest == finished[:99:-1]
        mails = [job.id for job in await archive.newest(50, entrypoint="mail", status="completed")]
        assert mails == finished[::-2][:50]
        assert await archive.newest(5, status="dead") == []
