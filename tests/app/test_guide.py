"""Every code block of docs/testing.md runs, one after the other, as a reader would run them."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import Block, blocks, run


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the blocks know of each other."""
    return {}


@pytest.mark.parametrize("block", blocks("docs/testing.md", "python"), ids=str)
def test_the_guide_runs(names: dict[str, Any], block: Block, tmp_path: Path) -> None:
    run(block, tmp_path, names)


def test_the_fixture_does_what_the_guide_says(names: dict[str, Any], tmp_path: Path) -> None:
    from pytest_bucketq import bucketq_testing

    fixture = inspect.unwrap(bucketq_testing)()
    names["test_registration"](next(fixture))
    assert next(fixture, "over") == "over"


def test_the_test_of_the_guide_in_virtual_time_passes(names: dict[str, Any]) -> None:
    names["test_every_order_is_charged_in_a_storm"](seed=7)


@pytest.mark.parametrize("suite", ["TestMyStorage", "TestQueueOnMyStorage"])
async def test_the_contracts_of_the_guide_pass(names: dict[str, Any], suite: str) -> None:
    checks = [name for name in dir(names[suite]) if name.startswith("test_")]
    assert len(checks) > 5
    await getattr(names[suite](), checks[0])()
