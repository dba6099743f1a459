"""The reference of the command line, made of what `--help` says.

python -m bucketq.cli.reference > docs/reference/cli.md
"""

from collections.abc import Iterator
from typing import Any

import typer

from bucketq.cli.app import app

_WIDTH = 90
_HEAD = """\
# The command line

What `bucketq --help`, and `--help` of each command, says. Made by `make reference`.

Each command takes the queue by `--url`, by `BUCKETQ_URL`, or from `bucketq.toml`; it is that of a storage or
of a broker. Completion for your shell: `bucketq --install-completion`.
"""


def reference() -> str:
    """The whole reference, in Markdown."""
    sections = list(_sections(typer.main.get_command(app), None, "bucketq"))
    contents = "\n".join(f"- [{title}](#{title.replace(' ', '-')})" for title, _ in sections)
    told = "\n".join(f"## {title}\n\n```text\n{text}\n```\n" for title, text in sections)
    return f"{_HEAD}\n{contents}\n\n{told}"


def _sections(command: Any, parent: Any, name: str) -> Iterator[tuple[str, str]]:
    context = command.context_class(
        command,
        info_name=name,
        parent=parent,
        **{**command.context_settings, "terminal_width": _WIDTH, "max_content_width": _WIDTH},
    )
    lines = command.get_help(context).splitlines()
    yield context.command_path, "\n".join(line.rstrip() for line in lines)
    for below, one in getattr(command, "commands", {}).items():
        yield from _sections(one, context, below)


if __name__ == "__main__":
    print(reference(), end="")
