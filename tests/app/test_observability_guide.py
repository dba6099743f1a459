"""The code blocks of docs/observability.md run, each as a program."""

import re
import subprocess
import sys

import pytest

from tests.docs.blocks import blocks

PROGRAM = """
import ast, asyncio, inspect, sys
code = compile(sys.stdin.read(), "docs/observability.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
async def run():
    result = eval(code, {"__name__": "guide"})
    if inspect.iscoroutine(result):
        await result
asyncio.run(run())
"""


@pytest.mark.parametrize("block", blocks("docs/observability.md", "python"), ids=str)
def test_the_guide_runs(block):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=block.text, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    if "traceparent" in block.text:
        *spans, traceparent = done.stdout.splitlines()
        assert '"name": "enqueue send_email",' in "\n".join(spans)
        assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]", traceparent)
