"""Beating: one heartbeat for all the jobs that a worker holds."""

import asyncio
import logging

from bucketq.app.settling import Settling
from bucketq.app.worker.slots import Slots
from bucketq.queue import Queue

log = logging.getLogger("bucketq")

_INTERVAL_S_MAX = 10.0


async def beat(queue: Queue, slots: Slots, settling: Settling) -> None:
    """Keep the claims of jobs alive that run, or are finished and not settled; never returns.

    A job whose claim is lost, or that was cancelled, is stopped.
    """
    interval_s = min(queue.settings.stale_after_s / 3, _INTERVAL_S_MAX)
    while True:
        await asyncio.sleep(interval_s)
        held = {job.id: job for job in (*settling.jobs(), *slots.jobs())}
        if held:
            try:
                for lost in await queue.heartbeat_many(held.values(), slots.progress()):
                    slots.lose(held[lost.job_id], lost)
            except Exception as error:
                # Whatever it was: a heart that stops without a word costs the jobs.
                log.warning("a heartbeat did not get through, the next one may: %s", error)
