"""Progress on a terminal; silence elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shown_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Give a function to be told (what, how many are done, of how many)."""
    from rich.console import Console
    from rich.progress import Progress

    # On stderr, so that a report in a pipe holds the report only.
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bars = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=total)
            progress.update(bars[what], completed=done, total=total)

        yield tell
