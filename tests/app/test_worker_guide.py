"""The code blocks of docs/worker.md run: those of `# jobs.py` as the app, the others beside a worker."""

import asyncio
import signal
import sys
from dataclasses import fields

import pytest

import bucketq
from bucketq.cli.logs import Logs
from bucketq.cli.options import flag_of
from bucketq.cli.traces import Traces
from bucketq.cli.work import Where, Working
from tests.app.working import Worked, until
from tests.docs.blocks import blocks, prose, run_here

BLOCKS = blocks("docs/worker.md", "python")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    program = "".join(block.within(tmp_path).text for block in BLOCKS if block.file == "jobs.py")
    (tmp_path / "jobs.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("jobs", None)


async def test_the_guide_runs(folder, capsys):
    enqueueing, working = [block for block in BLOCKS if block.file is None]
    worked = Worked(folder, "-m", "bucketq", "work", "jobs:app", cwd=folder)
    try:
        await run_here(enqueueing, folder, {})
        assert capsys.readouterr().out == "sent to alice@example.com\n"
        async with bucketq.connect(f"file://{folder}/queue.json") as queue:
            resized = await queue.enqueue("resize", {"image": "cat.png"})
            charged = await queue.enqueue("charge", {"order": 7})
            assert await queue.result(resized, timeout=20) == "cat.png"
            assert await queue.result(charged, timeout=20) == "order 7 is charged"
            assert [one.name for one in await queue.schedules()] == ["clean_up"]
            await queue.enqueue("charge", {"order": "seven"})
            worked.wait_for("do not fit")
        worked.signal(signal.SIGTERM)
        assert worked.wait() == 0
    finally:
        worked.end()
    names = {}
    running = asyncio.create_task(run_here(working, folder, names))
    await until(lambda: "worker" in names)
    names["worker"].stop()
    await running


def test_every_option_is_in_the_guide():
    guide = prose("docs/worker.md")
    for field in (*fields(Working), *fields(Logs), *fields(Traces), *fields(Where)[:2]):
        assert f"`{flag_of(field.name)}`" in guide
