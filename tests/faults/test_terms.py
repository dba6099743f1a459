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
async def brokering(storage, name, *, is_at_home=False):
    broker = Broker(storage, beats=BEATS, clock=VirtualClock())
    broker.address = f"{name}:1"
    broker.is_at_home = is_at_home
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


@pytest.mark.parametrize("is_at_home", [True, False])
@virtual_time
async def test_a_broker_restarted_at_the_leaders_address_takes_over_at_once_on_its_own_machine(is_at_home):
    storage = FaultyStorage()
    old_way = FaultyStorage(storage.inner)
    async with brokering(old_way, "host") as killed:
        await until(lambda: killed.is_leading)
        old_way.is_down, epoch = True, killed.leader.epoch
        async with brokering(storage, "host", is_at_home=is_at_home) as restarted:
            await asyncio.sleep(1)
            assert restarted.is_leading is is_at_home
            await until(lambda: restarted.is_leading)
            assert (restarted.leader.epoch, restarted.leader.broker) == (epoch + 1, restarted.id)
            old_way.is_down = False


@virtual_time
async def test_a_broker_at_another_address_of_the_machine_waits():
    storage = FaultyStorage()
    async with brokering(storage, "host") as leader:
        await until(lambda: leader.is_leading)
        async with brokering(FaultyStorage(storage.inner), "other", is_at_home=True) as standby:
            await asyncio.sleep(60)
            assert leader.is_leading
            assert not standby.is_leading


@virtual_time
async def test_two_hosts_with_the_same_name_do_not_take_the_lead_in_turns():
    storage = FaultyStorage()
    async with brokering(storage, "broker", is_at_home=True) as first:
        await until(lambda: first.is_leading)
        async with brokering(FaultyStorage(storage.inner), "broker", is_at_home=True) as second:
            await until(lambda: second.is_leading)
            await asyncio.sleep(120)
            assert second.is_leading
            assert not first.is_leading
            assert second.leader.epoch == 2, "only a start takes over at once"


@virtual_time
async def test_a_leader_of_the_same_name_that_still_beats_is_not_replaced():
    storage = FaultyStorage()
    slow = FaultyStorage(storage.inner)
    slow.latency_s = 4.0
    async with brokering(storage, "broker") as leader:
        await until(lambda: leader.is_leading)
        async with brokering(slow, "broker", is_at_home=True) as other:
            await asyncio.sleep(60)
            assert leader.is_leading
            assert leader.leader.epoch == 1
            assert not other.is_leading
