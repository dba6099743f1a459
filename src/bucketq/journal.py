"""Journal: how things were before they changed, so that changes can be taken back."""

from collections.abc import Callable
from typing import Any


class Journal:
    """What is to be done, the last first, to take changes back."""

    def __init__(self) -> None:
        self._undo: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def note(self, undo: Callable[..., object], *arguments: Any) -> None:
        """Call this to take back what is changed next."""
        self._undo.append((undo, arguments))

    def put(self, entries: dict[Any, Any], key: Any, value: Any) -> None:
        """Set an entry of a dict, which is never None; None removes it."""
        self.note(_set, entries, key, entries.get(key))
        _set(entries, key, value)

    def begin(self) -> None:
        """From here on everything can be taken back."""
        self._undo.clear()

    def save_point(self) -> int:
        """Where `roll_back` can go back to."""
        return len(self._undo)

    def roll_back(self, save_point: int) -> None:
        """Make it as it was at a save point."""
        for undo, arguments in reversed(self._undo[save_point:]):
            undo(*arguments)
        del self._undo[save_point:]


def _set(entries: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value
