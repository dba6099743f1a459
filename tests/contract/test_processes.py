"""Many processes on one object, through nothing but read and compare-and-set: no update is lost."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bucketq.storage import open_storage
from tests.contract.servers import BUCKET, Server

PROCESSES = 4
TIMES = 50


async def _count_together(url: str, options: Mapping[str, Any]) -> None:
    """Let many processes increment one counter, and check that every increment is there."""
    script = Path(__file__).with_name("incrementer.py")
    command = [sys.executable, str(script), url, json.dumps(dict(options)), str(TIMES)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = asyncio.subprocess.PIPE
    children = [
        await asyncio.create_subprocess_exec(*command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)
        for _ in range(PROCESSES)
    ]
    try:
        for child in children:
            assert await child.stdout.readline() == b"ready\n", (await child.communicate())[1].decode()
        outputs = await asyncio.gather(*(child.communicate(b"go\n") for child in children))
    finally:
        for child in children:
            if child.returncode is None:
                child.kill()
                await child.wait()
    for child, (_, errors) in zip(children, outputs, strict=True):
        assert child.returncode == 0, f"exit code {child.returncode}:\n{errors.decode()}"
    content, _ = await open_storage(url, **options).read()
    assert int(content) == PROCESSES * TIMES


async def test_processes_on_a_file_lose_nothing(tmp_path: Path) -> None:
    await _count_together(f"file://{tmp_path}/counter.json", {})


async def test_processes_on_s3_lose_nothing(seaweedfs: Server) -> None:
    await _count_together(f"s3://{BUCKET}/processes/counter.json", seaweedfs.options)


async def test_processes_on_azure_lose_nothing(azurite: Server) -> None:
    await _count_together(f"az://{BUCKET}/processes/counter.json", azurite.options)
