"""The code blocks of the docs: found on a page, and run as a reader would run them."""

import ast
import asyncio
import inspect
import re
import textwrap
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
# The folder that pages name, in the place of which comes one of the test.
FOLDER = "/var/lib/myapp"

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>.*)\n(?P<text>(?:.*\n)*?)(?P=indent)```$", re.MULTILINE)
_FILE = re.compile(r"# ([\w-]+\.\w+)\n")


class Block(NamedTuple):
    """A block of code: where it stands, in which language, and what it says."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str | None:
        """The file that it is, if its first line names one: `# jobs.py`."""
        named = _FILE.match(self.text)
        return named and named[1]

    def code(self) -> CodeType:
        """What Python makes of it, with the line numbers of the page."""
        source = "\n" * (self.line - 1) + self.text
        return compile(source, str(self.page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    def where(self, old: str, new: str) -> "Block":
        """The same, with something else in the place of a text."""
        return self._replace(text=self.text.replace(old, new))

    def within(self, folder: Path) -> "Block":
        """The same, with its files in another folder."""
        return self.where(FOLDER, str(folder))


def blocks(page: str, language: str | None = None) -> list[Block]:
    """The blocks of a page, all or those of a language, in their order."""
    path = ROOT / page
    content = path.read_text()
    found = []
    for fence in _FENCE.finditer(content):
        line = content.count("\n", 0, fence.start("text")) + 1
        text = textwrap.dedent(fence["text"])
        found.append(Block(path, line, fence["language"], text))
    return [block for block in found if language in (None, block.language)]


def block_with(page: str, text: str) -> Block:
    """The one block of Python on a page that has this text."""
    [found] = [block for block in blocks(page, "python") if text in block.text]
    return found


def prose(page: str) -> str:
    """A page without its blocks."""
    return _FENCE.sub("", (ROOT / page).read_text())


def run(
    block: Block, folder: Path, names: dict[str, Any] | None = None, runner: asyncio.Runner | None = None
) -> dict[str, Any]:
    """Run a block of Python, its files in a folder, with an event loop if it awaits; what is known then."""
    names = {} if names is None else names
    running = _begin(block, folder, names)
    if inspect.iscoroutine(running):
        (runner.run if runner else asyncio.run)(running)
    return names


async def run_here(block: Block, folder: Path, names: dict[str, Any]) -> dict[str, Any]:
    """Run a block in the event loop that runs already."""
    running = _begin(block, folder, names)
    if inspect.iscoroutine(running):
        await running
    return names


def _begin(block: Block, folder: Path, names: dict[str, Any]) -> Any:
    names.setdefault("__name__", "page")
    return eval(block.within(folder).code(), names)
