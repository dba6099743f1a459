"""One real process of the soak: actors on a queue, until it is killed.

    python -m tests.sim.crew FOLDER NAME KIND STALE_AFTER_S URL [OPTION=VALUE …]

KIND is direct, broker, remote, or serve:HOST:GRPC_PORT:HTTP_PORT.

Calls go to FOLDER/NAME.calls as they begin and end, writes to FOLDER/NAME.writes.
"""

import asyncio
import logging
import pickle
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from bucketq import BrokerQueue, DirectQueue, Settings, connect, open_storage
from bucketq.broker.broker import Beats
from bucketq.broker.serving import serving
from bucketq.supervised import end_with_supervisor
from tests.sim.actors import ACTORS, WANTED, producer, worker
from tests.sim.chronicle import Chronicle
from tests.sim.recorded_queue import RecordedQueue

BEATS = Beats(interval_s=0.5, timeout_s=2.0)


class RealWorld:
    """What the actors see of the world: its dice, its clock, its record."""

    is_stormy = True
    is_over = False
    wanted = WANTED

    def __init__(self, log):
        self.random = random.Random()
        self._log = open(log, "ab", buffering=0)  # noqa: SIM115 (open as long as the process lives)

    def now_s(self):
        return time.monotonic()

    def began(self, call):
        self._log.write(pickle.dumps(call))

    def ended(self, call):
        self._log.write(pickle.dumps(call))


def soak_settings(stale_after_s):
    """Limits so small that most jobs pass through segments, and payloads through objects."""
    return Settings(
        stale_after_s=stale_after_s,
        poll_interval_s=0.2,
        retry_for_s=60,
        hot_jobs_max=16,
        hot_bytes_max=4000,
        segment_jobs_max=10,
        payload_inline_max=30,
        collect_after_s=2,
        archive_jobs_max=20,
        archive_after_s=2,
    )


async def main(folder, name, kind, stale_after_s, url, *options):
    logging.getLogger("bucketq").setLevel(logging.ERROR)
    end_with_supervisor(lambda: None, within_s=0)
    world = RealWorld(Path(folder) / f"{name}.calls")
    settings = soak_settings(float(stale_after_s))
    if kind == "remote" or kind.startswith("serve:"):
        # A load may take as long as a failover; what it has written must not be garbage by then.
        settings = replace(settings, collect_after_s=60)
    actors = [producer, worker, world.random.choice(ACTORS), world.random.choice(ACTORS)]
    if kind == "remote":
        async with connect(url, settings=settings) as remote:
            queue = RecordedQueue(remote, world, name, settings.stale_after_s)
            await asyncio.gather(*(actor(queue, world) for actor in actors))
    storage = Chronicle(
        open_storage(url, **dict(option.split("=", 1) for option in options)), Path(folder) / f"{name}.writes"
    )
    if kind.startswith("serve:"):
        _, host, *ports = kind.split(":")
        await serve(storage, host, *map(int, ports), settings)
        return
    if kind == "direct":
        queue = RecordedQueue(DirectQueue(storage, settings), world, name, settings.stale_after_s)
        await asyncio.gather(*(actor(queue, world) for actor in actors))
    async with BrokerQueue(storage, settings=settings) as broker:
        queue = RecordedQueue(broker, world, name, settings.stale_after_s)
        await asyncio.gather(*(actor(queue, world) for actor in actors))


async def serve(storage, host, grpc_port, http_port, settings):
    """Be a broker until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    options = {"grpc_port": grpc_port, "http_port": http_port, "settings": settings, "beats": BEATS}
    async with serving(storage, host=host, **options):
        await stopping.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
