"""The guides that were the README's long half: every code block runs, and what it shows is what there is."""

import asyncio
import inspect
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import bucketq
from bucketq import BrokerQueue, LocalFileSystemStorage, Settings
from bucketq.codec import decode
from bucketq.storage.cloud import CloudStorage
from tests.acceptance.served import served
from tests.docs.blocks import ROOT, Block, block_with, blocks, run, run_here


def run_with_queue(block: Block, folder: Path, entrypoint: str, payload: Any, **names: Any) -> BrokerQueue:
    """Run a block that takes for granted an open queue `q` with one job in it."""

    async def surroundings() -> BrokerQueue:
        async with BrokerQueue(LocalFileSystemStorage(folder / "queue.json")) as q:
            await q.enqueue(entrypoint, payload)
            await run_here(block, folder, {"q": q, **names})
            return q

    return asyncio.run(surroundings())


def stats(q: BrokerQueue) -> bucketq.Stats:
    return asyncio.run(q.read_state()).stats


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_storage(tmp_path: Path) -> None:
    namespace = run(block_with("docs/storage.md", "az://"), tmp_path)
    assert isinstance(namespace["q"].storage, CloudStorage)


def test_own_adapter(tmp_path: Path) -> None:
    assert run(block_with("docs/storage.md", "DictStorage"), tmp_path)["objects"]


def test_calls(tmp_path: Path) -> None:
    q = run(block_with("docs/queue.md", "ack_many"), tmp_path)["q"]
    assert stats(q) == bucketq.Stats(
        queued=1, in_progress=0, dead=0, enqueued_total=3, completed_total=2, dead_total=0
    )
    assert q.storage.path == tmp_path / "queue.json"


def test_the_life_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    q = run_with_queue(block_with("docs/queue.md", "q.schedule("), tmp_path, "resize", 0)
    state = asyncio.run(q.read_state())
    found = {(job.entrypoint, job.status.value) for job in state.jobs}
    assert {
        ("remind", "scheduled"),
        ("sync", "scheduled"),
        ("alert", "queued"),
        ("resize", "queued"),
    } == found
    assert state.stats.cancelled_total == 2, "the export, and the mail that waited for it"
    assert "BatchCounts(total=3, left=3, failed=0)" in capsys.readouterr().out


def test_heartbeats(tmp_path: Path) -> None:
    transcoded = []

    async def transcode(payload: bytes) -> None:
        transcoded.append(payload)

    q = run_with_queue(
        block_with("docs/queue.md", "transcode"), tmp_path, "transcode", b"film", transcode=transcode
    )
    assert transcoded == [b"film"]
    assert stats(q).completed_total == 1


def test_transactions(tmp_path: Path) -> None:
    q = run_with_queue(block_with("docs/queue.md", "transaction()"), tmp_path, "charge", {"order": 7})
    [job] = asyncio.run(q.read_state()).jobs
    assert (job.entrypoint, job.json()) == ("ship", {"order": 7})
    assert asyncio.run(q.read_state()).version == 3


def test_values_of_one_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    q = run_with_queue(block_with("docs/queue.md", "TypedQueue"), tmp_path, "other", 0)
    assert capsys.readouterr().out == "7 1\n"
    assert stats(q).completed_total == 1


def test_without_async(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(block_with("docs/queue.md", "bucketq.sync"), tmp_path)
    assert capsys.readouterr().out == "{'image': 7}\n"


def test_settings(tmp_path: Path) -> None:
    q = run(block_with("docs/queue.md", "commit_interval_s=2.0"), tmp_path)["q"]
    assert (q.settings.commit_interval_s, q.settings.stale_after_s) == (2.0, 120)


def test_deep_backlogs(tmp_path: Path) -> None:
    q = run(block_with("docs/backlog.md", "range(100_000)"), tmp_path)["q"]
    assert stats(q).queued == 99_999
    assert (tmp_path / "deep.json").stat().st_size < 200_000
    assert len(list((tmp_path / "deep/backlog").iterdir())) == 10
    assert list((tmp_path / "deep/payloads").iterdir()) == []


def test_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(block_with("docs/archive.md", "Archive(storage)"), tmp_path)
    assert "{'order': 7} {'receipt': 'R-7'}" in capsys.readouterr().out


def test_brokers(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/queue.json"
    with served(url) as first, served(url) as second:
        block = block_with("docs/brokers.md", "grpc://")
        for port, broker in (("7420", first), ("7421", second)):
            block = block.where(f"localhost:{port}", broker.address)
        run(block, tmp_path, {"bucketq": bucketq})
    assert json.loads((tmp_path / "queue.json").read_bytes())["completed_total"] == 1


def test_no_block_is_left_out() -> None:
    pages = ("archive", "backlog", "brokers", "queue", "storage")
    assert [len(blocks(f"docs/{page}.md", "python")) for page in pages] == [1, 1, 1, 7, 2]


def test_the_file_can_be_opened() -> None:
    [content] = blocks("docs/reference/file.md", "json")
    state = decode(content.text.encode())
    assert [(job.entrypoint, job.status) for job in state.jobs] == [
        ("thumbnail", "queued"),
        ("send_email", "in_progress"),
        ("report", "dead"),
    ]
    assert state.jobs[0].payload == b"\x89PNG\r\n"


def test_the_error_tree_is_the_real_one() -> None:
    docstring = inspect.getdoc(bucketq.errors) or ""
    tree = docstring[docstring.index("    BucketQError") : docstring.index("\n\nA lost claim")]
    assert f"# Errors\n\n{tree}\n\n" in (ROOT / "docs/errors.md").read_text()


def test_every_setting_is_in_the_table() -> None:
    table = (ROOT / "docs" / "configuration.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S.*?) \|", table, re.MULTILINE))
    assert rows == {field.name: readable(field.name, field.default) for field in fields(Settings)}


def readable(name: str, value: Any) -> str:
    if value is None:
        return "by provider"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if "bytes" in name or name == "payload_inline_max":
        return f"{value / 2**20:g} MiB" if value >= 2**20 else f"{value / 2**10:g} KiB"
    return f"{value:g}"


def test_urls_of_the_storage_table_open(tmp_path: Path) -> None:
    urls = re.findall(r"^\| .*? \| `(\w+://\S*)` \|", (ROOT / "docs/storage.md").read_text(), re.MULTILINE)
    assert [url.partition(":")[0] for url in urls] == ["memory", "memory", "file", "s3", "gs", "az"]
    for url in urls:
        options = {"account_name": "mine"} if url.startswith("az:") else {}
        bucketq.open_storage(url, **options)


def test_the_demo_prints_what_the_tour_shows() -> None:
    source = "".join(path.read_text() for path in sorted((ROOT / "src/bucketq/demo").glob("*.py")))
    page = (ROOT / "docs/tour.md").read_text()
    shown = page[page.index("    Summary\n") :]
    lines = re.findall(r"^      (\w+) +\S+(?: s)?(?:  (\D*?))?(?: \d.*)?$", shown, re.MULTILINE)
    assert len(lines) == 10
    for label, remark in lines:
        assert f"\n  {label} " in source
        assert remark.strip() in source
