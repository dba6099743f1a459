"""Several processes that write to one object take turns: none starves, and together they are as fast as one.

Without that, one writer of four on a storage 60 ms away completed all calls, and the others none.
"""

import asyncio
from itertools import pairwise

import pytest

from bucketq import BrokerQueue, Settings
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.faults.rivals import FarBucket, FarStorage, compete

FAR_S = 0.06
# Everybody has had a turn by then.
WARM_S = 4.0


@pytest.mark.parametrize("writers", [2, 4, 8])
def test_together_they_are_as_fast_as_one_and_share_it(writers):
    alone = compete([FAR_S], seconds=10, warm_s=WARM_S, callers=2)
    contest = compete([FAR_S] * writers, seconds=10, warm_s=WARM_S, callers=2)
    assert contest.per_s >= 0.95 * alone.per_s
    assert contest.fairness >= 0.5
    assert contest.percentile_s(0.99) <= 4 * writers * FAR_S


def test_sixteen_share_it_too():
    contest = compete([FAR_S] * 16, seconds=14, warm_s=6, callers=1)
    assert contest.per_s >= 0.95 / FAR_S
    assert contest.fairness >= 0.5
    assert contest.percentile_s(0.99) <= 4.5 * 16 * FAR_S


def test_they_share_it_where_requests_take_more_or_less_time():
    alone = compete([FAR_S], seconds=14, warm_s=WARM_S, callers=2, jitter=0.3)
    contest = compete([FAR_S] * 4, seconds=14, warm_s=WARM_S, callers=2, jitter=0.3)
    assert contest.per_s >= 0.9 * alone.per_s
    assert contest.fairness >= 0.5
    assert contest.percentile_s(0.99) <= 5 * 4 * FAR_S


@pytest.mark.parametrize("jitter", [0.0, 0.2])
def test_they_share_it_where_some_are_further_away(jitter):
    # The near ones begin later: the far ones need not be waited for until they have found a gap.
    latencies_s, late = [0.1, 0.06, 0.02], {1: 2.0, 2: 4.0}
    contest = compete(latencies_s, seconds=16, warm_s=8, callers=2, jitter=jitter, starts_s=late)
    assert contest.fairness >= 0.5
    assert contest.per_s >= 0.85 * 2 / FAR_S
    assert contest.percentile_s(0.99) <= 5 * 3 * FAR_S


def test_one_that_is_further_away_gets_in():
    contest = compete([0.02, 0.06], seconds=20, warm_s=14, callers=1)
    assert contest.fairness >= 0.5


def test_one_that_comes_late_gets_in_soon():
    contest = compete([FAR_S] * 2, seconds=8, callers=2, starts_s={1: 3.01})
    began_s, took_s = contest.rivals[1].calls[0]
    assert took_s < 2.5
    assert len(contest.rivals[1].calls) >= 0.4 * len(contest.rivals[0].after(began_s + took_s))


@pytest.mark.parametrize("end", ["kill", "pause"])
def test_the_others_go_on_when_one_stops_in_the_middle_of_its_turn(end):
    async def stop_one(rivals):
        await asyncio.sleep(4.03)
        landed = rivals[0].storage.landed
        while rivals[0].storage.landed < landed + 2:
            await asyncio.sleep(0.001)
        getattr(rivals[0].process, end)()

    contest = compete([FAR_S] * 4, seconds=9, callers=2, meanwhile=stop_one)
    for rival in contest.rivals[1:]:
        ends_s = [end_s for end_s in sorted(map(sum, rival.calls)) if end_s >= 3]
        longest_s = max(after_s - before_s for before_s, after_s in pairwise(ends_s))
        assert ends_s[-1] > 8
        # Its turn is waited for a few times before it is given up.
        assert longest_s <= 7 * 4 * FAR_S
    counts = [len(rival.after(6)) for rival in contest.rivals[1:]]
    assert min(counts) >= 0.5 * max(counts)
    assert sum(counts) >= 0.9 * 3 * 2 / FAR_S


def test_one_that_was_paused_gets_its_turns_back():
    async def pause_one(rivals):
        await asyncio.sleep(3)
        rivals[0].process.pause()
        await asyncio.sleep(2)
        rivals[0].process.resume()

    contest = compete([FAR_S] * 2, seconds=10, warm_s=6.5, callers=2, meanwhile=pause_one)
    assert contest.fairness >= 0.5


def test_a_writer_alone_makes_no_more_requests_and_loses_next_to_no_time():
    contest = compete([FAR_S], seconds=30, callers=2)
    landed, refused, reads = contest.requests
    assert (refused, reads) == (0, 1)
    assert landed >= 0.98 * 30 / FAR_S


@virtual_time
async def test_writers_that_seldom_meet_do_not_wait_for_each_other():
    bucket = FarBucket()
    storages = [FarStorage(bucket, FAR_S) for _ in range(2)]
    async with (
        BrokerQueue(storages[0], clock=VirtualClock()) as one,
        BrokerQueue(storages[1], clock=VirtualClock()) as other,
    ):
        loop = asyncio.get_running_loop()
        for queue in [one, other] * 10:
            began_s = loop.time()
            await queue.enqueue("mail")
            # At most a refused write, a short pause, a read and a write.
            assert loop.time() - began_s <= 3.2 * FAR_S
            await asyncio.sleep(1)
    assert sum(storage.reads for storage in storages) <= 21


def test_one_that_writes_seldom_costs_a_busy_one_little():
    alone = compete([FAR_S], seconds=12, callers=2)
    contest = compete([FAR_S] * 2, seconds=12, callers=[2, 1], rests_s=[0, 1])
    busy, seldom = contest.rivals
    assert len(busy.calls) >= 0.7 * len(alone.rivals[0].calls)
    assert len(seldom.calls) >= 4


@virtual_time
async def test_a_storage_that_does_not_answer_ends_the_wait():
    bucket = FarBucket()
    storage = FarStorage(bucket, FAR_S)
    settings = Settings(retry_for_s=5)
    async with (
        BrokerQueue(storage, clock=VirtualClock(), settings=settings) as queue,
        BrokerQueue(FarStorage(bucket, FAR_S), clock=VirtualClock()) as other,
    ):
        for _ in range(6):
            await asyncio.gather(queue.enqueue("mail"), other.enqueue("mail"))
        storage.hangs = True
        tasks = [asyncio.create_task(queue.enqueue("mail")) for _ in range(3)]
        await asyncio.sleep(4)
        storage.hangs = False
        await asyncio.gather(*tasks)
