"""A web server enqueues, a worker does the work; all they share is a file.

    python examples/web_and_worker.py                    # both, then stop
    python examples/web_and_worker.py worker &           # or each in a process of its own,
    python examples/web_and_worker.py web                # as often as you like

The queue is `queue.json` in the current folder. With "s3://bucket/queue.json" as the URL
below, the same code runs on many machines.
"""

import argparse
import asyncio
from datetime import timedelta
from pathlib import Path

import bucketq
from bucketq import HeartbeatManager, Job, JobNotFoundError, JobStatus, Queue

URL = (Path.cwd() / "queue.json").as_uri()
IDLE_S = 2.0


async def upload(q: Queue, image: str) -> dict[str, str]:
    """What a web handler does: when it answers, the job is safely stored."""
    job = await q.enqueue("thumbnail", {"image": image})
    return {"status": "accepted", "job": job.id}


async def resize(image: str) -> None:
    """The work. It may run twice, so doing it again must do no harm."""
    if image.endswith(".txt"):
        raise ValueError(f"{image} is not an image")
    print(f"resized {image}")


async def work(q: Queue) -> None:
    """Take jobs until there have been none for a while; a real worker never stops."""
    while jobs := await q.dequeue("thumbnail", batch_size=5, wait=IDLE_S):
        # All at once, so that each has a heartbeat from the start.
        await asyncio.gather(*(handle(q, job) for job in jobs))


async def handle(q: Queue, job: Job) -> None:
    """Do one job and say how it went."""
    try:
        try:
            async with HeartbeatManager(q, job, interval=timedelta(seconds=30)):
                await resize(job.json()["image"])
        except JobNotFoundError:
            raise
        except Exception as error:
            failed = await q.nack(job, error=error)
            if failed.status is JobStatus.DEAD:
                print(f"gave up after {failed.attempts} attempts: {failed.error}")
        else:
            await q.ack(job)
    except JobNotFoundError:
        # We were silent for too long and somebody else has the job; the result is theirs.
        print(f"lost job {job.id}")


async def serve(q: Queue) -> None:
    """Three requests that come in at the same time and share one write."""
    images = ["cat.png", "dog.png", "notes.txt"]
    for answer in await asyncio.gather(*(upload(q, image) for image in images)):
        print(f"202 {answer['status']}")


async def main(role: str) -> None:
    async with bucketq.connect(URL) as q:
        if role in ("web", "both"):
            await serve(q)
        if role in ("worker", "both"):
            await work(q)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A web server and a worker that share a file.")
    parser.add_argument("role", nargs="?", default="both", choices=["web", "worker", "both"])
    asyncio.run(main(parser.parse_args().role))
