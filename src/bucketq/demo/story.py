"""The story that the demo tells.

    producer ── enqueue ──▶ queue.json ── dequeue ──▶ worker 1
                                ▲                     worker 2
                                └── ack, nack ─────── worker 3

The producer has one BrokerQueue, the workers share another: they meet only in the file.
Some emails fail at first and are tried again. One report never works, and is dead after
its three attempts. One worker crashes in the middle of its work: once its heartbeats have been
missing for long enough, others take its jobs over, and late acks from it are refused.
"""

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bucketq import (
    BrokerQueue,
    ConfigurationError,
    DirectQueue,
    HeartbeatManager,
    Job,
    JobNotFoundError,
    JobStatus,
    LocalFileSystemStorage,
    QueueState,
    Settings,
)

# Lower numbers are served first.
PRIORITIES = {"report": 0, "email": 5, "thumbnail": 10}
BURSTS, EMAILS, THUMBNAILS = 15, 12, 8
BATCH = 4

SETTINGS = Settings(commit_interval_s=0.05, stale_after_s=1.2, poll_interval_s=0.2, retry_for_s=5.0)
BEAT = timedelta(seconds=0.4)
# Longer than the stale timeout: only its heartbeats keep a report with its worker.
REPORT_S = 1.6

FLAKY = {"email 20", "email 45", "email 111", "email 150"}
DOOMED = "report 1"
DEADLY = "email 70"

# On a machine so slow that the story does not fit, the workers stop and leave the rest waiting.
PATIENCE_S = 17.0


@dataclass
class Worker:
    """One of the three, as the display shows it."""

    name: str
    done: int = 0
    doing: str = "waiting"
    has_crashed: bool = False


@dataclass
class Tally:
    """What was seen to happen, to be compared with what the queue says."""

    enqueued: int = 0
    claims: int = 0
    retries: int = 0
    failures: int = 0
    completed: int = 0

    @property
    def operations(self) -> int:
        """Calls that changed the queue, without the heartbeats, which ride along."""
        return self.enqueued + self.claims + self.failures + self.completed


class Story:
    """The producer, the workers, and what a display needs to know of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.workers = [Worker(f"worker {number}") for number in (1, 2, 3)]
        self.tally = Tally()
        self.news: list[str] = []
        self.over = asyncio.Event()
        self.before = self.state = QueueState()
        self._started_s = time.monotonic()
        self._all_enqueued = False
        # It only ever looks.
        self._watcher = DirectQueue(LocalFileSystemStorage(path))

    async def open(self) -> None:
        """Refuse a queue that is in use: the workers take whatever they find."""
        await self.look()
        self.before = self.state
        if unfinished := _unfinished(self.before):
            raise ConfigurationError(
                f"{self.path} holds {unfinished} unfinished jobs, and the demo would take them."
                " Name another file, or delete this one."
            )

    async def run(self) -> None:
        """Play all parts until every job is finished."""
        try:
            async with (
                BrokerQueue(LocalFileSystemStorage(self.path), settings=SETTINGS) as front,
                BrokerQueue(LocalFileSystemStorage(self.path), settings=SETTINGS) as back,
            ):
                working = [self._work(back, worker) for worker in self.workers]
                await asyncio.gather(self._produce(front), *working)
        finally:
            self.over.set()

    async def look(self) -> None:
        """Read the queue, as anybody may at any time."""
        self.state = await self._watcher.read_state()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the story began."""
        return time.monotonic() - self._started_s

    @property
    def commits(self) -> int:
        """How often the file was written: each commit adds one to its version."""
        return self.state.version - self.before.version

    def size_bytes(self) -> int:
        """The size of the file now."""
        return self.path.stat().st_size if self.path.exists() else 0

    def is_conserved(self) -> bool:
        """Whether the counters in the file add up, and agree with what was seen here."""
        was, now, tally = self.before.stats, self.state.stats, self.tally
        return self.state.is_conserved() and (
            now.enqueued_total - was.enqueued_total == tally.enqueued
            and now.completed_total - was.completed_total == tally.completed
        )

    async def _produce(self, queue: BrokerQueue) -> None:
        for burst in range(BURSTS):
            names = [f"email {burst * EMAILS + n}" for n in range(EMAILS)]
            names += [f"thumbnail {burst * THUMBNAILS + n}" for n in range(THUMBNAILS)]
            names += [f"report {burst // 5}"] if burst % 5 == 0 else []
            # As in a web server: many requests at once, and each awaits its own enqueue.
            await asyncio.gather(*(self._enqueue(queue, name) for name in names))
            await asyncio.sleep(0.3)
        self._all_enqueued = True

    async def _enqueue(self, queue: BrokerQueue, name: str) -> None:
        entrypoint = name.split()[0]
        await queue.enqueue(entrypoint, {"name": name}, priority=PRIORITIES[entrypoint])
        self.tally.enqueued += 1

    async def _work(self, queue: BrokerQueue, worker: Worker) -> None:
        while self.elapsed_s < PATIENCE_S:
            jobs = await queue.dequeue(batch_size=BATCH, wait=0.5)
            self._note_claim(worker, jobs)
            if not jobs and await self._is_finished():
                break
            if any(_name(job) == DEADLY and job.attempts == 1 for job in jobs):
                await self._crash(queue, worker, jobs)
                break
            await asyncio.gather(*(self._handle(queue, worker, job) for job in jobs))

    async def _handle(self, queue: BrokerQueue, worker: Worker, job: Job) -> None:
        try:
            try:
                async with HeartbeatManager(queue, job, interval=BEAT):
                    await _do_the_work(job)
            except RuntimeError as error:
                self._note_failure(await queue.nack(job, error=str(error)))
            else:
                await queue.ack(job)
                self.tally.completed += 1
                worker.done += 1
        except JobNotFoundError:
            # Only if this machine stood still for so long that the job was taken away.
            self._tell(f"{worker.name} lost {_name(job)} to another worker")

    async def _crash(self, queue: BrokerQueue, worker: Worker, jobs: list[Job]) -> None:
        worker.has_crashed = True
        worker.doing = "crashed"
        self._tell(f"{worker.name} crashed with {_names(jobs)}")
        await asyncio.sleep(3 * SETTINGS.stale_after_s)
        refused = await queue.ack_many(jobs)
        self.tally.completed += len(jobs) - len(refused)
        self._tell(f"late acks from {worker.name}: {len(refused)} of {len(jobs)} refused")

    async def _is_finished(self) -> bool:
        await self.look()
        return self._all_enqueued and not _unfinished(self.state)

    def _note_claim(self, worker: Worker, jobs: list[Job]) -> None:
        self.tally.claims += bool(jobs)
        self.tally.retries += sum(job.attempts > 1 for job in jobs)
        worker.doing = _names(jobs) or "waiting"
        if taken_over := [job for job in jobs if (job.error or "").startswith("stale")]:
            self._tell(f"{worker.name} took over {_names(taken_over)}")

    def _note_failure(self, job: Job) -> None:
        self.tally.failures += 1
        if job.status is JobStatus.DEAD:
            self._tell(f"{_name(job)} is dead after {job.attempts} attempts: {job.error}")
        else:
            self._tell(f"{_name(job)} failed and will be tried again: {job.error}")

    def _tell(self, what: str) -> None:
        self.news.append(f"{self.elapsed_s:4.1f} s  {what}")


async def _do_the_work(job: Job) -> None:
    name = _name(job)
    if name == DOOMED:
        raise RuntimeError("no such customer")
    await asyncio.sleep(REPORT_S if job.entrypoint == "report" else 0.2)
    if name in FLAKY and job.attempts == 1:
        raise RuntimeError("mail server is busy")


def _unfinished(state: QueueState) -> int:
    return state.stats.queued + state.stats.in_progress


def _names(jobs: list[Job]) -> str:
    return ", ".join(map(_name, jobs))


def _name(job: Job) -> str:
    name: str = job.json()["name"]
    return name
