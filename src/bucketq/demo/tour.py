"""Tour: the scenes, one after the other.

start ─▶ bursts of jobs ─▶ all is done ─▶ workers leave ─▶ archive ─▶ pipeline, report ─▶ verify
           │     └ a worker is killed
           └ the leader is killed: everybody waits until the other broker leads, and goes on
"""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from bucketq.clock import SystemClock
from bucketq.demo.cast import Broker, Cast, bucketq
from bucketq.demo.jobs import app, email, film, report
from bucketq.demo.news import News
from bucketq.demo.process import Process
from bucketq.demo.report import NO_SPARK, is_archived
from bucketq.errors import ConfigurationError
from bucketq.job import Job
from bucketq.live.look import Looker
from bucketq.state import QueueState
from bucketq.storage import LocalFileSystemStorage

BURSTS, EMAILS = 16, 30
_BURST_EVERY_S = 0.8
_LEADER_FALLS, _WORKER_FALLS = 4, 10

_LOOK_EVERY_S = 0.1
# On a machine that is so slow that it does not fit, the rest is left waiting.
_PATIENCE_S = 75.0
# Spark takes half a minute where nobody else works.
_REPORT_WITHIN_S = 240.0


class Tour:
    """What happens, and what a display needs to know of it."""

    def __init__(self, folder: Path, cast: Cast) -> None:
        self.folder = folder
        self.path = folder / "queue.json"
        self.cast = cast
        self.storage = LocalFileSystemStorage(self.path)
        self.news = News()
        self.began_at = SystemClock().now()
        self.before = self.state = QueueState()
        self.dashboard = ""
        self.enqueued = 0
        # How long nobody led; why there is no report, if there is none, and whether that is as it should be.
        self.failover_s = 0.0
        self.no_report = "it was not asked for"
        self.is_report_sound = True
        self.is_verified = False
        self.is_over = False
        self._looker = Looker(self.storage, SystemClock())
        self._fell_s: float | None = None
        # The queue when all was done: after that, a broker that leads says only that it lives.
        self._archived: QueueState | None = None

    async def open(self) -> None:
        """Refuse a queue that is in use: the workers would take whatever they find."""
        await self.look()
        self.before = self.state
        if self.left:
            raise ConfigurationError(
                f"{self.path} holds {self.left} unfinished jobs, and the demo would take them."
                " Name another folder, or delete this one."
            )

    async def play(self, *, has_report: bool) -> None:
        """Play all scenes. Raises ProcessError, and what the queue raises."""
        await self.cast.start()
        await self._until(lambda: self.cast.leader(self.state.leader) is not None)
        if leader := self.cast.leader(self.state.leader):
            self.news.tell(f"two brokers and three workers are up, and {leader.name} leads")
            self._show_dashboard_of(self.cast.standby(leader))
            self.news.tell(f"see it in a browser: {self.dashboard}")
        app.url = self.cast.brokers_url
        async with app:
            for burst in range(BURSTS):
                await self._enqueue(burst)
                if burst == _LEADER_FALLS:
                    self._kill_leader()
                if burst == _WORKER_FALLS:
                    await self._kill_worker()
                await asyncio.sleep(_BURST_EVERY_S)
        self.news.tell(f"all {self.enqueued} jobs are enqueued")
        # Spark takes its time to start: it may do so while the rest is done.
        reporting = self.cast.begin("report", "bucketq.demo.report", str(self.folder)) if has_report else None
        await self._until(lambda: not self.left)
        await self.cast.stop(*self.cast.workers)
        self.news.tell("all are finished, and the workers have left")
        await self._until(lambda: is_archived(self.state))
        self._archived = self.state
        self.news.tell("every finished job is in the archive")
        if reporting is not None and is_archived(self.state):
            await self._wait_for_report(reporting)
        await self._verify()
        self.is_over = True

    async def look(self) -> None:
        """Read queue.json, as anybody may at any time, and tell what is new in it."""
        self.state = (await self._looker.look()).state
        self.news.follow(self.state, self._name_of)
        leader = self.cast.leader(self.state.leader)
        if self._fell_s is not None and leader is not None:
            self.failover_s, self._fell_s = time.monotonic() - self._fell_s, None
            self.news.tell(f"{leader.name} leads, after {self.failover_s:.1f} s; everybody goes on")

    @property
    def completed(self) -> int:
        """How many jobs are completed."""
        return self.state.completed_total - self.before.completed_total

    @property
    def dead(self) -> int:
        """How many are out of attempts."""
        return self.state.dead_total - self.before.dead_total

    @property
    def left(self) -> int:
        """How many wait or run."""
        return self.state.stats.live

    @property
    def commits(self) -> int:
        """How often the file was written: each commit adds one to its version."""
        return (self._archived or self.state).version - self.before.version

    def size_bytes(self) -> int:
        """The size of the file now."""
        return self.path.stat().st_size if self.path.exists() else 0

    def jobs_of(self, worker: Process) -> list[Job]:
        """What a worker is busy with."""
        return [job for job in self.state.in_progress_jobs() if self.cast.worker(job.worker) is worker]

    def _show_dashboard_of(self, broker: Broker) -> None:
        """Name the dashboard of the one that will be there to the end."""
        self.dashboard = f"{broker.http}/dashboard"

    async def _enqueue(self, burst: int) -> None:
        calls = [email.call(number=burst * EMAILS + number) for number in range(EMAILS)]
        calls += [report.call(number=burst)] + ([film.call(number=0)] if burst == 0 else [])
        # As in a web server: many requests at once, and each awaits its own.
        self.enqueued += sum(map(len, await asyncio.gather(*map(app.enqueue, calls))))

    def _kill_leader(self) -> None:
        if leader := self.cast.leader(self.state.leader):
            leader.kill()
            # Another one, should the leader have changed before.
            self._show_dashboard_of(self.cast.standby(leader))
            self._fell_s = time.monotonic()
            self.news.tell(f"{leader.name}, which leads, is KILLED; {self.left} jobs are unfinished")

    async def _kill_worker(self) -> None:
        await self._until(lambda: self._victim() is not None)
        if victim := self._victim():
            victim.kill()
            self.news.tell(f"{victim.name} is KILLED at its work")

    def _victim(self) -> Process | None:
        """A worker with a report, but not with the film, which has gone on for so long."""
        for worker in self.cast.workers:
            busy_with = {job.entrypoint for job in self.jobs_of(worker)}
            if report.entrypoint in busy_with and film.entrypoint not in busy_with:
                return worker
        return None

    async def _wait_for_report(self, reporting: Process) -> None:
        self.news.tell("the data pipeline reads the archive, on Spark")
        if await reporting.wait(_REPORT_WITHIN_S):
            self.is_report_sound = reporting.exit_code in (0, NO_SPARK)
            self.no_report = reporting.last_words if reporting.exit_code else ""
        else:
            await self.cast.stop(reporting)
            self.is_report_sound = False
            self.no_report = f"it was not there within {_REPORT_WITHIN_S:g} s; see {reporting.log}"
        self.news.tell(f"no report: {self.no_report}" if self.no_report else "the report is written")

    async def _verify(self) -> None:
        verifying = self.cast.begin("verify", *bucketq("verify", self.path.as_uri()))
        await verifying.wait(_PATIENCE_S)
        self.is_verified = verifying.exit_code == 0
        self.news.tell(f"bucketq verify: {', '.join(verifying.said.splitlines())}")

    async def _until(self, condition: Callable[[], bool]) -> None:
        until_s = self.news.elapsed_s + _PATIENCE_S
        while not condition() and self.news.elapsed_s < until_s:
            self.cast.check_running()
            await self.look()
            await asyncio.sleep(_LOOK_EVERY_S)

    def _name_of(self, worker: str | None) -> str:
        found = self.cast.worker(worker)
        return found.name if found is not None else f"{worker}"
