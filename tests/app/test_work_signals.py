"""Real worker processes that are killed, told to stop, and stopped for a while."""

import asyncio
import signal

import pytest

from bucketq.verify import verify
from tests.app.working import Place, children_of, is_gone, until, wait_gone


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path, JOBS_STALE_AFTER_S="1.5")


async def test_the_jobs_of_a_killed_worker_run_again_and_nothing_is_lost(place):
    async with place.queue() as queue:
        jobs = [await queue.enqueue("patient", {"name": "go"}) for _ in range(3)]
        with place.worker() as first:
            await place.begun(3)
            first.signal(signal.SIGKILL)
            assert first.wait() == -signal.SIGKILL
        place.allow("go")
        with place.worker():
            results = [await queue.result(job, timeout=20) for job in jobs]
        again = place.journal("begun")[3:]
        assert [line["token"] for line in again] == results
        assert {(line["attempt"], line["crashes"]) for line in again} == {(2, 1)}
        assert {line["job"] for line in again} == {job.id for job in jobs}
        assert (await verify(queue.storage)).is_sound


async def test_after_sigterm_handlers_finish_and_the_rest_goes_back_for_free(place):
    async with place.queue() as queue:
        finishing = await queue.enqueue("patient", {"name": "soon"})
        staying = await queue.enqueue("patient", {"name": "never"})
        child = await queue.enqueue("elsewhere", {"name": "never"})
        with place.worker("--grace-s", "1") as worker:
            await place.begun(3)
            worker.signal(signal.SIGTERM)
            worker.wait_for("stopping")
            later = await queue.enqueue("patient", {"name": "never"})
            place.allow("soon")
            pids = children_of(worker.process.pid)
            assert worker.wait() == 0
            wait_gone(pids)
        assert await queue.result(finishing, timeout=5)
        assert [line["name"] for line in place.journal("cancelled")] == ["never"]
        for job in (staying, child):
            found = await queue.find(job)
            assert (found.status.value, found.attempts, found.crashes) == ("queued", 0, 0)
            assert [attempt.outcome.value for attempt in found.history] == ["released"]
        assert not (await queue.find(later)).history
        assert len(place.journal("begun")) == 3


async def test_a_handler_that_does_not_stop_keeps_no_worker_from_ending(place):
    async with place.queue() as queue:
        job = await queue.enqueue("stubborn", {"minutes": 5})
        with place.worker("--grace-s", "0") as worker:
            await place.begun(1)
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
        found = await queue.find(job)
        assert (found.status.value, found.attempts) == ("queued", 0)


async def test_a_second_sigterm_ends_it_at_once_with_its_children(place):
    async with place.queue() as queue:
        await queue.enqueue("elsewhere", {"name": "never"})
        with place.worker() as worker:
            [begun] = await place.begun(1)
            worker.signal(signal.SIGTERM)
            worker.wait_for("stopping")
            assert not is_gone(begun["pid"])
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 128 + signal.SIGTERM
            wait_gone([begun["pid"]])


async def test_processes_of_handlers_end_with_a_worker_that_is_killed(place):
    async with place.queue() as queue:
        for _ in range(2):
            await queue.enqueue("elsewhere", {"name": "never"})
        with place.worker() as worker:
            await place.begun(2)
            pids = children_of(worker.process.pid)
            assert {line["pid"] for line in place.journal("begun")} <= set(pids)
            worker.signal(signal.SIGKILL)
            worker.wait()
            wait_gone(pids)


async def test_a_worker_that_stood_still_for_too_long_is_refused(place):
    async with place.queue() as queue:
        job = await queue.enqueue("patient", {"name": "go"})
        with place.worker() as first:
            [begun] = await place.begun(1)
            first.signal(signal.SIGSTOP)
            with place.worker() as second:
                _, again = await place.begun(2)
                assert again["token"] != begun["token"]
                assert again["pid"] == second.process.pid
                place.allow("go")
                # The one valid claim completes it.
                assert await queue.result(job, timeout=20) == again["token"]
                assert len(place.journal("ended")) == 1
                first.signal(signal.SIGCONT)
                # The handler that was thawed ends too, and its ack changes nothing.
                await until(lambda: len(place.journal("ended") + place.journal("cancelled")) == 2)
                first.wait_for("dropped")
                assert (await queue.stats()).completed_total == 1
                # It goes on working.
                more = [await queue.enqueue("patient", {"name": "go"}) for _ in range(20)]
                await asyncio.gather(*(queue.result(one, timeout=20) for one in more))
                first.signal(signal.SIGTERM)
                assert first.wait() == 0
        begun = place.journal("begun")
        assert len({(line["job"], line["token"]) for line in begun}) == len(begun) == 22
        assert (await verify(queue.storage)).is_sound
