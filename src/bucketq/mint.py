"""Mint: the one place where ids come from, so that a test can replay them."""

import os
import random
from datetime import datetime

_of_this_process = random.Random()
# Two processes that inherit one generator would mint the same ids.
os.register_at_fork(after_in_child=_of_this_process.seed)


class Mint:
    """Makes job ids (UUIDv7: they sort by time), claim tokens and writer ids."""

    def __init__(self, source: random.Random | None = None) -> None:
        self._source = source

    @property
    def _random(self) -> random.Random:
        # Looked up, not kept: a copy of the generator, say by pickle, would mint the same ids.
        return self._source or _of_this_process

    def job_id(self, now: datetime) -> str:
        """A new UUIDv7."""
        now_ms = int(now.timestamp() * 1000)
        bits = self._random.getrandbits(74)
        value = now_ms << 80 | 0x7 << 76 | (bits >> 62) << 64 | 0x2 << 62 | bits & (1 << 62) - 1
        digits = f"{value:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def token(self) -> str:
        """Sixteen hexadecimal digits that nobody else has."""
        return f"{self._random.getrandbits(64):016x}"

    def jitter(self) -> float:
        """A number from 0 to 1, to keep writers that collided from colliding again."""
        return self._random.random()
