"""insist: a fleet outlives a queue that cannot be reached for a while."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bucketq.errors import (
    BucketQError,
    ConfigurationError,
    CorruptStateError,
    JobNotFoundError,
    ObjectNotFoundError,
    QueueClosedError,
    UnusableStorageError,
)
from bucketq.retry import PATIENT

log = logging.getLogger("bucketq")

T = TypeVar("T")


async def insist(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask the queue something until it is answered. Raises what no waiting mends."""
    failures = 0
    while True:
        try:
            return await ask()
        except (
            JobNotFoundError,
            ConfigurationError,
            CorruptStateError,
            ObjectNotFoundError,
            QueueClosedError,
            UnusableStorageError,
        ):
            raise
        except (BucketQError, OSError) as error:
            log.warning("the queue does not answer, trying again: %s", error)
            await asyncio.sleep(PATIENT.delay_s(failures, random.random()))
            failures += 1
