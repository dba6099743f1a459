"""Real worker processes whose storage or broker goes away for a while."""

import asyncio
import fcntl
import signal
import socket

import pytest

import bucketq
from bucketq.verify import verify
from tests.acceptance.served import served, url_of
from tests.app.working import Place

QUICK = ("--heartbeat-interval-s", "0.2", "--heartbeat-timeout-s", "1")


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


async def test_what_ends_while_the_storage_is_away_is_settled_when_it_is_back(place):
    store, away = place.folder / "store", place.folder / "away"
    async with place.queue() as queue:
        jobs = [await queue.enqueue("patient", {"name": "go"}) for _ in range(5)]
    # It lasts for longer than a worker may be silent.
    with place.worker("--concurrency", "5", JOBS_RETRY_FOR_S="0.3", JOBS_STALE_AFTER_S="1.5") as worker:
        await place.begun(5)
        store.rename(away)
        # A file where the folder was: nothing can be made in its place.
        store.touch()
        place.allow("go")
        worker.wait_for("could not be settled", times=4)
        worker.wait_for("no jobs can be claimed", times=3)
        store.unlink()
        away.rename(store)
        async with place.queue() as queue:
            results = await asyncio.gather(*(queue.result(job, timeout=20) for job in jobs))
            # It claims again, too.
            await queue.result(await queue.enqueue("patient", {"name": "go"}), timeout=20)
            assert (await verify(queue.storage)).is_sound
        assert results == [line["token"] for line in place.journal("begun")[:5]]
        assert len(place.journal("begun")) == 6


async def test_a_failover_of_brokers_is_a_pause_and_nothing_runs_twice(place):
    with served(place.url, *QUICK) as first:
        first.wait_for("leading")
        with served(place.url, *QUICK) as second:
            second.wait_for("another broker leads")
            addresses = url_of("grpc", first, second)
            with place.worker("--url", addresses, "--concurrency", "5") as worker:
                async with bucketq.connect(addresses) as queue:
                    jobs = [await queue.enqueue("patient", {"name": "go"}) for _ in range(20)]
                    await place.begun(5)
                    first.signal(signal.SIGKILL)
                    place.allow("go")
                    for job in jobs:
                        assert await queue.result(job, timeout=30)
                worker.signal(signal.SIGTERM)
                assert worker.wait() == 0
    begun = [line["job"] for line in place.journal("begun")]
    assert sorted(begun) == sorted(job.id for job in jobs)


async def test_a_queue_that_is_none_ends_the_worker_and_says_why(place):
    store = place.folder / "store"
    store.mkdir()
    (store / "queue.json").write_text("this is no queue")
    with place.worker() as worker:
        assert worker.wait() == 2
        worker.wait_for("queue.json")


# Whoever waits for the worker gives up after half a minute: a worker that rides out the outage takes longer.
PATIENT = {"JOBS_RETRY_FOR_S": "300"}


async def test_a_worker_whose_bucket_never_answers_ends_in_its_time(place):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = ("--url", "s3://bucket/queue.json", "--grace-s", "2")
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
        endpoint = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        with place.worker(*options, **endpoint, **keys, **PATIENT) as worker:
            # It has asked something.
            connection, _ = await asyncio.to_thread(silent.accept)
            with connection:
                worker.signal(signal.SIGTERM)
                assert worker.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_whose_queue_is_locked_ends_in_its_time_and_tells_what_is_left(place, number):
    async with place.queue() as queue:
        job = await queue.enqueue("patient", {"name": "go"})
    with place.worker("--grace-s", "2", **PATIENT) as worker:
        await place.begun(1)
        # As a stopped process does.
        with (place.folder / "store" / "queue.json.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            worker.signal(number)
            assert worker.wait() == 0
        worker.wait_for("could not be settled")
    async with place.queue() as queue:
        assert (await queue.find(job)).status.value == "in_progress", "its stale timeout sees to it"
