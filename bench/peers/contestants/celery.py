"""Celery on Redis: acknowledged late, so that a job outlives its worker."""

from collections.abc import Sequence

from celery import Celery, group

from bench.peers.handler import CONCURRENCY, SILENT_S, TEXT, handle


class Contestant:
    """The queue, its producer and its worker."""

    def __init__(self, url: str) -> None:
        self.app = Celery("peers", broker=url)
        self.app.conf.update(
            task_acks_late=True,
            task_reject_on_worker_lost=True,
            task_ignore_result=True,
            broker_connection_retry_on_startup=True,
            broker_transport_options={
                "visibility_timeout": SILENT_S,
                "unacked_restore_interval": 1,
                "unacked_restore_throttle": 1,
            },
        )
        self.task = self.app.task(handle, name="handle")

    async def open(self) -> None:
        self.app.connection_for_write().ensure_connection(max_retries=3)

    async def enqueue(self, number: int) -> None:
        self.task.delay(number, TEXT)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        group(self.task.s(number, TEXT) for number in numbers).apply_async()

    def work(self) -> None:
        options = ["--pool=threads", f"--concurrency={CONCURRENCY}", "--loglevel=ERROR"]
        self.app.worker_main(["worker", *options, "--without-gossip", "--without-mingle"])
