"""Cost: how many requests of each price class a queue makes, by setting and load, counted in virtual time.

Jobs come in at random, real workers run them, and all processes share one bucket whose requests are
counted. What that is in money, beside SQS, is up to `bench.bill`.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from statistics import fmean

from bench.cloud import CountedCloud
from bucketq import App, BrokerQueue, CASConflictError, DirectQueue, Settings, StorageError
from bucketq.app.app import AppQueue
from bucketq.app.worker import Worker
from bucketq.broker.access import ANYBODY
from bucketq.broker.broker import Beats, Broker
from bucketq.broker.service import Service
from bucketq.mint import Mint
from bucketq.operation import Answers, Operation
from bucketq.prices import Requests
from bucketq.remote.queue import RemoteQueue
from bucketq.testing.virtual_time import VirtualClock, run
from bucketq.wanted import Wanted

HOUR_S = 3600.0
# Workers that are never the reason why a job waits.
_CONCURRENCY = 10_000
_LEADER, _STANDBY = "leader:7420", "standby:7420"


@dataclass(frozen=True, kw_only=True)
class Load:
    """So many jobs a second, at random, for how long; `burst` of them come at the same moment."""

    per_s: float = 0.0
    seconds: float = HOUR_S
    burst: int = 1
    payload_bytes: int = 100
    run_s: float = 0.1
    # Before anything is counted: elections are over then, and the first reads made.
    warm_s: float = 60.0


@dataclass(frozen=True, kw_only=True)
class Count:
    """What was asked of the storage, for how many jobs, in how long; and how long a job waited to begin."""

    requests: Requests
    jobs: int
    seconds: float
    wait_s: float

    @property
    def per_1000_jobs(self) -> Requests:
        """The requests for a thousand jobs."""
        return Requests(*(1000 * count / self.jobs for count in self.requests))

    @property
    def per_s(self) -> Requests:
        """The requests of a second."""
        return Requests(*(count / self.seconds for count in self.requests))


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Which processes share the queue, and how it is set up.

    `kind` is "direct", "embedded" or "broker". One process enqueues jobs, and runs them too if all is
    `together`; `workers` more run them.
    """

    kind: str
    workers: int = 2
    together: bool = False
    settings: Settings = field(default_factory=Settings)
    beats: Beats = field(default_factory=Beats)


def count(setting: Setting, load: Load) -> Count:
    """Simulate a setting under a load."""
    return run(_count(setting, load))


async def _count(setting: Setting, load: Load) -> Count:
    cloud, chance, waits_s = CountedCloud(), random.Random(7), []

    def new_app() -> App:
        app = App("memory://")

        @app.job(name="work")
        async def work(sent_s: float, pad: str) -> None:
            waits_s.append(_now_s() - sent_s)
            await asyncio.sleep(load.run_s)

        return app

    async def enqueue(queue: AppQueue, job: dict[str, object]) -> None:
        # Where a setting is too slow for the load, calls come to their deadline.
        with suppress(CASConflictError, StorageError):
            await queue.enqueue("work", job)

    async def produce(queue: AppQueue, until_s: float) -> None:
        async with asyncio.TaskGroup() as calls:
            while load.per_s:
                await asyncio.sleep(chance.expovariate(load.per_s / load.burst))
                if _now_s() >= until_s:
                    return
                for _ in range(load.burst):
                    job = {"sent_s": _now_s(), "pad": "x" * load.payload_bytes}
                    calls.create_task(enqueue(queue, job))

    async with _processes(setting, cloud, new_app) as (producer, workers):
        crews = [Worker(app, concurrency=_CONCURRENCY) for app in workers]
        running = [asyncio.create_task(crew.run()) for crew in crews]
        queue = await producer.opened()
        until_s = _now_s() + load.warm_s + load.seconds
        producing = asyncio.create_task(produce(queue, until_s))
        await asyncio.sleep(load.warm_s)
        before, begun_before = cloud.account.requests, len(waits_s)
        await asyncio.sleep(load.seconds)
        after, begun = cloud.account.requests, waits_s[begun_before:]
        await producing
        for crew in crews:
            crew.stop()
        await asyncio.gather(*running)
    return Count(
        requests=Requests(*(late - early for late, early in zip(after, before, strict=True))),
        jobs=len(begun),
        seconds=load.seconds,
        wait_s=fmean(begun) if begun else 0.0,
    )


@asynccontextmanager
async def _processes(
    setting: Setting, cloud: CountedCloud, new_app: Callable[[], App]
) -> AsyncIterator[tuple[App, Sequence[App]]]:
    """The app that enqueues and those that work, each as in a process of its own."""
    seeds = iter(range(100))

    def open_queue() -> AppQueue:
        settings, clock, mint = setting.settings, VirtualClock(), Mint(random.Random(next(seeds)))
        if setting.kind == "direct":
            return DirectQueue(cloud, settings, clock, mint)
        if setting.kind == "embedded":
            return BrokerQueue(cloud, settings=settings, clock=clock, mint=mint)
        return RemoteQueue(lambda: _Wire(services), list(services), clock=clock, mint=mint)

    async with AsyncExitStack() as stack:
        services: dict[str, Service] = {}
        for address in (_LEADER, _STANDBY) if setting.kind == "broker" else ():
            broker = Broker(
                cloud, setting.settings, setting.beats, VirtualClock(), Mint(random.Random(next(seeds)))
            )
            services[address] = await stack.enter_async_context(_serving(broker, address))
        apps = [new_app() for _ in range(1 + setting.workers)]
        for app in apps:
            stack.enter_context(app.connected_by(open_queue))
            await stack.enter_async_context(app)
        yield apps[0], apps if setting.together else apps[1:]


@asynccontextmanager
async def _serving(broker: Broker, address: str) -> AsyncIterator[Service]:
    broker.address = address
    running = asyncio.create_task(broker.run())
    # Longer than an election takes, so that the first one leads.
    await asyncio.sleep(1)
    try:
        yield Service(broker)
    finally:
        broker.stop()
        await running


class _Wire:
    """The way of clients to brokers: nothing takes time or is lost on it."""

    def __init__(self, services: dict[str, Service]) -> None:
        self._services = services

    async def batch(
        self, address: str, session: str, number: int, seen_version: int, operations: Sequence[Operation]
    ) -> Answers:
        return await self._services[address].batch(session, number, seen_version, operations, ANYBODY)

    async def wait_ready(self, address: str, wanted: Wanted, timeout_s: float) -> None:
        await self._services[address].wait_ready(wanted, timeout_s)

    async def close(self) -> None:
        pass


def _now_s() -> float:
    return asyncio.get_running_loop().time()
