"""KeptKeys: the unique keys of jobs that are finished, for as long as they are still taken."""

import heapq
from collections.abc import Mapping
from datetime import datetime

import msgspec

from bucketq.job import Moment
from bucketq.journal import Journal


class KeptKey(msgspec.Struct, frozen=True, array_like=True):
    """The job that had the key, and until when nobody else may have it."""

    job_id: str
    until: Moment


class KeptKeys:
    """Keys with an end. `changes` counts changes, and what takes them back."""

    def __init__(self, journal: Journal, kept: Mapping[str, KeptKey] | None = None) -> None:
        self._journal = journal
        self.kept = dict(kept or {})
        self.changes = 0
        self._ends = [(entry.until, key) for key, entry in self.kept.items()]
        heapq.heapify(self._ends)

    def __bool__(self) -> bool:
        return bool(self.kept)

    def get(self, key: str, now: datetime) -> KeptKey | None:
        """Who keeps a key at a time, if anybody does."""
        entry = self.kept.get(key) if self.kept else None
        return entry if entry is not None and entry.until > now else None

    def keep(self, key: str, job_id: str, until: datetime) -> None:
        """Let nobody have a key until a time."""
        self._put(key, KeptKey(job_id, until))

    def prune(self, now: datetime) -> int:
        """Forget the keys whose time is over; tell how many those were."""
        before = len(self.kept)
        while self._ends and self._ends[0][0] <= now:
            until, key = heapq.heappop(self._ends)
            entry = self.kept.get(key)
            if entry is not None and entry.until == until:
                self._put(key, None)
        return before - len(self.kept)

    def _put(self, key: str, entry: KeptKey | None) -> None:
        self._journal.note(self._set, key, self.kept.get(key))
        self._set(key, entry)

    def _set(self, key: str, entry: KeptKey | None) -> None:
        self.changes += 1
        if entry is None:
            self.kept.pop(key, None)
        else:
            self.kept[key] = entry
            heapq.heappush(self._ends, (entry.until, key))
