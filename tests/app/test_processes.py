"""Handlers in processes of their own, and programs that run their own app."""

import asyncio
import signal

import pytest

from bucketq import App, ConfigurationError, JobFailedError
from bucketq.app.worker.processes import ProcessPool
from tests.app.working import HERE, Place, wait_gone


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path, JOBS_STALE_AFTER_S="3")


async def reason(queue, job):
    with pytest.raises(JobFailedError) as failed:
        await queue.result(job, timeout=20)
    return failed.value.error


async def test_whatever_happens_in_a_process_is_told_and_ends_only_its_job(place):
    async with place.queue() as queue:
        with place.worker("--concurrency", "1") as worker:

            def do(what, **more):
                return queue.enqueue("versatile", {"do": what}, max_attempts=1, **more)

            first = await queue.result(await do("nothing"), timeout=20)
            assert first["pid"] != worker.process.pid
            odd = await do("odd")
            assert await reason(queue, odd) == "OddError: one and two"
            assert await reason(queue, await do("mute")) == "MuteError: (its text raised RuntimeError)"
            assert (await queue.result(await do("log"), timeout=20))["pid"] == first["pid"]
            [line] = worker.wait_for("logged")
            assert (line["logger"], line["entrypoint"], line["worker"]) == ("shop", "versatile", 7)
            assert await reason(queue, await do("exit")) == "SystemExit: enough"
            assert "it ran, but the result is not JSON" in await reason(queue, await do("unfit"))
            assert (await queue.result(await do("start"), timeout=20)) == {"code": -signal.SIGTERM}
            # One process has done all of this, with one resource.
            assert (await queue.result(await do("nothing"), timeout=20))["pid"] == first["pid"]
            assert (place.folder / "opened").read_text() == f"{first['pid']}\n"
            assert "exit code -9" in await reason(queue, await do("die"))
            second = await queue.result(await do("nothing"), timeout=20)
            assert second["pid"] != first["pid"]
            dead = {job.id: job async for job in queue.dead()}
            assert 'raise OddError("one", "two")' in dead[odd.id].history[-1].trace
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
        wait_gone([second["pid"]])


async def test_reports_and_calls_come_out_of_a_process(place):
    async with place.queue() as queue:
        with place.worker():
            job = await queue.enqueue("versatile", {"do": "tell", "n": 7})

            async def note():
                return (await queue.find(job)).note

            while await note() != "half of 7":
                await asyncio.sleep(0.1)
            assert (await queue.stats()).enqueued_total == 1
            place.allow("go")
            await queue.result(job, timeout=20)
            assert (await queue.stats()).enqueued_total == 2


async def test_a_timeout_and_a_cancelled_job_kill_their_process(place):
    async with place.queue() as queue:
        with place.worker("--concurrency", "1"):
            # The time to start a process counts, so one is there before.
            await queue.result(await queue.enqueue("versatile", {"do": "nothing"}), timeout=20)
            slow = await queue.enqueue("elsewhere", {"name": "never"}, timeout=2, max_attempts=1)
            [begun] = await place.begun(1)
            assert "timed out after 2 s" in await reason(queue, slow)
            wait_gone([begun["pid"]])
            unwanted = await queue.enqueue("elsewhere", {"name": "never"})
            _, begun = await place.begun(2)
            await queue.cancel(unwanted)
            wait_gone([begun["pid"]])


async def test_a_program_may_run_its_own_app_with_processes(place):
    async with place.queue() as queue:
        with place.worker(str(HERE / "jobs.py")) as program:
            job = await queue.enqueue("versatile", {"do": "nothing", "n": 3})
            assert (await queue.result(job, timeout=20))["n"] == 3
            program.signal(signal.SIGINT)
            assert program.wait() == 0


async def test_children_must_be_able_to_import_the_app():
    with pytest.raises(ConfigurationError, match="give it a name in a module"):
        ProcessPool(App("memory://"))


async def test_a_handler_in_a_process_goes_by_the_url_of_its_worker(place, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    async with place.queue() as queue:
        with place.worker("--url", place.url, JOBS_FOLDER=str(own)):
            job = await queue.enqueue("versatile", {"do": "enqueue"})
            await queue.result(job, timeout=20)
        assert (await queue.stats()).enqueued_total == 2
    assert not (own / "store").exists()
