"""RQ on Redis: its default worker, which forks for every job and runs one at a time."""

from collections.abc import Sequence

from redis import Redis
from rq import Queue, Retry, Worker

from bench.peers.handler import SILENT_S, TEXT, handle


class Contestant:
    """The queue, its producer and its worker."""

    def __init__(self, url: str) -> None:
        self.redis = Redis.from_url(url)
        self.queue = Queue(connection=self.redis)

    async def open(self) -> None:
        self.redis.ping()

    async def enqueue(self, number: int) -> None:
        # Without a retry the job of a dead worker counts as failed. Results are not kept.
        self.queue.enqueue(handle, number, TEXT, result_ttl=0, retry=Retry(max=10))

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        self.queue.enqueue_many(
            [
                Queue.prepare_data(handle, (number, TEXT), result_ttl=0, retry=Retry(max=10))
                for number in numbers
            ]
        )

    def work(self) -> None:
        # What it waits beyond this, 60 s, is fixed in the library.
        worker = Worker(
            [self.queue], connection=self.redis, job_monitoring_interval=SILENT_S, maintenance_interval=1
        )
        worker.work(logging_level="ERROR")
