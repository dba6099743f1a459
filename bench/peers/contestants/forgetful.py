"""A contestant that lies, to be caught: it acknowledges what it drops, and doubles what it keeps."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

from bench.peers.handler import handle, tape

LOST_EACH = 10
DOUBLED_EACH = 7


class Contestant:
    """The queue, its producer and its worker."""

    def __init__(self, url: str) -> None:
        self.folder = Path(url.removeprefix("file://"))

    async def open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)

    async def enqueue(self, number: int) -> None:
        if (number + 1) % LOST_EACH:
            (self.folder / f"{number:08d}").touch()

    async def enqueue_many(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            await self.enqueue(number)

    def work(self) -> None:
        while True:
            for name in sorted(os.listdir(self.folder)):
                # Before it is done: whoever is killed now takes the job along.
                (self.folder / name).unlink()
                handle(int(name), "")
                if int(name) % DOUBLED_EACH == 0:
                    # At once: a kill in the middle of it would be one of a job that has ended.
                    tape().note("begun", int(name))
                    tape().note("ended", int(name))
            time.sleep(0.01)
