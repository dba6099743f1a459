"""Counting together in one object: every write that a storage loses is noticed."""

import pytest

from bucketq.doctor.counter import Order, count
from bucketq.errors import StorageError
from bucketq.storage import InMemoryStorage


class LosingStorage(InMemoryStorage):
    """Says of every third write that it has landed, and forgets it."""

    def __init__(self):
        super().__init__(b"{}")
        self.writes = 0

    async def write(self, content, if_match=None):
        self.writes += 1
        if self.writes % 3:
            return await super().write(content, if_match)
        return "landed"


class FailingStorage(InMemoryStorage):
    """Loses the answers to some writes that have landed, and fails for good after some reads."""

    def __init__(self, reads):
        super().__init__(b"{}")
        self.reads = reads

    async def read(self):
        self.reads -= 1
        if self.reads < 0:
            raise StorageError("the storage is gone")
        return await super().read()

    async def write(self, content, if_match=None):
        etag = await super().write(content, if_match)
        if int(etag) % 4 == 0:
            raise StorageError("no answer")
        return etag


def order(times):
    return Order("", {}, "1", times, for_s=60.0)


async def test_every_lost_write_is_counted():
    tally = await count(LosingStorage(), order(times=10))
    assert (tally.landed, tally.lost) == (10, 3)


async def test_a_lost_answer_is_no_lost_write():
    tally = await count(FailingStorage(reads=1000), order(times=30))
    assert (tally.landed, tally.lost, tally.garbled, tally.failure) == (30, 0, 0, "")
    assert tally.number > 30, "some landed of which nobody was told"


async def test_what_nobody_wrote_is_noticed():
    tally = await count(InMemoryStorage(b'{"1": 7}}'), Order("", {}, "1", 10, for_s=0.05))
    assert tally.garbled > 0


@pytest.mark.parametrize("reads", [0, 5])
async def test_a_storage_that_only_fails_ends_it(reads):
    tally = await count(FailingStorage(reads), order(times=10))
    assert tally.failure == "the storage is gone"
    assert tally.landed < 10
