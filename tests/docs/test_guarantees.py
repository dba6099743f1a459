"""docs/guarantees.md: every promise of README is there, and every test and mutant that it names exists."""

import ast
import re

import pytest

from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text()
README = (ROOT / "README.md").read_text()
SECTIONS = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", PAGE, re.MULTILINE))
PROMISES = [title for title in SECTIONS if re.match(r"\d\. ", title)]
TESTS = re.findall(r"^- `(\S+\.py)::(test_\w+)`$", PAGE, re.MULTILINE)
MUTANTS = re.findall(r"^- mutant: (.+)$", PAGE, re.MULTILINE)


def functions_in(path):
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def mistakes():
    """What `tests/sim/mutants.py` calls its mutants, by the words before a colon."""
    tree = ast.parse((ROOT / "tests" / "sim" / "mutants.py").read_text())
    calls = (
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Mutant"
    )
    return {ast.literal_eval(call.args[0]).partition(":")[0] for call in calls}


def test_the_promises_are_those_of_the_readme():
    told = re.findall(r"^(\d)\. \*\*(.+?)\.\*\*", README.partition("## What it promises")[2], re.MULTILINE)
    assert [f"{number}. {name}" for number, name in told] == PROMISES
    assert len(PROMISES) == 8


@pytest.mark.parametrize("promise", PROMISES)
def test_every_promise_says_what_it_does_not_mean_and_names_tests(promise):
    assert re.search(r"^It does not mean ", SECTIONS[promise], re.MULTILINE)
    assert re.search(r"^- `\S+\.py::test_\w+`$", SECTIONS[promise], re.MULTILINE)


@pytest.mark.parametrize("path", sorted({path for path, _ in TESTS}))
def test_every_test_that_is_named_exists(path):
    named = {name for of, name in TESTS if of == path}
    assert named <= functions_in(path)


def test_every_mutant_that_is_named_exists():
    assert set(MUTANTS) <= mistakes()


def test_nothing_is_named_that_is_not_looked_at():
    assert PAGE.count("::test_") == len(TESTS) == len(set(TESTS))
    assert len(MUTANTS) == len(set(MUTANTS))
