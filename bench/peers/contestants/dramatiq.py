"""dramatiq on Redis: messages are acknowledged after the actor has returned, which is its only way."""

import signal
from collections.abc import Sequence

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.handler import CONCURRENCY, SILENT_S, TEXT, handle


class Contestant:
    """The queue, its producer and its worker."""

    def __init__(self, url: str) -> None:
        # Dead workers are looked for by one command in twenty instead of one in a thousand.
        self.broker = RedisBroker(url=url, heartbeat_timeout=SILENT_S * 1000, maintenance_chance=50_000)
        self.actor = dramatiq.actor(handle, broker=self.broker, max_retries=10)

    async def open(self) -> None:
        self.broker.client.ping()

    async def enqueue(self, number: int) -> None:
        self.actor.send(number, TEXT)

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        messages = [self.actor.message(number, TEXT) for number in numbers]
        dramatiq.group(messages, broker=self.broker).run()

    def work(self) -> None:
        dramatiq.Worker(self.broker, worker_threads=CONCURRENCY).start()
        signal.pause()
