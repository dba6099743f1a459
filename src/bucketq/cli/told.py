"""Telling what a command found: JSON for programs; for people tables, which are plain lines in a pipe."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from bucketq.words import printable


def tell_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    import msgspec

    print(msgspec.json.encode(value).decode(), flush=True)


def tell_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table: cut to the width of a terminal; in a pipe whole, with its columns in line."""
    cells = [[_cell(one) for one in row] for row in rows]
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        for row in (heads, *cells):
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, no_wrap=True, overflow="ellipsis")
    for row in cells:
        table.add_row(*map(Text, row))
    Console().print(table)


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    # A line of a table is one line, whatever a payload or an error has in it.
    return text if text.isprintable() else printable(" ".join(text.split()))
