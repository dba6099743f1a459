"""Pages of a deep queue: none takes longer for the jobs that it does not show."""

from bucketq import BrokerQueue, InMemoryStorage
from bucketq.listing import LOOKED_MAX


async def test_a_search_looks_through_so_many_jobs_and_can_be_gone_on_with():
    async with BrokerQueue(InMemoryStorage()) as queue:
        await queue.enqueue_many("resize", range(LOOKED_MAX))
        await queue.enqueue_many("resize", [{"image": "needle.png"}])
        page = await queue.page(text="needle")
        assert (page.jobs, page.looked) == ([], LOOKED_MAX)
        rest = await queue.page(page.next_token, text="needle")
        assert [job.json() for job in rest.jobs] == [{"image": "needle.png"}]
        assert (rest.looked, rest.next_token) == (1, "")


async def test_a_page_far_behind_reads_no_more_segments_than_it_shows():
    storage = InMemoryStorage()
    async with BrokerQueue(storage) as queue:
        ids = await queue.enqueue_many("resize", range(60_000))
        far = (await queue.read_job(ids[55_000])).sequence
        reads = []
        read, storage.objects.read = storage.objects.read, lambda name: reads.append(name) or read(name)
        page = await queue.page(f"1.0.0.{far}", size=50)
        assert [job.id for job in page.jobs] == ids[55_001:55_051]
        assert len(reads) <= 2
