"""Every code block of README.md runs, and its links lead somewhere."""

import asyncio
import json
import re
from pathlib import Path

import pytest

import bucketq
from tests.docs.blocks import ROOT, block_with, blocks, run


def test_first_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(block_with("README.md", "async def main"), tmp_path)
    assert capsys.readouterr().out == "sending to alice@example.com\n"
    assert json.loads((tmp_path / "queue.json").read_bytes())["completed_total"] == 1


def test_an_app(tmp_path: Path) -> None:
    names = run(block_with("README.md", "@app.job"), tmp_path)

    async def enqueue() -> bucketq.Job:
        async with names["app"]:
            await names["register"]("alice@example.com")
            [job] = (await (await names["app"].opened()).read_state()).jobs
            return job

    job = asyncio.run(enqueue())
    assert (job.entrypoint, job.json(), job.status) == (
        "send_email",
        {"to": "alice@example.com"},
        "scheduled",
    )
    assert list(names["app"].handlers) == ["send_email", "make_report"]


def test_no_block_is_left_out() -> None:
    assert len(blocks("README.md", "python")) == 2


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target.partition("#")[0]).exists(), f"{target} leads nowhere"
