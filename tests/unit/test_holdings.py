"""Holdings: what a broker holds for its clients, in sum; and the answers that wait for room."""

import asyncio
from contextlib import ExitStack, closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bucketq.broker.allowance import Allowance
from bucketq.broker.holdings import SMALL_BYTES, Hold, Holdings, announced, answered
from bucketq.errors import TooManyRequestsError
from bucketq.storage import InMemoryStorage
from bucketq.testing import virtual_time

MB = 1024 * 1024
MAX = 16 * MB
WAIT_S = 60.0


def holdings():
    return Holdings(Allowance(held_bytes_max=MAX, body_within_s=WAIT_S))


def test_a_few_who_send_much_keep_no_small_message_out():
    held = holdings()
    assert held.count("a", MAX)
    assert not held.count("b", MB), "there is no room for more"
    assert held.count("c", 100)
    assert not held.count("c", SMALL_BYTES), "many small ones are no small one"
    held.count("a", -5 * MB)
    assert held.count("d", MB)


@virtual_time
async def test_one_connection_has_one_large_answer_or_a_quarter_of_the_room():
    held = holdings()
    await held.enter("a", 10 * MB)
    assert not held.has_room("a", MB)
    assert held.has_room("b", MB)
    await held.enter("b", MB)
    assert held.has_room("b", 3 * MB)
    assert not held.has_room("b", 4 * MB)


@virtual_time
async def test_an_answer_larger_than_the_room_gets_half_of_it():
    held = holdings()
    await held.enter("a", 10 * MAX)
    held.count("a", -10 * MAX)
    await held.enter("a", MAX // 2)
    await held.enter("b", 10 * MAX)


@virtual_time
async def test_an_answer_without_room_is_dropped_and_produced_again():
    held, produced = holdings(), 0

    async def produce():
        nonlocal produced
        produced += 1
        return b"x" * MB

    held.count("a", MAX)
    asyncio.get_running_loop().call_later(5, held.count, "a", -MB)
    with closing(Hold(held, "b")):
        assert await answered(produce, is_repeatable=True) == b"x" * MB
        assert (produced, held.bytes_held) == (2, MAX)
        with closing(Hold(held, "c")):
            with pytest.raises(TooManyRequestsError):
                await answered(produce, is_repeatable=True)
            await answered(produce, is_repeatable=False)
    assert held.bytes_held == MAX - MB


@virtual_time
async def test_an_object_waits_for_room_before_it_is_read():
    storage, held = InMemoryStorage(), holdings()
    await storage.objects.create("payloads/a", b"x" * MB)
    held.count("a", MAX)
    with closing(Hold(held, "b")) as hold:
        with pytest.raises(TooManyRequestsError), announced():
            await storage.objects.read("payloads/a")
        held.count("a", -MB)
        for _ in range(2):
            with announced():
                await storage.objects.read("payloads/a")
        assert held.bytes_held == MAX, "an object that is read again counts once"
        await storage.objects.read("payloads/a")
        hold.close()
    assert held.bytes_held == MAX - MB


@virtual_time
async def test_no_change_begins_for_a_connection_that_does_not_read_while_the_room_is_full():
    held, begun = holdings(), []

    async def claim():
        begun.append(1)
        return b"x" * 5 * MB

    with ExitStack() as calls:
        for _ in range(4):
            calls.enter_context(closing(Hold(held, "deaf")))
            await answered(claim, is_repeatable=False)
        calls.enter_context(closing(Hold(held, "deaf")))
        with pytest.raises(TooManyRequestsError):
            await answered(claim, is_repeatable=False)
    assert (len(begun), held.bytes_held) == (4, 0)


SIZES = st.sampled_from([1, SMALL_BYTES, 5000, SMALL_BYTES + 1, MB, 3 * MB, MAX // 4, MAX // 2, MAX])
CALLS = st.lists(
    st.tuples(
        st.sampled_from("abcde"), st.lists(SIZES, min_size=1, max_size=3), st.floats(0, 90), st.floats(0, 90)
    ),
    min_size=1,
    max_size=20,
)


@given(CALLS)
def test_whatever_is_asked_for_is_bounded_and_has_a_deadline(calls):
    """Each call begins at some time, wants some objects, and keeps them until its client has read them."""
    held = holdings()

    async def call(owner, sizes, begins_s, reads_s):
        await asyncio.sleep(begins_s)
        loop = asyncio.get_running_loop()
        with closing(Hold(held, owner)) as hold:
            began_s = loop.time()
            outcomes = await asyncio.gather(*map(hold.grow, sizes), return_exceptions=True)
            assert loop.time() - began_s <= WAIT_S + 1, "a wait has a deadline"
            assert all(one is None or isinstance(one, TooManyRequestsError) for one in outcomes)
            # An answer above half of the room counts as half while it waits.
            assert held.bytes_held <= MAX + MAX // 2 + 5 * SMALL_BYTES
            await asyncio.sleep(reads_s)

    @virtual_time
    async def live():
        tasks = [asyncio.create_task(call(*one)) for one in calls]
        # Some clients go away in the middle.
        asyncio.get_running_loop().call_later(30, tasks[0].cancel)
        await asyncio.wait(tasks)
        assert not [task for task in tasks if not task.cancelled() and task.exception()]

    live()
    assert (held.bytes_held, held._waiting, held._of) == (0, {}, {})


@given(st.lists(st.tuples(st.sampled_from("abc"), SIZES), min_size=1, max_size=30))
def test_every_answer_gets_its_turn_if_those_before_are_read(wanted):
    """First come, first served: no answer is passed over for ever."""

    @virtual_time
    async def live():
        held, order = holdings(), []

        async def answer(number, owner, size):
            await held.enter(owner, size)
            order.append(number)
            await asyncio.sleep(1)
            held.count(owner, -size)

        async with asyncio.TaskGroup() as group:
            for number, (owner, size) in enumerate(wanted):
                group.create_task(answer(number, owner, size))
        assert sorted(order) == list(range(len(wanted)))
        for one in "abc":
            mine = [
                number for number in order if wanted[number][0] == one and wanted[number][1] > SMALL_BYTES
            ]
            assert mine == sorted(mine)

    live()


class Counted:
    """A connection that counts how often it is looked up."""

    looks = 0

    def __hash__(self):
        Counted.looks += 1
        return id(self)


@virtual_time
async def test_many_waiting_answers_of_clients_that_do_not_read_cost_others_nothing():
    held = holdings()
    deaf = Counted()
    await held.enter(deaf, MAX // 2)
    waiting = [asyncio.create_task(held.enter(deaf, MB)) for _ in range(1000)]
    await asyncio.sleep(0)
    Counted.looks = 0
    held.count("a", 100)
    held.count("a", -100)
    assert Counted.looks < 10
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)
    assert held._waiting == {}
