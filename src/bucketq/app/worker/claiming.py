"""Claiming: a worker asks for as many jobs as it has free slots, and waits where there are none."""

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from typing import Any

from bucketq.app.handler import Handler
from bucketq.app.settling import Settling
from bucketq.app.worker.slots import Slots
from bucketq.errors import ConfigurationError, CorruptStateError, UnusableStorageError
from bucketq.queue import Queue
from bucketq.retry import PATIENT

log = logging.getLogger("bucketq")

# For so long a claim waits for jobs before it asks anew.
_WAIT_S = 20.0
# Finished jobs that the storage does not take, for each slot, before no more are begun.
_UNSETTLED_PER_SLOT = 4
_TROUBLE_AFTER_S = 30.0


class Claiming:
    """Begins jobs in the slots as these become free; `freed` says that there may be one."""

    def __init__(
        self,
        queue: Queue,
        handlers: Mapping[str, Handler[..., Any]],
        slots: Slots,
        settling: Settling,
        freed: asyncio.Event,
    ) -> None:
        self._queue = queue
        self._handlers = handlers
        self._slots = slots
        self._settling = settling
        self._freed = freed
        self._has_worked = False
        # Since when a claim waits for its answer, and what was wrong last.
        self._asking_since_s: float | None = None
        self._error: Exception | None = None

    @property
    def trouble(self) -> str | None:
        """Why no jobs are claimed: from the start, or later for more than half a minute."""
        if not self._has_worked:
            return f"nothing was claimed yet: {self._error or 'starting'}"
        if self._asking_since_s is None:
            return None
        asking_s = time.monotonic() - self._asking_since_s
        # Without an error it may just be waiting for jobs.
        if asking_s < (_TROUBLE_AFTER_S if self._error else _WAIT_S + _TROUBLE_AFTER_S):
            return None
        return f"no claim was answered for {asking_s:.0f} s: {self._error or 'no answer at all'}"

    async def run(self) -> None:
        """Claim jobs; never returns. Raises what no waiting mends, if it is so from the start."""
        failures = 0
        while True:
            try:
                await self._claim()
                failures = 0
            except Exception as error:
                is_hopeless = isinstance(error, UnusableStorageError | CorruptStateError)
                if isinstance(error, ConfigurationError) or (is_hopeless and not self._has_worked):
                    raise
                self._error = error
                log.warning("no jobs can be claimed, trying again: %s", error)
                await asyncio.sleep(PATIENT.delay_s(failures, random.random()))
                failures += 1

    async def _claim(self) -> None:
        while self._slots.free < 1 or len(self._settling) >= _UNSETTLED_PER_SLOT * self._slots.size:
            self._freed.clear()
            await self._freed.wait()
        if self._asking_since_s is None:
            self._asking_since_s = time.monotonic()
        if not self._has_worked:
            for handler in self._handlers.values():
                await handler.make_schedule()
            log.info("taking jobs of %s", ", ".join(self._handlers))
        # Whether it works (again) should show at once, and not when the first job comes.
        wait_s = _WAIT_S if self._has_worked and self._error is None else None
        jobs = await self._queue.dequeue([*self._handlers], batch_size=self._slots.free, wait=wait_s)
        self._has_worked = True
        self._asking_since_s = self._error = None
        for job in jobs:
            self._slots.begin(job)
