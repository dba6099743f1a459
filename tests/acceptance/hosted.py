"""A broker with real ports in a thread of this process: for tests of what it answers, not of its process."""

import asyncio
from contextlib import contextmanager

from bucketq import open_storage
from bucketq.broker.serving import serving
from bucketq.loop_thread import LoopThread


@contextmanager
def hosted(url, *, leads=True, **how):
    """A broker that leads a queue, or knows who does, while the block runs; `how` is as for `serving`.

    What changes it is called by `broker.in_its_loop(…)`.
    """
    thread = LoopThread()
    try:
        running = serving(open_storage(url), **how)
        broker = thread.run(_begun(running, leads))
        broker.in_its_loop = lambda call: thread.run(_called(call))
        try:
            yield broker
        finally:
            thread.run(running.__aexit__(None, None, None))
    finally:
        thread.stop()


async def _called(call):
    return call()


async def _begun(running, leads):
    broker = await running.__aenter__()
    async with asyncio.timeout(60):
        while not (broker.is_leading if leads else broker.leader):
            await asyncio.sleep(0.005)
    return broker
