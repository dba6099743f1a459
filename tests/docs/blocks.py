"""The code blocks of the pages, and how they are run: as a reader would, in an empty folder."""

import ast
import asyncio
import inspect
import re
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


def blocks(page: str, language: str) -> list[str]:
    """The blocks of one language in a page, named by its path in the repository."""
    text = (ROOT / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def block_with(page: str, text: str) -> str:
    """The one Python block of a page that has this text."""
    [found] = [block for block in blocks(page, "python") if text in block]
    return found


def compiled(block: str) -> CodeType:
    """The code of a block, which may await."""
    return compile(block, "a block of the docs", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def run(block: str, folder: Path, **names: Any) -> dict[str, Any]:
    """Run a block, its files moved into a folder, with an event loop where it awaits; what it has defined."""
    namespace: dict[str, Any] = {"__name__": "page", **names}
    result = eval(compiled(block.replace("/var/lib/myapp", str(folder))), namespace)
    if inspect.iscoroutine(result):
        asyncio.run(result)
    return namespace
