"""Every code block of docs/testing.md runs, one after the other, as a reader would run them."""

import ast
import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the blocks know of each other."""
    return {"__name__": "guide"}


@pytest.mark.parametrize("block", BLOCKS, ids=[block.partition("\n")[0] for block in BLOCKS])
def test_the_guide_runs(names: dict[str, Any], block: str) -> None:
    running = eval(compile(block, "docs/testing.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.iscoroutine(running):
        asyncio.run(running)


def test_the_fixture_does_what_the_guide_says(names: dict[str, Any], tmp_path: Path) -> None:
    from pytest_bucketq import bucketq_testing

    fixture = inspect.unwrap(bucketq_testing)()
    names["test_registration"](next(fixture))
    assert next(fixture, "over") == "over"


@pytest.mark.parametrize("suite", ["TestMyStorage", "TestQueueOnMyStorage"])
async def test_the_contracts_of_the_guide_pass(names: dict[str, Any], suite: str) -> None:
    checks = [name for name in dir(names[suite]) if name.startswith("test_")]
    assert len(checks) > 5
    await getattr(names[suite](), checks[0])()
