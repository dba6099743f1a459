"""Lines for people: cut to the width and coloured on a terminal, whole and plain in a pipe."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_LOOK_EVERY_S = 1.0
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


class Line(NamedTuple):
    """A line, and the colour that it has where there are colours."""

    text: str
    style: str = ""


def tell(line: Line) -> None:
    """Print a line."""
    if sys.stdout.isatty():
        _console().print(_text(line), no_wrap=True, overflow="ellipsis", crop=True)
    else:
        print(line.text)


def tell_more(limit: int) -> None:
    """Say that a list goes on, where it is not taken for a part of the list."""
    print(f"bucketq: {limit} are shown, and there are more; --limit 0 lists all", file=sys.stderr)


class Screen:
    """What those see who watch: on a terminal the lines as they are now, in a pipe what is new."""

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self._live: Any = None

    def __enter__(self) -> "Screen":
        if self.is_terminal:
            from rich.live import Live

            self._live = Live(console=_console(), screen=True, auto_refresh=False, vertical_overflow="crop")
            self._live.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.__exit__(*exc)

    def redraw(self, lines: Sequence[Line]) -> None:
        """Show these in the place of those that were there."""
        from rich.console import Group

        self._live.update(Group(*map(_text, lines)), refresh=True)

    def tell(self, line: Line) -> None:
        """Print a line at once: whoever reads it waits for it."""
        print(line.text, flush=True)


async def every_second() -> AsyncIterator[datetime]:
    """The time, at once and then every second."""
    while True:
        yield datetime.now(UTC)
        await asyncio.sleep(_LOOK_EVERY_S)


def span(seconds: float) -> str:
    """A length of time, short.

    >>> span(0.25), span(42), span(90), span(7200), span(-3)
    ('0.2s', '42s', '1m', '2h', '0s')
    """
    if 0 < seconds < 1:
        return f"{int(seconds * 10) / 10}s"
    size, unit = next((one for one in _UNITS if seconds >= one[0]), (1, "s"))
    return f"{int(max(seconds, 0) // size)}{unit}"


def moment(when: datetime) -> str:
    """A time, to the second, in UTC.

    >>> moment(datetime(2026, 2, 15, 10, tzinfo=UTC))
    '2026-02-15 10:00:00Z'
    """
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def printable(text: str) -> str:
    """A text without what would move a terminal's cursor, or worse; lines and tabs stay.

    >>> printable("one\\x1b[2J")
    'one\\\\x1b[2J'
    """
    return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)


def one_line(text: str) -> str:
    """The first line of a text that somebody else wrote."""
    return printable(next(iter(text.splitlines()), "")).replace("\t", " ")


def indented(text: str, by: str = "  ") -> Iterator[Line]:
    """The lines of a text that somebody else wrote, further to the right."""
    return (Line(f"{by}{line}") for line in printable(text).splitlines())


@cache
def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)


def _text(line: Line) -> "Text":
    from rich.text import Text

    return Text(line.text, line.style, no_wrap=True, overflow="ellipsis")
