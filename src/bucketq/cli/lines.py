"""Lines for people: cut to the width and coloured on a terminal, whole and plain in a pipe."""

import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from bucketq.words import first_line, printable, spell_time

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_LOOK_EVERY_S = 1.0


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


def complain(sentence: str) -> None:
    """Say something on standard error; it may repeat what somebody else wrote."""
    print(f"bucketq: {printable(sentence)}", file=sys.stderr, flush=True)


def tell_more(limit: int) -> None:
    """Say that a list goes on, where it is not taken for a part of the list."""
    shown = "1 is" if limit == 1 else f"{limit} are"
    complain(f"{shown} shown, and there are more; --limit 0 lists all")


def tell_none(why: str) -> None:
    """Say to people that a list is empty; to a program, an empty one says it."""
    if sys.stdout.isatty():
        complain(why)


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
    import asyncio

    while True:
        yield datetime.now(UTC)
        await asyncio.sleep(_LOOK_EVERY_S)


def column_time(span: timedelta) -> str:
    """A span of time as one word, so that programs which take lines apart see one column.

    >>> column_time(timedelta(minutes=90))
    '90min'
    """
    return spell_time(span).replace(" ", "")


def one_line(text: str | None) -> str:
    """The first line of a text that somebody else wrote."""
    return printable(first_line(text))


def indented(text: str) -> Iterator[Line]:
    """The lines of a text that somebody else wrote, further to the right."""
    return (Line(f"  {line}") for line in printable(text).splitlines())


@cache
def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)


def _text(line: Line) -> "Text":
    from rich.text import Text

    return Text(line.text, line.style, no_wrap=True, overflow="ellipsis")
