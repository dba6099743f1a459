"""The handler of all contestants: note the beginning, nap if so told, note the end."""

import asyncio
import os
import time

from bench.peers.tape import Tape

# 200 bytes of JSON, or a little more, in every job.
TEXT = "x" * 180
# How many jobs a worker has in hand at a time, if it can.
CONCURRENCY = 20
# After how many seconds of silence a worker is taken for dead, where that can be chosen.
SILENT_S = 5

_tape: Tape | None = None


def tape() -> Tape:
    """The tape that the environment names; opened by whoever runs handlers, forked or not."""
    global _tape
    if _tape is None:
        _tape = Tape(os.environ["PEERS_TAPE"])
    return _tape


def handle(number: int, text: str) -> None:
    """Handle a job in a thread or a process."""
    tape().note("begun", number)
    if nap_s := nap():
        time.sleep(nap_s)
    tape().note("ended", number)


async def handle_async(number: int, text: str) -> None:
    """Handle a job on an event loop."""
    tape().note("begun", number)
    if nap_s := nap():
        await asyncio.sleep(nap_s)
    tape().note("ended", number)


def nap() -> float:
    """How many seconds a job takes."""
    return float(os.environ.get("PEERS_NAP_S", 0))
