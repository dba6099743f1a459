"""A pipeline whose customers take turns: a flood by one of them does not keep the others waiting.

    import ──▶ convert, convert, … (a batch) ──▶ publish ──▶ notify
                                             └─▶ tidy up

    cd examples
    python tenants_pipeline.py                       # runs all of it here, in memory
    bucketq work tenants_pipeline:app                # a worker for the real queue

All that follows an import has its customer as `tenant`.
"""

import asyncio
from pathlib import Path

from bucketq import App, Running, Then, provided
from bucketq.testing import testing

app = App((Path.cwd() / "queue.json").as_uri())


@app.job
async def import_album(customer: str, pages: int) -> str:
    """Enqueue all pages, and what comes after them, in one commit however many there are."""
    queue = await app.opened()
    batch = await queue.enqueue_batch(
        convert.entrypoint,
        (convert.call(customer, page).payload for page in range(1, pages + 1)),
        tenant=customer,
        then=Then(publish.entrypoint, publish.call(customer).payload, options={"tenant": customer}),
    )
    await tidy_up.using(after=[batch.id], if_dead="run", tenant=customer).enqueue(customer)
    return batch.id


@app.job
def convert(customer: str, page: int) -> None:
    print(f"{customer}: convert page {page}")


@app.job
async def publish(customer: str, running: Running = provided()) -> None:
    """Runs when every page is done or dead; `notify` is enqueued by the commit that completes this job."""
    queue = await app.opened()
    batch = await queue.batch(running.job.batch or "")
    failed = batch.failed if batch else 0
    print(f"{customer}: publish, {failed} pages are missing")
    running.enqueue(notify.using(tenant=customer, priority=-1).call(customer, failed))


@app.job
async def notify(customer: str, failed: int) -> None:
    print(f"{customer}: notify")


@app.job
async def tidy_up(customer: str) -> None:
    print(f"{customer}: tidy up")


async def main() -> None:
    async with testing(app) as jobs:
        await app.enqueue(import_album.call("whale", 5), import_album.call("minnow", 2))
        await jobs.drain()


if __name__ == "__main__":
    asyncio.run(main())
