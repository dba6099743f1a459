"""Type checkers see a handler's parameters in `.enqueue`, and what it returns in `.result`."""

import re
import subprocess
import sys
from pathlib import Path

PROGRAM = """
from collections.abc import Iterator
from bucketq import App, Running, TypedQueue, connect, provided

app = App("memory://")

class Database: ...

@app.resource
def database() -> Iterator[Database]:
    yield Database()

@app.job(max_attempts=5)
async def send(to: str, urgent: bool = False, database: Database = provided()) -> int:
    return len(to)

@app.job
def resize(image: str, *, width: int, running: Running = provided()) -> bytes:
    return b""

async def right() -> None:
    await send.enqueue("alice")
    await send.enqueue(to="alice", urgent=True)
    await send.using(delay=60, key="a").enqueue("alice")
    await app.enqueue(send.call("alice"), resize.call("cat", width=3))
    job = resize.enqueue_sync("cat", width=3)
    size: int = await send.result(job)
    image: bytes = await resize.result(job)
    direct: int = await send("alice")
    also: bytes = resize("cat", width=3)

async def wrong() -> None:
    await send.enqueue(7)  # wrong: arg-type
    await send.enqueue()  # wrong: call-arg
    await send.enqueue("alice", urgently=True)  # wrong: call-arg
    await send.using(key="a").enqueue(7)  # wrong: arg-type
    await send.using(delays=60).enqueue("a")  # wrong: call-arg
    send.call(to=7)  # wrong: arg-type
    resize.enqueue_sync("cat", 3)  # wrong: call-arg
    resize.enqueue_sync("cat", width="3")  # wrong: arg-type
    name: str = await send.result("id")  # wrong: assignment
    width: int = await resize.result("id")  # wrong: assignment
    app.job(max_attempt=5)  # wrong: call-overload

async def typed() -> None:
    async with connect("memory://") as queue:
        counts = TypedQueue(queue, int)
        await counts.enqueue(7)
        await counts.enqueue("7")  # wrong: arg-type
        for item in await counts.dequeue():
            double: int = item.value * 2
            text: str = item.value  # wrong: assignment
            await counts.ack(item)
"""


def test_mypy_finds_what_is_wrong_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--cache-dir",
        str(tmp_path),
        "program.py",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110)
    found = {
        (int(line), code)
        for line, code in re.findall(r"^program\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    }
    wanted = {
        (number, line.partition("# wrong: ")[2])
        for number, line in enumerate(PROGRAM.splitlines(), start=1)
        if "# wrong: " in line
    }
    assert found == wanted, done.stdout + done.stderr
