"""Turns of writers, whatever the signatures: somebody may always write soon, and what is kept has a bound."""

from hypothesis import given
from hypothesis import strategies as st

from bucketq.contention import CHANCES, TURN, Contention, order_of
from bucketq.signatures import WRITERS_MAX, Signatures

names = st.sampled_from([f"writer-{number}" for number in range(WRITERS_MAX + 8)])
round_trips_ms = st.integers(0, 5000)
# Who commits how often in a row.
runs = st.lists(st.tuples(names, st.integers(1, 12), round_trips_ms), min_size=1, max_size=40)


def signed(history):
    signatures, version, numbers = Signatures(), 0, {}
    for name, commits, round_trip_ms in history:
        for _ in range(commits):
            version += 1
            contention = Contention(name)
            contention.took(round_trip_ms / 1000)
            numbers[name] = contention.number_after(numbers.get(name, 0))
            signatures.sign(name, numbers[name], version)
    return signatures.writers


def viewers(writers, round_trip_s, now_s):
    found = {}
    for name in [*writers, "newcomer"]:
        found[name] = Contention(name)
        found[name].took(round_trip_s)
        found[name].saw(writers, now_s)
    return found


@given(runs, st.floats(0.005, 1.0))
def test_somebody_may_write_soon_whoever_is_alive(history, round_trip_s):
    writers = signed(history)
    for name, contention in viewers(writers, round_trip_s, 10.0).items():
        # Even if all others are dead; and whoever is not known waits for the turn's end alone.
        slowest_s = max(1.0, round_trip_s)
        assert contention.wait_s(10.0) <= (TURN + 1) * slowest_s * (len(writers) + 1)
        assert contention.wait_s(10.0 + contention.wait_s(10.0)) <= 1e-6, name


@given(runs, st.floats(0.005, 1.0), st.floats(0.0, 100.0))
def test_a_wait_ends_and_looks_do_not_pile_up(history, round_trip_s, now_s):
    for contention in viewers(signed(history), round_trip_s, now_s).values():
        at_s, looks = now_s, 0
        while (left_s := contention.wait_s(at_s)) and looks < 5000:
            if not contention.look_in_s(at_s):
                contention.looked(at_s)
                looks += 1
            step_s = min(left_s, contention.look_in_s(at_s))
            assert step_s >= 1e-6
            at_s += step_s
        # Never more at a time than fit into a round trip.
        assert looks <= 1 + (at_s - now_s) / (round_trip_s / 8)


@given(runs)
def test_the_order_is_the_same_for_all_who_read_it(history):
    writers = signed(history)
    order = order_of(writers, {})
    assert order == order_of(dict(writers), {})
    assert order.holder not in order.rivals
    assert set(order.rivals) < set(writers)
    assert order.left >= 0
    if order.rivals:
        assert order.left < TURN
    # By commits, not by time.
    for name in order.rivals:
        assert order.version - writers[name].version <= (WRITERS_MAX + CHANCES + 1) * TURN * 12


@given(st.lists(runs, min_size=2, max_size=5), st.floats(0.005, 1.0))
def test_what_a_writer_remembers_is_in_the_signatures(histories, round_trip_s):
    contention = Contention("writer-0")
    contention.took(round_trip_s)
    history = []
    for number, more in enumerate(histories):
        history += more
        writers = signed(history)
        contention.saw(writers, number * 0.1)
        assert set(contention._resting) <= set(writers)


@given(st.integers(0, 10**12), st.floats(0.0, 10.0))
def test_a_number_is_higher_than_the_one_before(number, round_trip_s):
    contention = Contention("writer")
    contention.took(round_trip_s)
    assert number < contention.number_after(number) <= number + 2000
