"""What `top` reads: queue.json, and only if it has changed."""

import asyncio

import pytest

from bucketq import InMemoryStorage, StorageError
from bucketq.live import look
from bucketq.live.look import Looker
from tests.live.watched import WatchedQueue


class NoObjects:
    """Objects that nobody may read any more."""

    def __init__(self, objects):
        self._objects = objects
        self.is_closed = False

    def __getattr__(self, name):
        assert not self.is_closed, f"top uses objects.{name}"
        return getattr(self._objects, name)


async def test_a_deep_queue_is_seen_without_its_segments():
    storage = InMemoryStorage()
    storage.objects = NoObjects(storage.objects)
    async with WatchedQueue(storage) as queue:
        await queue.enqueue_many("resize", range(30_000))
        storage.objects.is_closed = True
        seen = await queue.looker().look()
        assert seen.state.stats.queued == 30_000
        storage.objects.is_closed = False


class Counting(InMemoryStorage):
    """A storage that counts how often it sends the queue; as a broker does, it may send it every time."""

    def __init__(self, tells_unchanged):
        super().__init__()
        self.tells_unchanged = tells_unchanged
        self.sent = 0

    async def read_if_changed(self, etag):
        read = await (super().read_if_changed(etag) if self.tells_unchanged else self.read())
        self.sent += read is not None
        return read


@pytest.mark.parametrize("tells_unchanged", [True, False])
async def test_what_has_not_changed_is_not_decoded_again(tells_unchanged):
    storage = Counting(tells_unchanged)
    async with WatchedQueue(storage) as queue:
        await queue.enqueue("mail")
        looker = queue.looker()
        storage.sent = 0
        first, second = await looker.look(), await looker.look()
        assert second.state is first.state
        assert storage.sent == (1 if tells_unchanged else 2)
        await queue.enqueue("mail")
        assert (await looker.look()).state.stats.queued == 2


async def test_a_queue_that_is_not_there_yet_is_empty_and_appears():
    async with WatchedQueue() as queue:
        looker = queue.looker()
        assert (await looker.look()).state.stats.queued == 0
        await queue.enqueue("mail")
        assert (await looker.look()).state.stats.queued == 1


async def test_a_storage_that_does_not_answer_is_an_error_with_its_name(monkeypatch):
    class Silent(InMemoryStorage):
        async def read_if_changed(self, etag):
            await asyncio.Event().wait()

    monkeypatch.setattr(look, "_ANSWER_WITHIN_S", 0.01)
    async with WatchedQueue() as queue:
        with pytest.raises(StorageError, match="memory:// has not answered"):
            await Looker(Silent(), queue.clock).look()
