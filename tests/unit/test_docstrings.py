"""Every example in a docstring of the package does what it says."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import bucketq

SOURCE = Path(bucketq.__file__).parent
MODULES = [
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text()
]


def test_there_are_examples():
    assert len(MODULES) > 50


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_hold(name, capsys):
    found = doctest.testmod(import_module(name))
    assert found.attempted > 0
    assert found.failed == 0, capsys.readouterr().out
