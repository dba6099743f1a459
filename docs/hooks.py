"""Hooks: what mkdocs does not do by itself, for the site of `make docs`.

Pages link to each other, and to files of the repository, as a Git host wants it. The site has the pages of
docs/, and as guests those files from outside that a reader wants there too. A link to a page or a guest leads
there; one to any other file of the repository becomes its text, for the site has no source tree.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
# Files of the repository, and the pages that they are on the site.
GUESTS = {
    "CHANGELOG.md": "changes.md",
    "CONTRIBUTING.md": "contributing.md",
    "examples/README.md": "examples/index.md",
    "proto/bucketq/v1/queue.proto": "reference/proto.md",
} | {f"examples/{path.name}": f"examples/{path.stem}.md" for path in sorted(ROOT.glob("examples/*.py"))}
_HOSTS = {page: file for file, page in GUESTS.items()}

_FENCE = re.compile(r"^( *```).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?!\w+:|#)([^)#\s]*)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give each folder of the nav its pages."""
    config.nav = _unfolded(config.nav or [])
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Let the guests in."""
    for file, page in GUESTS.items():
        files.append(File.generated(config, page, content=_as_page(file)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead where the site has what they mean."""
    uri = page.file.src_uri

    def mend(link: re.Match[str]) -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        file = _file_meant(uri, target)
        there = _page_of(file)
        if files.get_file_from_path(there) is None and (ROOT / file).exists():
            return text
        return f"[{text}]({posixpath.relpath(there, posixpath.dirname(uri) or '.')}{anchor})"

    # What stands in a block of code is no link.
    mended, end = [], 0
    for fence in _FENCE.finditer(markdown):
        mended += [_LINK.sub(mend, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*mended, _LINK.sub(mend, markdown[end:])])


def _unfolded(nav: list[Any]) -> list[Any]:
    """The nav with a list of pages in the place of each folder."""
    found = []
    for entry in nav:
        if isinstance(entry, dict):
            [(title, inside)] = entry.items()
            if isinstance(inside, list):
                entry = {title: _unfolded(inside)}
            elif inside.endswith("/"):
                entry = {title: _pages_of(inside)}
        found.append(entry)
    return found


def _pages_of(folder: str) -> list[str]:
    """A folder's index and those of its pages that it links to, in that order, each once."""
    index = f"{folder}index.md"
    text = _FENCE.sub("", (ROOT / _file_of(index)).read_text())
    linked = [_page_of(_file_meant(index, link[2])) for link in _LINK.finditer(text)]
    inside = [page for page in linked if posixpath.dirname(page) == folder.rstrip("/")]
    return list(dict.fromkeys([index, *(page for page in inside if page.endswith(".md"))]))


def _file_of(page: str) -> str:
    """The file of the repository that a page of the site is made of."""
    return _HOSTS.get(page, f"docs/{page}")


def _page_of(file: str) -> str:
    """The page that a file of the repository is, if the site has it."""
    return GUESTS.get(file) or file.removeprefix("docs/")


def _file_meant(page: str, target: str) -> str:
    """The file of the repository that a link on a page means."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(_file_of(page)), target))


def _as_page(file: str) -> str:
    """A file of the repository as Markdown; what is none stands there in whole."""
    text = (ROOT / file).read_text()
    if file.endswith(".md"):
        return text
    language = {".py": "python", ".proto": "protobuf"}[Path(file).suffix]
    return f"# {Path(file).name}\n\nThe file `{file}`:\n\n```{language}\n{text}```\n"
