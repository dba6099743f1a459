"""Cast: the processes of the tour, two brokers and three workers; whatever happens, they end with it."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from bucketq.demo.jobs import STALE_AFTER_S
from bucketq.demo.process import Process
from bucketq.election import Leader

# A leader that is silent for two seconds has fallen: far less than in earnest, to be seen soon.
_BEATS = ("--heartbeat-interval-s=0.5", "--heartbeat-timeout-s=2")
_STALE = f"--stale-after-s={STALE_AFTER_S}"
# Callers share writes that are at least so far apart, and what is finished is archived soon.
_PACE = ("--commit-interval-s=0.05", "--archive-after-s=2")


class Broker(Process):
    """A broker; it has its addresses when it serves."""

    address = ""
    http = ""

    async def wait_serving(self) -> None:
        """Wait until it listens. Raises ProcessError."""
        found = await self.wait_for(r"serving \S+ at (\S+), and at (http://\S+)")
        self.address, self.http = found[1], found[2]


class Cast:
    """Everybody who takes part, from `start` to `stop`, or for an `async with`."""

    def __init__(self, folder: Path) -> None:
        self._url = (folder / "queue.json").as_uri()
        self._report = folder / "report.html"
        self._logs = folder / "logs"
        self.brokers: list[Broker] = []
        self.workers: list[Process] = []
        self._others: list[Process] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        # Workers can give their jobs back as long as there is a broker.
        await self.stop(*self._others, *self.workers)
        await self.stop(*self.brokers)

    async def start(self) -> None:
        """Start the brokers, and the workers, which are told where those are. Raises ProcessError."""
        self._logs.mkdir(parents=True, exist_ok=True)
        shown = ("--grpc-port=0", "--http-port=0", "--dashboard", f"--report={self._report}")
        serve = bucketq("serve", self._url, *shown, *_BEATS, *_PACE, _STALE, "--supervised")
        for name in ("broker 1", "broker 2"):
            self.brokers.append(Broker(*self._part(name), *serve))
        for broker in self.brokers:
            await broker.wait_serving()
        pace = ("--concurrency=4", "--grace-s=1", _STALE)
        work = bucketq("work", "bucketq.demo.jobs:app", "--url", self.brokers_url, *pace, "--supervised")
        for name in ("worker 1", "worker 2", "worker 3"):
            self.workers.append(Process(*self._part(name), *work))
        for worker in self.workers:
            await worker.wait_for("taking jobs")

    def standby(self, leader: Broker) -> Broker:
        """The broker that waits while another leads."""
        return next(broker for broker in self.brokers if broker is not leader)

    @property
    def brokers_url(self) -> str:
        """Where clients find whichever broker leads."""
        return f"grpc://{','.join(broker.address for broker in self.brokers)}"

    def leader(self, leader: Leader | None) -> Broker | None:
        """The broker that queue.json names as the leader, if it is one of these, and alive."""
        alive = (broker for broker in self.brokers if not broker.was_killed)
        return next((broker for broker in alive if leader and broker.address == leader.address), None)

    def worker(self, name: str | None) -> Process | None:
        """The worker that has a job, by the name that it has claimed it with."""
        pid = (name or "").rpartition(":")[2]
        return next((worker for worker in self.workers if str(worker.pid) == pid), None)

    def check_running(self) -> None:
        """Raise ProcessError if somebody has left who was not killed."""
        for process in (*self.brokers, *self.workers):
            process.check_running()

    def troubles(self) -> Iterator[str]:
        """Who has not ended in order, after `stop`."""
        for process in (*self.brokers, *self.workers):
            if not process.was_killed and process.exit_code != 0:
                yield f"{process.name} ended with exit code {process.exit_code}; see {process.log}"

    def begin(self, name: str, *arguments: str) -> Process:
        """Have a module of Python do something beside, as one more process."""
        self._others.append(Process(*self._part(name), *arguments))
        return self._others[-1]

    async def stop(self, *processes: Process) -> None:
        """End processes, all at once."""
        await asyncio.gather(*(process.stop() for process in processes))

    def _part(self, name: str) -> tuple[str, Path]:
        return name, self._logs / f"{name.replace(' ', '-')}.log"


def bucketq(*arguments: str) -> tuple[str, ...]:
    """A command of bucketq, as one of the processes runs it."""
    # What is configured in the folder that one happens to be in is not for the tour.
    return ("bucketq", "--config", os.devnull, *arguments)
