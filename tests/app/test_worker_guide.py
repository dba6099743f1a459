"""The code blocks of docs/worker.md run: those of `# jobs.py` as the app, the others beside a worker."""

import ast
import asyncio
import inspect
import re
import signal
import sys
from dataclasses import fields

import pytest

import bucketq
from bucketq.cli.logs import Logs
from bucketq.cli.options import flag_of
from bucketq.cli.traces import Traces
from bucketq.cli.work import Where, Working
from tests.app.working import HERE, Worked, until

GUIDE = (HERE.parents[1] / "docs" / "worker.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    program = "".join(block for block in BLOCKS if block.startswith("# jobs.py"))
    (tmp_path / "jobs.py").write_text(program.replace("/var/lib/myapp", str(tmp_path)))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("jobs", None)


async def run(block, names):
    code = compile(block, "docs/worker.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, names)
    if inspect.iscoroutine(result):
        await result


async def test_the_guide_runs(folder, capsys):
    enqueueing, working = [block for block in BLOCKS if not block.startswith("# jobs.py")]
    worked = Worked(folder, "-m", "bucketq", "work", "jobs:app", cwd=folder)
    try:
        await run(enqueueing, {"__name__": "guide"})
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
    names = {"__name__": "guide"}
    running = asyncio.create_task(run(working, names))
    await until(lambda: "worker" in names)
    names["worker"].stop()
    await running


def test_every_option_is_in_the_guide():
    for field in (*fields(Working), *fields(Logs), *fields(Traces), *fields(Where)[:2]):
        assert f"`{flag_of(field.name)}`" in GUIDE
