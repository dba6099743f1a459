"""A path or a URL where another argument is expected, and a bucketq.toml that names no queue."""

from pathlib import Path

import pytest

from bucketq.cli.__main__ import main


@pytest.mark.parametrize("command", ["pause", "limit"])
@pytest.mark.parametrize("given", ["queue.json", "file:/x", " file:///x", "./q", "/tmp/q"])
def test_what_looks_like_a_path_is_no_entrypoint(
    command: str,
    given: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([command, given]) == 2
    told = " ".join(capsys.readouterr().err.replace("\u2502", "").split())
    assert "must not be a URL" in told
    assert "--url file:///" in told


def test_init_beside_a_configuration_without_a_queue_says_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bucketq.toml").write_text("[work]\nconcurrency = 3\n")
    assert main(["init"]) == 2
    assert f'Set url = "{(tmp_path / "queue.json").as_uri()}" in bucketq.toml' in capsys.readouterr().err


def test_init_advises_no_url_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bucketq.toml").write_text("[work]\nconcurrency = 3\n")
    assert main(["init", "queue.json"]) == 2
    assert 'url = "queue.json"' not in capsys.readouterr().err
