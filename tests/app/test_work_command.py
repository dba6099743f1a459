"""`bucketq work`: its options, its health, its supervisor."""

import asyncio
import os
import pty
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from bucketq.cli.supervisor import Supervisor
from tests.app.working import HERE, Place, Worked, children_of, is_gone, until, wait_gone
from tests.contract.servers import free_ports

RELOADED = """
from bucketq import App
app = App({url!r})

@app.job
async def version() -> int:
    return {version}
"""


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path, JOBS_STALE_AFTER_S="1.5")


def ask(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def test_health_and_readiness(place):
    [port] = free_ports(1)
    async with place.queue() as queue:
        await queue.enqueue("patient", {"name": "never"})
        with place.worker("--health-port", str(port)) as worker:
            await place.begun(1)
            assert ask(port, "/healthz") == (200, "ok\n")
            assert ask(port, "/readyz") == (200, "ok\n")
            assert ask(port, "/")[0] == 404
            worker.signal(signal.SIGTERM)
            worker.wait_for("stopping")
            assert ask(port, "/healthz")[0] == 200
            assert ask(port, "/readyz") == (503, "stopping\n")


async def test_logs_tell_of_jobs_in_fields_and_options_come_from_the_environment(place):
    async with place.queue() as queue:
        with place.worker(BUCKETQ_ENTRYPOINT="patient", BUCKETQ_CONCURRENCY="1") as worker:
            [taking] = worker.wait_for("taking jobs")
            assert taking["message"] == "taking jobs of patient"
            place.allow("go")
            job = await queue.enqueue("patient", {"name": "go"})
            [done] = worker.wait_for("is done")
            assert (done["job_id"], done["entrypoint"], done["attempt"]) == (job.id, "patient", 1)
            assert 0 <= done["seconds"] < 10
            await queue.enqueue("patient", {"nam": "go"}, max_attempts=1)
            [dead] = worker.wait_for("is dead")
            assert dead["level"] == "warning"
            assert "do not fit" in dead["message"]


def test_a_live_line_in_a_terminal(place):
    async def fill():
        async with place.queue() as queue:
            await queue.enqueue("patient", {"name": "go"})
            await queue.enqueue("patient", {"nam": "go"}, max_attempts=1)

    place.allow("go")
    asyncio.run(fill())
    terminal, other_end = pty.openpty()
    command = [sys.executable, "-m", "bucketq", "work", "jobs:app"]
    environment = {**os.environ, "JOBS_FOLDER": str(place.folder), "COLUMNS": "100", "TERM": "xterm"}
    process = subprocess.Popen(command, stderr=other_end, cwd=HERE, env=environment)
    os.close(other_end)
    shown = ""
    try:
        while "0 running · 1 done · 1 failed · 0 waiting" not in shown:
            shown += os.read(terminal, 4096).decode(errors="ignore")
        assert "do not fit" in shown
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere:app"], "no module nowhere"),
        (["jobs"], "module:name"),
        (["jobs:nothing"], "jobs:nothing is not there"),
        (["jobs:app", "--entrypoint", "patient,mail"], "no handler for mail"),
        (["jobs:app", "--processes", "0"], "at least 1"),
        (["jobs:app", "--health-port", "70000"], "the health port 127.0.0.1:70000 cannot be opened"),
        (["nowhere:app", "--processes", "2"], "no module nowhere"),
    ],
)
def test_what_makes_no_sense_is_told_and_ends_it(place, arguments, told):
    command = [sys.executable, "-m", "bucketq", "work", *arguments]
    environment = {**os.environ, "JOBS_FOLDER": str(place.folder)}
    ended = subprocess.run(command, cwd=HERE, env=environment, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2
    assert told in ended.stderr


async def test_a_supervisor_starts_workers_anew_and_ends_them_in_order(place):
    async with place.queue() as queue:
        with place.worker("--processes", "2", "--concurrency", "1") as supervisor:
            jobs = [await queue.enqueue("patient", {"name": "go"}) for _ in range(2)]
            begun = await place.begun(2)
            pids = [line["pid"] for line in begun]
            assert len(set(pids)) == 2
            os.kill(pids[0], signal.SIGKILL)
            supervisor.wait_for("exit code -9")
            supervisor.wait_for("runs as process", times=3)
            again = (await place.begun(3))[2]
            assert again["job"] == begun[0]["job"]
            assert again["crashes"] == 1
            supervisor.signal(signal.SIGTERM)
            supervisor.wait_for("stopping 2 workers")
            # They have their grace time.
            place.allow("go")
            assert supervisor.wait() == 0
            wait_gone([pids[1], again["pid"]])
        for job in jobs:
            assert await queue.result(job, timeout=5)


async def test_no_worker_outlives_a_supervisor_that_is_killed(place):
    async with place.queue() as queue:
        with place.worker("--processes", "2", "--concurrency", "1", "--grace-s", "0") as supervisor:
            jobs = [await queue.enqueue(name, {"name": "never"}) for name in ("patient", "elsewhere")]
            await place.begun(2)
            pids = children_of(supervisor.process.pid)
            assert len(pids) >= 3
            supervisor.signal(signal.SIGKILL)
            supervisor.process.wait()
            wait_gone(pids)
        for job in jobs:
            found = await queue.find(job)
            assert (found.status.value, found.attempts, found.crashes) == ("queued", 0, 0)


async def test_a_second_signal_to_a_supervisor_ends_all(place):
    async with place.queue() as queue:
        with place.worker("--processes", "2") as supervisor:
            await queue.enqueue("elsewhere", {"name": "never"})
            await place.begun(1)
            pids = children_of(supervisor.process.pid)
            supervisor.signal(signal.SIGINT)
            supervisor.wait_for("may go on")
            assert not any(map(is_gone, {line["pid"] for line in place.journal("begun")}))
            supervisor.signal(signal.SIGINT)
            assert supervisor.wait() == 128 + signal.SIGINT
            wait_gone(pids)


async def test_workers_that_are_signalled_with_their_supervisor_still_have_their_grace(place):
    async with place.queue() as queue:
        with place.worker("--processes", "2", "--concurrency", "1") as supervisor:
            jobs = [await queue.enqueue("patient", {"name": "go"}) for _ in range(2)]
            pids = [line["pid"] for line in await place.begun(2)]
            # As systemd does with all processes of a service.
            supervisor.signal(signal.SIGTERM)
            supervisor.wait_for("may go on", times=2)
            for pid in pids:
                os.kill(pid, signal.SIGTERM)
            place.allow("go")
            assert supervisor.wait() == 0
        for job in jobs:
            assert await queue.result(job, timeout=5)


async def test_workers_that_all_end_at_once_are_no_surprise(tmp_path):
    go = tmp_path / "go"
    waiting = f"while [ ! -e {go} ]; do sleep 0.01; done; exit 2"
    # Other tests' servers may be children of this process too.
    others = {*children_of(os.getpid())}
    supervisor = Supervisor(lambda number: ["sh", "-c", waiting], 8, os.environ)
    running = asyncio.create_task(supervisor.run())
    pids = await until(lambda: len(found := {*children_of(os.getpid())} - others) >= 8 and found)
    go.touch()
    # The supervisor hears of none before all have ended.
    wait_gone(pids)
    async with asyncio.timeout(20):
        assert await running == 2


async def test_changed_code_is_loaded(place):
    # Not a hidden folder, whatever its name begins with.
    (place.folder / "_private").mkdir()
    program = place.folder / "_private" / "changing.py"
    program.write_text(RELOADED.format(url=place.url, version=1))
    worked = Worked(
        place.folder, "-m", "bucketq", "work", "_private.changing:app", "--reload", cwd=place.folder
    )
    try:
        async with place.queue() as queue:
            assert await queue.result(await queue.enqueue("version"), timeout=20) == 1
            program.write_text("this is no Python")
            worked.wait_for("is started again when a file has changed")
            program.write_text(RELOADED.format(url=place.url, version=2))
            assert await queue.result(await queue.enqueue("version"), timeout=20) == 2
        [*_, last] = worked.wait_for("runs as process")
        worked.signal(signal.SIGTERM)
        assert worked.wait() == 0
        await until(lambda: is_gone(int(last["message"].split()[-1])))
    finally:
        worked.end()
