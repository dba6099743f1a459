"""KeptKeys: the unique keys of jobs that are finished, for as long as they are still taken."""

import heapq
from collections.abc import Mapping
from datetime import datetime

import msgspec

from bucketq.job import Moment


class KeptKey(msgspec.Struct, frozen=True, array_like=True):
    """The job that had the key, and until when nobody else may have it."""

    job_id: str
    until: Moment


class KeptKeys:
    """Keys with an end. Changes can be undone; `changes` counts them."""

    def __init__(self, kept: Mapping[str, KeptKey] | None = None) -> None:
        self.kept = dict(kept or {})
        self.changes = 0
        self._ends = [(entry.until, key) for key, entry in self.kept.items()]
        heapq.heapify(self._ends)
        self._undo: list[tuple[str, KeptKey | None]] = []

    def __bool__(self) -> bool:
        return bool(self.kept)

    def get(self, key: str, now: datetime) -> KeptKey | None:
        """Who keeps a key at a time, if anybody does."""
        entry = self.kept.get(key)
        return entry if entry is not None and entry.until > now else None

    def keep(self, key: str, job_id: str, until: datetime) -> None:
        """Let nobody have a key until a time."""
        self._note(key)
        self._set(key, KeptKey(job_id, until))

    def prune(self, now: datetime) -> None:
        """Forget the keys whose time is over."""
        while self._ends and self._ends[0][0] <= now:
            until, key = heapq.heappop(self._ends)
            entry = self.kept.get(key)
            if entry is not None and entry.until == until:
                self._note(key)
                self._set(key, None)

    def begin(self) -> None:
        """From here on everything can be undone."""
        self._undo.clear()

    def save_point(self) -> int:
        """Where `roll_back` can go back to."""
        return len(self._undo)

    def roll_back(self, save_point: int) -> None:
        """Make it as it was at a save point."""
        for key, entry in reversed(self._undo[save_point:]):
            self._set(key, entry)
        del self._undo[save_point:]

    def _note(self, key: str) -> None:
        self._undo.append((key, self.kept.get(key)))

    def _set(self, key: str, entry: KeptKey | None) -> None:
        self.changes += 1
        if entry is None:
            self.kept.pop(key, None)
        else:
            self.kept[key] = entry
            heapq.heappush(self._ends, (entry.until, key))
