"""Sessions: up to where the batches of remote clients have been applied.

A client numbers its batches and sends the next one when it knows the last one's answers. If
an answer is lost, it sends the same batch again, to the same broker or to another. The mark
here was made by the very commit that applied the batch, so whoever reads it can tell: not
applied yet, or applied already, and then how its operations were answered.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bucketq.job import Count

# More clients than a queue in one object can serve at the same time.
SESSIONS_MAX = 4096
# So many are kept whatever the clocks say, which may differ from broker to broker.
SESSIONS_MIN = 256
# Longer than anybody goes on trying.
_FORGET_AFTER_S = 600


class SessionMark(NamedTuple):
    """The last batch of a client, the version that applied it, and when that was.

    `answers` holds, by the number of the operation, those that the state cannot tell later.
    """

    number: Count
    version: Count
    at: Count
    answers: dict[str, Any] = {}  # noqa: RUF012 (never changed)


class Sessions:
    """Marks by session, the one that was used longest ago first."""

    def __init__(self, marks: Mapping[str, SessionMark] | None = None, forgotten_version: int = 0) -> None:
        self._marks = dict(marks or {})
        # Marks up to this version may have been forgotten.
        self.forgotten_version = forgotten_version

    @property
    def marks(self) -> Mapping[str, SessionMark]:
        """All marks, to be looked at."""
        return self._marks

    def get(self, session: str) -> SessionMark | None:
        """The mark of a session, or None."""
        return self._marks.get(session)

    def is_forgotten(self, session: str, seen_version: int) -> bool:
        """Whether a session that has seen a version may have had a mark that is gone."""
        return session not in self._marks and self.forgotten_version > seen_version

    def remember(self, session: str, mark: SessionMark) -> None:
        """Set the mark of a session, and forget those that nobody will ask for."""
        self._marks.pop(session, None)
        self._marks[session] = mark
        while len(self._marks) > SESSIONS_MIN:
            oldest = next(iter(self._marks))
            old = self._marks[oldest]
            if old.at + _FORGET_AFTER_S > mark.at and len(self._marks) <= SESSIONS_MAX:
                return
            self.forgotten_version = max(self.forgotten_version, old.version)
            del self._marks[oldest]
