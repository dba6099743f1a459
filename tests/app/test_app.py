"""App and its handlers: how jobs get into the queue, and what is refused."""

import asyncio
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pydantic
import pytest

from bucketq import App, ConfigurationError, JobFailedError, KeyTakenError, PayloadError, Settings
from bucketq.app import Call
from bucketq.app.app import load_app
from bucketq.job import Job


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(f"file://{tmp_path}/queue.json")


async def waiting(app: App) -> list[Job]:
    return list((await (await app.opened()).read_state()).jobs)


async def test_enqueue_adds_a_job_with_the_handlers_options(app: App) -> None:
    @app.job(max_attempts=5, timeout=30, priority=2, tenant="acme")
    async def send(to: str, urgent: bool = False) -> None: ...

    async with app:
        job = await send.enqueue("alice", urgent=True)
        assert [job] == await waiting(app)
    assert (job.entrypoint, job.json()) == ("send", {"to": "alice", "urgent": True})
    assert (job.max_attempts, job.timeout_s, job.priority, job.tenant) == (5, 30, 2, "acme")


async def test_using_changes_options_for_one_enqueue(app: App) -> None:
    @app.job(max_attempts=5, timeout=30)
    async def send(to: str) -> None: ...

    async with app:
        other = await send.using(priority=-1, timeout=60, key="alice").enqueue("alice")
        usual = await send.enqueue("bob")
    assert (other.priority, other.timeout_s, other.max_attempts, other.key) == (-1, 60, 5, "alice")
    assert (usual.priority, usual.timeout_s, usual.max_attempts, usual.key) == (0, 30, 5, None)


async def test_a_handler_may_have_another_name(app: App) -> None:
    @app.job(name="mail.send")
    async def send() -> None: ...

    async with app:
        assert (await send.enqueue()).entrypoint == "mail.send"
    assert list(app.handlers) == ["mail.send"]


async def test_calling_a_handler_calls_the_function(app: App) -> None:
    @app.job
    async def double(n: int) -> int:
        return 2 * n

    @app.job
    def half(n: int) -> float:
        return n / 2

    assert await double(4) == 8
    assert half(4) == 2


async def test_several_calls_land_in_one_commit_or_not_at_all(app: App) -> None:
    @app.job
    async def fetch(url: str) -> None: ...

    @app.job
    async def notify(text: str) -> None: ...

    async with app:
        queue = await app.opened()
        jobs = await app.enqueue(fetch.call("a"), notify.using(priority=3).call(text="begun"))
        assert (await queue.read_state()).version == 1
        assert [(job.entrypoint, job.priority) for job in jobs] == [("fetch", 0), ("notify", 3)]
        assert [job.id for job in await waiting(app)] == [job.id for job in jobs]

        await fetch.using(key="taken").enqueue("b")
        with pytest.raises(KeyTakenError):
            await app.enqueue(notify.call("again"), fetch.using(key="taken", if_exists="raise").call("c"))
        assert len(await waiting(app)) == 3


async def test_enqueue_many(app: App) -> None:
    @app.job(max_attempts=7)
    async def send(to: str) -> None: ...

    async with app:
        ids = await send.enqueue_many({"to": name} for name in ("alice", "bob"))
        jobs = await waiting(app)
        assert (await (await app.opened()).read_state()).version == 1
    assert [job.id for job in jobs] == list(ids)
    assert [(job.json()["to"], job.max_attempts) for job in jobs] == [("alice", 7), ("bob", 7)]


async def test_enqueue_many_of_which_one_does_not_fit_adds_none(app: App) -> None:
    @app.job
    async def send(to: str) -> None: ...

    async with app:
        with pytest.raises(PayloadError, match="to"):
            await send.enqueue_many([{"to": "alice"}, {"to": 7}])
        with pytest.raises(ConfigurationError, match="by name"):
            await send.enqueue_many(["alice"])
        assert await waiting(app) == []


def test_enqueue_sync_by_many_threads(app: App) -> None:
    @app.job
    def send(n: int) -> None: ...

    with ThreadPoolExecutor(8) as threads:
        jobs = list(threads.map(send.enqueue_sync, range(40)))
    assert sorted(job.json()["n"] for job in jobs) == list(range(40))

    async def found() -> list[Job]:
        async with app:
            return await waiting(app)

    assert {job.id for job in asyncio.run(found())} == {job.id for job in jobs}


async def test_enqueue_sync_beside_a_running_event_loop(app: App) -> None:
    @app.job
    def send(n: int) -> None: ...

    async with app:
        await send.enqueue(1)
        job = await asyncio.to_thread(send.enqueue_sync, 2)
        assert len(await waiting(app)) == 2
    assert job.json() == {"n": 2}


def test_a_program_that_enqueues_without_async_ends_by_itself(tmp_path: Path) -> None:
    code = (
        "from bucketq import App\n"
        f"app = App('file://{tmp_path}/queue.json')\n"
        "send = app.job(name='send')(lambda: None)\n"
        "print(send.enqueue_sync().entrypoint)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "send\n", "")


def test_a_forked_process_enqueues_without_async_too_and_ends(tmp_path: Path) -> None:
    # As servers do that load the program once and fork their workers: threads stay behind.
    code = (
        "import os, signal, sys\n"
        "from bucketq import App\n"
        f"app = App('file://{tmp_path}/queue.json')\n"
        "send = app.job(name='send')(lambda: None)\n"
        "send.enqueue_sync()\n"
        "if child := os.fork():\n"
        "    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "signal.alarm(20)\n"
        "if 'enqueue' in sys.argv:\n"
        "    print(send.enqueue_sync().entrypoint)\n"
    )
    for argument, told in (("enqueue", "send\n"), ("nothing", "")):
        command = [sys.executable, "-c", code, argument]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stdout) == (0, told)


async def test_an_app_is_opened_in_each_event_loop_that_needs_it(app: App) -> None:
    @app.job
    async def send() -> None: ...

    await send.enqueue()

    def elsewhere() -> None:
        asyncio.run(enqueue_and_close())

    async def enqueue_and_close() -> None:
        await send.enqueue()
        await app.close()

    await asyncio.to_thread(elsewhere)
    await asyncio.to_thread(elsewhere)
    assert len(await waiting(app)) == 3
    await app.close()


async def test_concurrent_first_calls_open_one_queue(app: App) -> None:
    queues = await asyncio.gather(*(app.opened() for _ in range(5)))
    assert len(set(map(id, queues))) == 1
    await app.close()


async def test_an_app_that_could_not_be_opened_can_be_opened_later(tmp_path: Path) -> None:
    opened = []

    def refuse_once() -> Any:
        opened.append(1)
        if len(opened) == 1:
            raise OSError("not yet")
        return App("memory://")._connect()

    app = App("memory://")
    with app.connected_by(refuse_once):
        with pytest.raises(OSError, match="not yet"):
            await app.opened()
        await app.opened()
        await app.close()


async def test_settings_and_options_reach_the_queue() -> None:
    app = App("memory://", settings=Settings(stale_after_s=7))
    async with app:
        assert (await app.opened()).settings.stale_after_s == 7


async def test_schedule(app: App) -> None:
    @app.job(timeout=9)
    async def report(kind: str = "short") -> None: ...

    async with app:
        daily = await report.schedule(cron="30 9 * * *", tz="Europe/Vienna")
        often = await report.schedule("often", {"kind": "long"}, every=60, missed="skip")
        assert await (await app.opened()).schedules() == [daily, often]
        with pytest.raises(PayloadError, match="kind"):
            await report.schedule("wrong", {"kind": 7}, every=60)
    assert (daily.name, daily.cron, daily.tz, daily.job.timeout_s) == (
        "report",
        "30 9 * * *",
        "Europe/Vienna",
        9,
    )
    assert (often.name, often.every_s, often.missed, often.job.json()) == (
        "often",
        60,
        "skip",
        {"kind": "long"},
    )


@dataclass
class Receipt:
    number: int
    at: datetime


class Invoice(pydantic.BaseModel):
    lines: list[str]


async def test_a_result_comes_as_the_type_that_the_handler_returns(app: App) -> None:
    @app.job
    async def charge() -> Receipt: ...

    @app.job
    async def bill() -> list[Invoice]: ...

    @app.job
    async def name() -> tuple[str, ...] | None: ...

    @app.job
    async def count() -> dict[int, Receipt]: ...

    @app.job
    async def anything(): ...

    receipt = Receipt(7, datetime(2026, 3, 1, tzinfo=UTC))
    given: list[tuple[Any, Any, Any]] = [
        (charge, receipt, receipt),
        (bill, [{"lines": ["a"]}], [Invoice(lines=["a"])]),
        (name, ("a", "b"), ("a", "b")),
        (name, None, None),
        (count, {7: receipt}, {7: receipt}),
        (anything, {"a": [1]}, {"a": [1]}),
    ]
    async with app:
        queue = await app.opened()
        for handler, stored, wanted in given:
            job = await handler.enqueue()
            await queue.ack(*await queue.dequeue(), result=stored)
            assert await handler.result(job, timeout=5) == wanted


async def test_the_result_of_a_dead_job(app: App) -> None:
    @app.job(max_attempts=1)
    async def charge() -> Receipt: ...

    async with app:
        queue = await app.opened()
        job = await charge.enqueue()
        await queue.nack(*await queue.dequeue(), error="no money")
        with pytest.raises(JobFailedError, match="no money"):
            await charge.result(job)


async def test_middleware_around_enqueue_is_outermost_first_and_may_change_the_call(app: App) -> None:
    order: list[str] = []

    @app.around_enqueue
    async def outer(call: Call, enqueue: Any) -> Job:
        order.append("outer in")
        job: Job = await enqueue(call._replace(priority=call.priority + 1))
        order.append("outer out")
        return job

    @app.around_enqueue
    async def inner(call: Call, enqueue: Any) -> Job:
        order.append(f"inner {call.priority}")
        job: Job = await enqueue(call._replace(options={**call.options, "tenant": "acme"}))
        return job

    @app.job(priority=4)
    async def send(to: str) -> None: ...

    async with app:
        job = await send.enqueue("alice")
        assert (job.priority, job.tenant) == (5, "acme")
        assert order == ["outer in", "inner 5", "outer out"]
        ids = await send.enqueue_many([{"to": "bob"}, {"to": "carol"}])
        assert [(job.priority, job.tenant) for job in await waiting(app)] == [(5, "acme")] * 3
        assert [job.id for job in await waiting(app)] == [job.id, *ids]
        pair = await app.enqueue(send.call("dan"), send.call("eve"))
        assert {(job.priority, job.tenant) for job in pair} == {(5, "acme")}


async def test_middleware_may_refuse(app: App) -> None:
    @app.around_enqueue
    async def refuse(call: Call, enqueue: Any) -> Job:
        raise PermissionError(call.entrypoint)

    @app.job
    async def send() -> None: ...

    async with app:
        with pytest.raises(PermissionError, match="send"):
            await send.enqueue()
        with pytest.raises(PermissionError, match="send"):
            await app.enqueue(send.call(), send.call())
        assert await waiting(app) == []


def test_two_handlers_of_one_name_are_refused(app: App) -> None:
    app.job(name="send")(lambda: None)
    with pytest.raises(ConfigurationError, match=r"two handlers for 'send'.*name="):
        app.job(name="send")(lambda: None)


def test_where_a_handler_may_run(app: App) -> None:
    async def in_loop() -> None: ...

    def in_thread() -> None: ...

    assert app.job(in_loop).runs_in == "loop"
    assert app.job(in_thread).runs_in == "thread"
    assert app.job(name="other", runs_in="process")(in_thread).runs_in == "process"
    with pytest.raises(
        ConfigurationError, match=r"in_loop\(\) is an async function, and cannot run in a process"
    ):
        app.job(name="a", runs_in="process")(in_loop)
    with pytest.raises(
        ConfigurationError, match=r"in_thread\(\) is a plain function, and cannot run in a loop"
    ):
        app.job(name="b", runs_in="loop")(in_thread)
    with pytest.raises(ConfigurationError, match="not 'fork'"):
        app.job(name="c", runs_in="fork")(in_thread)


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"timeout": -1},
        {"no_such_option": 1},
        {"cron": "every day"},
        {"tenant": ""},
        {"retry": 3},
        {"name": "e" * 251},
    ],
)
def test_options_that_make_no_sense_are_refused_where_they_are_written(
    app: App, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError):
        app.job(**options)(lambda: None)


def test_an_app_is_found_in_the_module_of_its_handlers(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None: ...

    work.__module__ = "jobs_of_a_test"
    app.job(work)
    for name in ("website_of_a_test", "jobs_of_a_test"):
        module = ModuleType(name)
        module.__dict__["app"] = app
        monkeypatch.setitem(sys.modules, name, module)
    assert app.path == "jobs_of_a_test:app"


module_app = App("memory://")


def test_a_pickled_app_is_the_one_of_its_module() -> None:
    assert pickle.loads(pickle.dumps(module_app)) is module_app
    assert load_app(module_app.path) is module_app


def test_an_app_without_a_name_cannot_be_pickled(app: App) -> None:
    with pytest.raises(ConfigurationError, match="give it a name in a module"):
        pickle.dumps(app)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("module", "module:name, such as myapp.jobs:app, not 'module'"),
        (":app", "module:name"),
        ("no_such_module:app", "no module no_such_module"),
        ("json.no_such_module:app", "no module json.no_such_module"),
        ("json:app", "json:app is not there"),
        ("json:dumps", "json:dumps is no App but a function"),
    ],
)
def test_an_app_that_cannot_be_loaded(path: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        load_app(path)


def test_an_error_inside_of_the_module_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_jobs.py").write_text("import no_such_library")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load_app("broken_jobs:app")


async def test_other_queues_may_stand_for_the_apps_own(app: App) -> None:
    @app.job
    async def send() -> None: ...

    own = await app.opened()
    with app.connected_by(App("memory://")._connect):
        assert await app.opened() is not own
        await send.enqueue()
        await asyncio.to_thread(send.enqueue_sync)
        await app.close()
    assert await app.opened() is own
    assert await waiting(app) == []
    await app.close()


async def test_delays_are_given_as_seconds_or_timedelta(app: App) -> None:
    @app.job(delay=timedelta(hours=1))
    async def send() -> None: ...

    async with app:
        job = await send.enqueue()
        assert job.run_at is not None
        assert job.run_at - job.created_at == timedelta(hours=1)
