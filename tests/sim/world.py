"""The world: processes with queues and actors on one simulated bucket, and the storms over it.

seed ──▶ plan ──▶ storm: faults, kills, pauses, outages ──▶ calm: finish everything ──▶ Record
"""

import asyncio
import random
from contextvars import Context
from dataclasses import replace
from datetime import timedelta
from unittest.mock import patch

import bucketq.backlog
import bucketq.sessions
import bucketq.signatures
from bucketq import BrokerQueue, CorruptStateError, DirectQueue, Settings
from bucketq.archive import Archive
from bucketq.broker.broker import Beats, Broker
from bucketq.broker.service import Service
from bucketq.codec import decode
from bucketq.mint import Mint
from bucketq.remote.queue import RemoteQueue
from bucketq.testing.simulated_bucket import CALM, SimulatedBucket, Weather
from bucketq.testing.virtual_time import Process, VirtualClock, VirtualLoop
from tests.sim.actors import ACTORS, WANTED, producer, worker
from tests.sim.life import LIFE_ACTORS, LIFE_WANTED, SKEW_S, closer, lives, planner
from tests.sim.network import Network, NetworkBrokers
from tests.sim.record import Record
from tests.sim.recorded_queue import RecordedQueue
from tests.sim.segments import SEGMENT_ACTORS, claims_segments, segment_worker

STALE_AFTER_S = 4.0
BEATS = Beats(interval_s=1.0, timeout_s=3.0)
BROKERS = ["b0:1", "b1:1"]
# What both advertise where two hosts have the same name.
SAME_NAME = "b:1"
CALM_S_MAX = 900.0
# Longer than any call may take once the weather is calm.
PATIENCE_S = 30.0


class World:
    """One run: everything in it is drawn from the seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.record = Record(seed, STALE_AFTER_S, PATIENCE_S)
        self.bucket = SimulatedBucket(random.Random(self.random.random()))
        self.record.trace = self.bucket.trace
        self.is_stormy = True
        self.is_over = False
        self.processes = []
        self._replacements = set()
        self.storm_s = self.random.uniform(5, 30)
        self.collect_after_s = self.random.choice([1.0, 10.0, 1000.0])
        self.kills_at_requests = self.random.choice([0, 0, 0.003, 0.02])
        self.is_about_life = lives(seed)
        self.is_about_segments = claims_segments(seed)
        # In every fifth run all are out of money, and their commits are held as far apart as they may be.
        self.is_poor = seed % 5 == 1
        self.has_small_cache = seed % 3 == 1
        # In every fourth run there are brokers, and most processes are their clients.
        self.has_brokers = seed % 4 == 3 or (self.is_about_segments and seed % 8 == 6)
        # In half of those a broker that starts again finds its own address, and nobody else can be there. In
        # a third of these, both hosts have the same name, and each believes so.
        self.are_at_home = self.has_brokers and seed // 4 % 2 == 0
        self.have_same_name = self.are_at_home and seed // 8 % 3 == 1
        self.wanted = LIFE_WANTED if self.is_about_life else WANTED
        # The ids of jobs that somebody has enqueued.
        self.known_jobs = []
        self.network = Network(random.Random(seed))

    def now_s(self):
        return asyncio.get_running_loop().time()

    def began(self, call):
        self.record.calls[call.number] = call

    def ended(self, call):
        pass

    def note(self, what):
        self.bucket.trace.append(f"{self.now_s():9.3f} {what}")

    async def run(self):
        self.bucket.weather = self._draw_weather()
        self.bucket.on_request = self._maybe_kill
        storms = [self._kill, self._pause, self._outage]
        if self.has_brokers:
            self.network.loss = self.random.choice([0, 0.01, 0.1])
            self.network.delay_s = self.random.choice([0.001, 0.02, 0.2])
            for address in BROKERS:
                self._start_broker(address)
            storms.append(self._cut)
        for number in range(self.random.choice([1, 2, 2, 3, 3, 4])):
            self._start(f"p{number}", self._draw_actors())
        storms = [asyncio.create_task(storm()) for storm in storms]
        await asyncio.sleep(self.storm_s)
        for storm in storms:
            storm.cancel()
        self._end_storm()
        try:
            await self._drain()
            self.record.ended_s = self.now_s()
            self.is_over = True
            self.record.survivors = {process.name for process in self.processes if process.is_alive}
            for process in self.processes:
                process.kill()
            await self._clean_up()
            self.record.read_bucket(self.bucket)
            archive = Archive(self.bucket.storage("reader"), self.record.damages.append, VirtualClock())
            self.record.archived = [job async for job in archive.jobs()]
        except CorruptStateError as error:
            self.record.damage = str(error)
        return self.record

    async def close(self):
        """Let the dead finish, so that the loop can be closed without a complaint."""
        self.bucket.is_out = True
        for process in self.processes:
            process.bury()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in others:
                task.cancel()
            await asyncio.wait(others, timeout=PATIENCE_S)

    def _draw_weather(self):
        often = self.random.choice([0, 0.02, 0.1])

        def chance():
            return self.random.choice([0, often])

        return Weather(
            lost_request=chance(),
            lost_answer=chance(),
            no_answer=chance() / 2,
            doubled=chance(),
            held=self.random.choice([0, often, 2 * often]),
            conflict=chance(),
            slow_down=chance(),
            delay_s=self.random.choice([0.001, 0.02, 0.2]),
        )

    def _draw_actors(self):
        if self.is_about_life:
            drawn = (self.random.choice(LIFE_ACTORS) for _ in range(self.random.randint(2, 4)))
            return [planner, worker, *drawn]
        if self.is_about_segments:
            drawn = (self.random.choice(SEGMENT_ACTORS) for _ in range(self.random.randint(1, 3)))
            return [producer, segment_worker, *drawn]
        return [producer, *(self.random.choice(ACTORS) for _ in range(self.random.randint(1, 3)))]

    def _start(self, name, actors):
        process = Process(name)
        self.processes.append(process)
        self.note(f"{name} starts: {', '.join(actor.__name__ for actor in actors)}")
        process.start(self._live(name, actors))
        return process

    def _start_broker(self, address):
        process = Process(address)
        self.processes.append(process)
        self.note(f"{address} starts: a broker")
        process.start(self._serve(process, address))

    async def _serve(self, process, address):
        clock, mint = self._draw_clock(), Mint(random.Random(self.random.random()))
        broker = Broker(self.bucket.storage(address), self._draw_settings(), BEATS, clock, mint)
        broker.address = SAME_NAME if self.have_same_name else address
        broker.is_at_home = self.are_at_home
        for name in {address, broker.address}:
            self.network.join(name, process, Service(broker))
        running = asyncio.create_task(broker.run())
        if self.is_stormy and self.random.random() < 0.3:
            await asyncio.sleep(self.random.uniform(0, self.storm_s))
            if self.is_stormy:
                self.note(f"{address} is told to stop")
                broker.stop()
        await running
        process.kill()
        if not self.is_stormy:
            # It was told to stop before: somebody has to be there for the clients.
            self._start_broker(address)
        await self._replace(process)

    def _draw_clock(self):
        # Where jobs wait for times, two hours off would mean thousands of ticks at once.
        off_s = [0, 0, SKEW_S, -SKEW_S] if self.is_about_life else [0, 0, 3, -3, 7200, -7200]
        return VirtualClock(timedelta(seconds=self.random.choice(off_s)))

    def _draw_settings(self):
        settings = Settings(
            stale_after_s=STALE_AFTER_S,
            retry_for_s=self.random.choice([5, 20]),
            commit_interval_s=self.random.choice([0, 0, 0.3]),
            # So small that most jobs pass through a segment, and some through several.
            hot_jobs_max=self.random.choice([4, 8, 2000]),
            hot_bytes_max=self.random.choice([1000, 4000, 512_000]),
            segment_jobs_max=self.random.choice([2, 5, 30]),
            # In every third run two or three segments fit into memory.
            segment_cache_bytes=2000 if self.has_small_cache else 64_000_000,
            payload_inline_max=self.random.choice([0, 26, 26, 1000]),
            collect_after_s=self.collect_after_s,
            archive_jobs_max=self.random.choice([1, 5, 1000]),
            archive_after_s=self.random.choice([2, 20]),
            archive_payloads=self.random.random() < 0.3,
            budget_per_month=1e-9 if self.is_poor else 0,
            price_per_1000_writes=1,
        )
        if self.is_about_segments:
            # Else hardly a segment would be plain.
            return replace(settings, payload_inline_max=1000, hot_jobs_max=min(settings.hot_jobs_max, 8))
        return settings

    async def _live(self, name, actors):
        clock, mint = self._draw_clock(), Mint(random.Random(self.random.random()))
        storage = self.bucket.storage(name)
        settings = self._draw_settings()
        if self.has_brokers and self.random.random() < 0.8:
            by_storage = self.random.random() < 0.5
            remote = RemoteQueue(
                lambda: NetworkBrokers(self.network, name),
                BROKERS,
                storage=storage if by_storage else None,
                settings=settings,
                clock=clock,
                mint=mint,
            )
            async with remote:
                remote.worker = name
                queue = RecordedQueue(remote, self, name, STALE_AFTER_S)
                await asyncio.gather(*(actor(queue, self) for actor in actors))
        if self.random.random() < 0.3:
            direct = DirectQueue(storage, settings, clock, mint)
            direct.worker = name
            queue = RecordedQueue(direct, self, name, STALE_AFTER_S)
            await asyncio.gather(*(actor(queue, self) for actor in actors))
        async with BrokerQueue(storage, settings=settings, clock=clock, mint=mint) as broker:
            broker.worker = name
            queue = RecordedQueue(broker, self, name, STALE_AFTER_S)
            await asyncio.gather(*(actor(queue, self) for actor in actors))

    async def _kill(self):
        while True:
            await asyncio.sleep(self.random.expovariate(1 / 10))
            victim = self.random.choice([process for process in self.processes if process.is_alive])
            victim.kill()
            self.note(f"{victim.name} is killed")
            await self._replace(victim)

    async def _replace(self, victim):
        await asyncio.sleep(self.random.expovariate(1 / 3))
        if self.is_stormy and victim.name in BROKERS:
            self._start_broker(victim.name)
        elif self.is_stormy:
            self._start(f"{victim.name}'", self._draw_actors())

    def _maybe_kill(self, client, what):
        """Kill a process just after it has sent a request, so that each of its steps is its last once."""
        if self.is_stormy and what != "read" and self.random.random() < self.kills_at_requests:
            victim = next(process for process in reversed(self.processes) if process.name == client)
            victim.kill()
            self.note(f"{victim.name} is killed as it sends {what}")
            successor = asyncio.get_running_loop().create_task(self._replace(victim), context=Context())
            self._replacements.add(successor)

    async def _pause(self):
        while True:
            await asyncio.sleep(self.random.expovariate(1 / 10))
            sleeper = self.random.choice([process for process in self.processes if process.is_alive])
            sleeper.pause()
            self.note(f"{sleeper.name} stands still")
            await asyncio.sleep(self.random.uniform(0, 3 * STALE_AFTER_S))
            sleeper.resume()
            self.note(f"{sleeper.name} goes on")

    async def _cut(self):
        """Cut processes off from brokers for a while."""
        while True:
            await asyncio.sleep(self.random.expovariate(1 / 10))
            names = [process.name for process in self.processes]
            self.network.cuts = {(self.random.choice(names), self.random.choice(BROKERS)) for _ in range(3)}
            await asyncio.sleep(self.random.uniform(0, 12))
            self.network.cuts = set()

    async def _outage(self):
        while True:
            await asyncio.sleep(self.random.expovariate(1 / 15))
            self.bucket.is_out = True
            await asyncio.sleep(self.random.uniform(0, 8))
            self.bucket.is_out = False

    def _end_storm(self):
        self.note("calm")
        self.record.calm_s = self.now_s()
        self.is_stormy = False
        self.bucket.is_out = False
        self.bucket.weather = CALM
        for process in self.processes:
            if process.is_paused:
                process.resume()
        self.network.cuts, self.network.loss = set(), 0.0
        if self.has_brokers:
            for address in BROKERS:
                if not any(process.name == address and process.is_alive for process in self.processes):
                    self._start_broker(address)
        self._start("finisher", [worker, worker, *([closer] if self.is_about_life else [])])

    async def _clean_up(self):
        """Let whatever nothing refers to grow old, and have it collected."""
        clock, mint = VirtualClock(), Mint(random.Random(self.random.random()))
        settings = Settings(collect_after_s=self.collect_after_s)
        cleaner = DirectQueue(self.bucket.storage("cleaner"), settings, clock, mint)
        for _ in range(2):
            await asyncio.sleep(self.collect_after_s + PATIENCE_S)
            await cleaner.collect_garbage()

    async def _drain(self):
        until_s = self.now_s() + CALM_S_MAX
        while self.now_s() < until_s:
            await asyncio.sleep(PATIENCE_S)
            stats = decode(self.bucket.content).stats if self.bucket.content else None
            if stats is None or stats.queued + stats.in_progress + stats.scheduled + stats.blocked == 0:
                self.record.is_drained = True
                return


def simulate(seed):
    """Run one seed; return its record."""
    # With few signatures kept, some seeds see theirs pushed out.
    few_writers = patch.object(bucketq.signatures, "WRITERS_MAX", 64 if seed % 3 else 2)
    few_sessions = patch.multiple(
        bucketq.sessions, SESSIONS_MAX=4096 if seed % 3 else 2, SESSIONS_MIN=256 if seed % 3 else 1
    )
    # Where many jobs are cancelled in segments, each one lets its segment be written again.
    few_holes = patch.object(bucketq.backlog, "HOLES_MAX", 0 if lives(seed) else 2)
    with (
        few_writers,
        few_sessions,
        few_holes,
        asyncio.Runner(loop_factory=lambda: VirtualLoop(seed)) as runner,
    ):
        runner.get_loop().set_exception_handler(lambda loop, context: None)
        world = World(seed)
        try:
            return runner.run(world.run())
        finally:
            runner.run(world.close())
