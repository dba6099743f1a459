"""What holds for every test."""

import re
import signal
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parents[1]
# Folders with long tests begin first, lest one of them is left over when all else is done.
FIRST = ("spark", "sim", "acceptance")

# How long an example takes says more about the machine than about the code.
settings.register_profile("no deadline", deadline=None)
# That of `make check`, where long histories have fewer examples: property/machine.py.
settings.register_profile("quick", deadline=None)
settings.load_profile("no deadline")

# Whoever is started in the background by a shell ignores Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class TogetherScheduling(LoadScopeScheduling):
    """One worker runs all files of a group; of other files a whole class, or else the whole file."""

    def _split_scope(self, nodeid: str) -> str:
        scope = nodeid.partition("[")[0].rpartition("::")[0]
        return group_of(scope.partition("::")[0]) or scope


@cache
def group_of(path: str) -> str | None:
    """The group of a file. Read from it, for xdist 3.8 does not tell it to a scheduler under pytest 9.2."""
    found = re.search(r'mark\.xdist_group\("(.+?)"\)', (ROOT / path).read_text())
    return found and found[1]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> TogetherScheduling | None:
    return TogetherScheduling(config, log) if config.getoption("dist") == "loadgroup" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        marks = {str(mark.args[0]) for mark in item.iter_markers("xdist_group")}
        if marks - {group_of(item.nodeid.partition("::")[0])}:
            raise pytest.UsageError(f'{item.path} is one group: pytestmark = pytest.mark.xdist_group("name")')

    def turn(item: pytest.Item) -> tuple[bool, int]:
        folder = item.path.parent.name
        return not item.get_closest_marker("xdist_group"), (*FIRST, folder).index(folder)

    items.sort(key=turn)
