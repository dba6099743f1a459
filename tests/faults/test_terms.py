"""Terms: a leader trusts that it leads for no longer than others see it beat."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from bucketq.broker.broker import Beats, Broker
from bucketq.errors import NotLeaderError, StorageFullError
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.faulty import FaultyStorage

BEATS = Beats(interval_s=3, timeout_s=10)


def now_s():
    return asyncio.get_running_loop().time()


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


@asynccontextmanager
async def brokering(storage, name):
    broker = Broker(storage, beats=BEATS, clock=VirtualClock())
    broker.address = f"{name}:1"
    running = asyncio.create_task(broker.run())
    try:
        yield broker
    finally:
        broker.stop()
        await running


class Fleeting(FaultyStorage):
    """Is gone once something has landed."""

    async def _land(self, content, if_match):
        self.is_down = True
        return await super()._land(content, if_match)


@pytest.mark.parametrize("late_s", [6, 9])
@virtual_time
async def test_a_term_is_trusted_from_when_its_election_was_sent(late_s):
    storage = Fleeting()
    storage.faults.append("lost answer")
    async with brokering(storage, "a") as broker:
        await until(lambda: storage.versions)
        elected_s = now_s()
        await asyncio.sleep(late_s)
        assert not broker.is_leading
        storage.is_down = False
        await until(lambda: broker.is_leading)
        storage.is_down = True
        await until(lambda: not broker.is_leading)
        assert now_s() - elected_s < 10.1, "others have seen no sign of it for so long"
        storage.is_down = False


@virtual_time
async def test_who_leads_again_and_who_takes_over_do_not_both_lead():
    storage = FaultyStorage()
    storage.latency_s = 0.02
    other_way = FaultyStorage(storage.inner)
    other_way.latency_s = 0.02
    async with brokering(storage, "a") as broker:
        await until(lambda: broker.is_leading)
        async with brokering(other_way, "b") as other:
            # Both look once a second: in some of these moments, one just before the other.
            for tenth in range(10):
                await asyncio.sleep(5 + tenth / 10)
                first, second = (broker, other) if broker.is_leading else (other, broker)
                way = storage if first is broker else other_way
                way.is_down = True
                await until(lambda one=first: not one.is_leading)
                way.is_down = False
                began_s = now_s()
                while now_s() < began_s + 5:
                    assert not (first.is_leading and second.is_leading), tenth
                    await asyncio.sleep(0.01)


class FullOnce(FaultyStorage):
    """Its disk is full at the first write, while another broker is elected."""

    meanwhile = None

    async def write(self, content, if_match=None):
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
            raise StorageFullError("no space left; nothing was written")
        return await super().write(content, if_match)


@virtual_time
async def test_a_broker_whose_disk_was_full_sends_clients_to_the_one_that_leads():
    storage = FullOnce()
    other = brokering(storage, "b")

    async def elect_another():
        b = await other.__aenter__()
        await until(lambda: b.is_leading)

    storage.meanwhile = elect_another
    async with brokering(storage, "a") as a:
        await asyncio.sleep(30)
        with pytest.raises(NotLeaderError) as refused:
            a.check_leading()
        assert refused.value.address == "b:1"
        await other.__aexit__(None, None, None)
