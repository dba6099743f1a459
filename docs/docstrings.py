"""Docstrings: what the reference of `make docs` makes of them.

Examples in them are code, and shown as such. A value tells its fields as its source does: with their types,
their defaults and the comments above them.
"""

import ast
import re
from itertools import groupby
from pathlib import Path
from textwrap import dedent
from typing import Any

import griffe

# What makes a class a value, as a base or as a decorator.
_VALUES = {"NamedTuple", "Struct", "StrEnum", "TypedDict", "dataclass"}


class Docstrings(griffe.Extension):
    """Gives docstrings the form in which the site shows them."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Put examples between fences."""
        if obj.docstring:
            obj.docstring.value = _fenced(obj.docstring.value)

    def on_class_instance(self, *, node: Any, cls: griffe.Class, **_: Any) -> None:
        """Tell the fields of a value."""
        words = {re.split(r"\W", ast.unparse(word).rpartition(".")[2])[0] for word in _marks(node)}
        if cls.docstring and isinstance(cls.filepath, Path) and words & _VALUES:
            fields = _fields(node, cls.filepath.read_text().splitlines())
            cls.docstring.value += f"\n\n```python\n{fields}\n```" if fields else ""


def _marks(node: Any) -> list[ast.expr]:
    return [*node.bases, *node.decorator_list] if isinstance(node, ast.ClassDef) else []


def _fields(node: ast.ClassDef, lines: list[str]) -> str:
    """The lines of a class between its docstring and its first method, up to the last public field."""
    last = begin = node.body[0].end_lineno or 0
    for statement in node.body[1:]:
        target = statement.target if isinstance(statement, ast.AnnAssign) else None
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
        if not isinstance(target, ast.Name) or target.id.startswith("_"):
            break
        last = statement.end_lineno or last
    return dedent("\n".join(lines[begin:last])).strip()


def _fenced(text: str) -> str:
    """A docstring with its examples between fences; what is no code stays as it is."""
    parts = []
    for kind, paragraphs in groupby(re.split(r"\n\n", text), _kind):
        part = "\n\n".join(paragraphs)
        if kind == "python" and not _is_code(dedent(part)):
            kind = ""
        parts.append(f"```{kind}\n{dedent(part).strip()}\n```" if kind else part)
    return "\n\n".join(parts)


def _kind(paragraph: str) -> str:
    if paragraph.startswith(">>> "):
        return "pycon"
    is_indented = all(line.startswith("    ") for line in paragraph.splitlines())
    # Where nothing but an example follows the first line, its indent is taken for that of the docstring.
    return "python" if is_indented or ("(" in paragraph and _is_code(paragraph)) else ""


def _is_code(text: str) -> bool:
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        compile(text, "an example", "exec", flags=flags)
    except SyntaxError:
        return False
    return True
