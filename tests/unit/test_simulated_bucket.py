"""The objects beside a simulated queue: true on the server, anything but on the way there."""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from datetime import timedelta

import pytest

from bucketq import ObjectExistsError, ObjectNotFoundError, SlowDownError, StorageError
from bucketq.storage.port import Bucket
from bucketq.testing.simulated_bucket import CALM, CLIENT_TIMEOUT_S, Removal, SimulatedBucket, Weather
from bucketq.testing.virtual_time import VirtualClock, run, virtual_time

STORMY = Weather(0.1, 0.1, 0.05, 0.1, 0.1, 0.1, 0.1)


def new_bucket(seed=0, **weather):
    return SimulatedBucket(random.Random(seed), Weather(**weather))


async def all_of(objects, prefix=""):
    return [info async for info in objects.list(prefix)]


async def outcome_of(request):
    try:
        return await request
    except Exception as error:
        return type(error)


def asked(bucket):
    """The trace without its times."""
    return [line.split(maxsplit=1)[1] for line in bucket.trace]


@virtual_time
async def test_every_client_sees_the_same_objects():
    bucket = new_bucket()
    mine, yours = bucket.storage("p0"), bucket.storage("p1")
    assert isinstance(mine, Bucket)
    await mine.objects.create("backlog/0001-ab.json", b"[]")
    assert await yours.objects.read("backlog/0001-ab.json") == b"[]"
    assert [info.name for info in await all_of(yours.objects)] == ["backlog/0001-ab.json"]
    await yours.objects.delete("backlog/0001-ab.json")
    with pytest.raises(ObjectNotFoundError, match=r"0001-ab\.json"):
        await mine.objects.read("backlog/0001-ab.json")
    assert asked(bucket) == [
        "p0 create backlog/0001-ab.json",
        "p1 read backlog/0001-ab.json",
        "p1 list",
        "p1 delete backlog/0001-ab.json",
        "p0 read backlog/0001-ab.json",
    ]


@virtual_time
async def test_an_object_is_created_once():
    bucket = new_bucket()
    rivals = [bucket.storage(f"p{number}").objects.create("a", b"%d" % number) for number in range(5)]
    outcomes = await asyncio.gather(*map(outcome_of, rivals))
    assert Counter(outcomes) == {None: 1, ObjectExistsError: 4}
    winner = b"%d" % outcomes.index(None)
    assert bucket.objects["a"].content == bucket.created["a"] == winner


@virtual_time
async def test_what_was_created_is_remembered_and_a_deleted_name_is_free():
    bucket = new_bucket()
    objects = bucket.storage("p0").objects
    await objects.create("a", b"first")
    await objects.delete("a")
    assert (bucket.objects, bucket.created) == ({}, {"a": b"first"})
    await objects.create("a", b"second")
    assert await objects.read("a") == b"second"
    assert bucket.created == {"a": b"second"}


@virtual_time
async def test_a_delete_is_recorded_if_it_removed_something():
    bucket = new_bucket()
    await bucket.storage("p0").objects.create("a", b"")
    await bucket.storage("p0").objects.delete("never was")
    sent_s = asyncio.get_running_loop().time()
    await bucket.storage("p1").objects.delete("a")
    await bucket.storage("p2").objects.delete("a")
    (removal,) = bucket.removals
    assert removal == Removal(removal.at_s, by="p1", name="a")
    assert sent_s < removal.at_s < asyncio.get_running_loop().time()


@virtual_time
async def test_a_listing_tells_name_size_and_the_moment_of_creation():
    bucket = new_bucket()
    objects = bucket.storage("p0").objects
    await asyncio.sleep(100)
    earliest = VirtualClock().now()
    await objects.create("backlog/seven", b"7 bytes")
    latest = VirtualClock().now()
    await objects.create("elsewhere", b"")
    (info,) = await all_of(objects, "backlog/")
    assert (info.name, info.size_bytes) == ("backlog/seven", 7)
    assert earliest < info.modified_at < latest < earliest + timedelta(seconds=2)
    assert "p0 list backlog/" in asked(bucket)


@virtual_time
async def test_a_listing_is_one_request_of_one_instant_in_no_order():
    bucket = new_bucket()
    objects = bucket.storage("p0").objects
    names = [f"{number:02}" for number in range(20)]
    for name in names:
        await objects.create(name, b"")
    requests = bucket.requests
    listed = []
    async for info in objects.list():
        # Whatever is deleted from here on was there when the listing was made.
        bucket.objects.clear()
        listed.append(info.name)
    assert bucket.requests == requests + 1
    assert sorted(listed) == names
    assert listed != names


@virtual_time
async def test_a_lost_answer_lands_and_is_no_conflict():
    bucket = new_bucket(lost_answer=1.0)
    objects = bucket.storage("p0").objects
    names = [f"{number:02}" for number in range(30)]
    creates = [await outcome_of(objects.create(name, b"")) for name in names]
    assert set(bucket.objects) == set(names)
    deletes = [await outcome_of(objects.delete(name)) for name in names]
    assert bucket.objects == {}
    assert len(bucket.removals) == len(names)
    assert set(creates) == set(deletes) == {StorageError, SlowDownError}
    assert asked(bucket)[0] == "p0 create 00: lost answer"


@virtual_time
async def test_reads_and_listings_lose_no_answer_and_nothing_beside_the_queue_conflicts():
    bucket = new_bucket(lost_answer=0.5, conflict=0.5)
    objects = bucket.storage("p0").objects
    for number in range(30):
        with suppress(StorageError):
            await objects.create(f"{number}", b"")
        assert await objects.read(f"{number}") == b""
        with suppress(StorageError):
            await objects.delete(f"{number}")
        assert await all_of(objects) == []


@pytest.mark.parametrize(
    ("weather", "error"),
    [("lost_request", StorageError), ("slow_down", SlowDownError), ("out", StorageError)],
)
@virtual_time
async def test_what_never_arrives_does_nothing(weather, error):
    bucket = new_bucket()
    objects = bucket.storage("p0").objects
    await objects.create("a", b"")
    bucket.is_out = weather == "out"
    bucket.weather = CALM if bucket.is_out else Weather(**{weather: 1.0})
    requests = [objects.read("a"), objects.create("b", b""), all_of(objects), objects.delete("a")]
    assert [await outcome_of(request) for request in requests] == [error] * 4
    assert list(bucket.objects) == ["a"]


@virtual_time
async def test_a_request_without_an_answer_lands_and_times_out():
    bucket = new_bucket(no_answer=1.0)
    objects = bucket.storage("p0").objects
    for request in (objects.create("a", b""), objects.read("a"), all_of(objects)):
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(StorageError, match="timeout"):
            await request
        assert asyncio.get_running_loop().time() == pytest.approx(began_s + CLIENT_TIMEOUT_S)
    assert list(bucket.objects) == ["a"]


@virtual_time
async def test_a_held_create_may_land_after_its_client_gave_up():
    late = 0
    for seed in range(20):
        bucket = new_bucket(seed, held=1.0)
        if await outcome_of(bucket.storage("p0").objects.create("a", b"")) is StorageError:
            late += "a" not in bucket.objects
        await asyncio.sleep(3 * CLIENT_TIMEOUT_S)
        assert "a" in bucket.objects
    assert late > 0


@virtual_time
async def test_a_doubled_create_lands_once_and_its_first_answer_counts():
    outcomes = Counter()
    for seed in range(50):
        bucket = new_bucket(seed, doubled=1.0)
        outcomes[await outcome_of(bucket.storage("p0").objects.create("a", b""))] += 1
        await asyncio.sleep(CLIENT_TIMEOUT_S)
        assert bucket.created == {"a": b""}
    # The second arrival's refusal may overtake the first one's success.
    assert outcomes[None] > outcomes[ObjectExistsError] > 0
    assert outcomes.total() == outcomes[None] + outcomes[ObjectExistsError]


def test_the_same_seed_gives_the_same_trace():
    async def live(bucket, client, chance):
        storage = bucket.storage(client)
        for number in range(40):
            name = f"{chance.randrange(10)}"
            verbs = [
                lambda name=name, number=number: storage.objects.create(name, b"%d" % number),
                lambda name=name: storage.objects.delete(name),
                lambda name=name: storage.objects.read(name),
                lambda: all_of(storage.objects),
                storage.read,
            ]
            found = await outcome_of(chance.choice(verbs)())
            bucket.trace.append(f"{client} got {found}")

    async def main(seed):
        bucket = SimulatedBucket(random.Random(seed), STORMY)
        await asyncio.gather(*(live(bucket, f"p{n}", random.Random(n)) for n in range(3)))
        return bucket.trace, bucket.created, bucket.removals

    assert run(main(1), seed=1) == run(main(1), seed=1)
    assert run(main(1), seed=1) != run(main(2), seed=1)
