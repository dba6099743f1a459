"""CONTRIBUTING.md leads newcomers through the house: what it names is there."""

import re

from bucketq.cli.app import app
from tests.docs.blocks import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
WALKS = PAGE[PAGE.index("## Three walks") : PAGE.index("## Adding a test")]


def test_every_path_is_there() -> None:
    paths = re.findall(r"`((?:src|tests|docs|proto|bench|examples)/[^`\s]*)`", PAGE)
    assert len(paths) > 30
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_room_is_in_the_table() -> None:
    table = PAGE[PAGE.index("| room, in") : PAGE.index("`tests/unit/test_house.py` keeps")]
    source = ROOT / "src/bucketq"
    rooms = {path.stem for path in source.glob("*.py")} - {"__init__", "__main__"}
    rooms |= {f"{path.parent.name}/" for path in source.glob("*/__init__.py")}
    assert {room for room in rooms if f"`{room}`" not in table} == set()


def test_every_file_on_the_ways_through_the_code_is_there() -> None:
    ways = PAGE[PAGE.index("## Where things go") : PAGE.index("## Three walks")]
    files = re.findall(r"`([\w/]+\.py)`", ways)
    assert len(files) > 30
    assert [file for file in files if not (ROOT / "src/bucketq" / file).exists()] == []


def test_every_file_of_a_walk_is_in_the_folder_it_is_said_to_be_in() -> None:
    for step in re.findall(r"^\d\. (.*?)(?=^\d\. |^#|\Z)", WALKS, re.MULTILINE | re.DOTALL):
        folders = [ROOT / path for path in re.findall(r"`([\w/]+/)(?:\w+\.py)?`", step)]
        for name in re.findall(r"`(\w+\.py)`", step):
            assert any((folder / name).exists() for folder in folders), f"{name} is in none of {folders}"


def test_every_name_of_a_walk_is_in_the_file_it_is_said_to_be_in() -> None:
    named = re.findall(r"`(\w+)` of \W*`(src/[\w/]+\.py)`", WALKS)
    named += [(name, file) for file, name in re.findall(r"`(src/[\w/]+\.py)`\W*: [^`]*`(_\w+)`", WALKS)]
    assert len(named) >= 3
    for name, file in named:
        assert re.search(rf"^(def )?{name}\b", (ROOT / file).read_text(), re.MULTILINE), (
            f"{name} is not in {file}"
        )


def test_the_command_that_is_followed_is_there() -> None:
    assert "gc" in {command.name for command in app.registered_commands}
