"""Journal: what changed in some dicts, so that it can be taken back."""

from typing import Any


class Journal:
    """Changes dicts, and remembers how they were."""

    def __init__(self) -> None:
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []

    def put(self, entries: dict[Any, Any], key: Any, value: Any) -> None:
        """Set an entry, which is never None; None removes it."""
        self._undo.append((entries, key, entries.get(key)))
        _set(entries, key, value)

    def begin(self) -> None:
        """From here on everything can be taken back."""
        self._undo.clear()

    def save_point(self) -> int:
        """Where `roll_back` can go back to."""
        return len(self._undo)

    def roll_back(self, save_point: int) -> None:
        """Make it as it was at a save point."""
        for entries, key, value in reversed(self._undo[save_point:]):
            _set(entries, key, value)
        del self._undo[save_point:]


def _set(entries: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value
