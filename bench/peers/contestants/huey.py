"""huey on SQLite, with fsync."""

import logging
from collections.abc import Sequence

from huey import SqliteHuey

from bench.peers.handler import CONCURRENCY, TEXT, handle


class Contestant:
    """The queue, its producer and its worker."""

    def __init__(self, url: str) -> None:
        self.huey = SqliteHuey(filename=url.removeprefix("file://"), fsync=True, results=False)
        self.task = self.huey.task(retries=10)(handle)

    async def open(self) -> None:
        self.huey.pending_count()

    async def enqueue(self, number: int) -> None:
        self.task(number, TEXT)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self.task(number, TEXT)

    def work(self) -> None:
        logging.disable(logging.INFO)
        self.huey.create_consumer(workers=CONCURRENCY, worker_type="thread").run()
