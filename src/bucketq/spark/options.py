"""The options of the source and the sink: read once, on the driver, and refused with the reason."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

from bucketq.archive_selection import Selection
from bucketq.errors import BucketQError, ConfigurationError
from bucketq.new_job import check_plain
from bucketq.storage import Bucket, open_storage
from bucketq.url import BROKER_SCHEMES

# What can be said where.
_ANY = ("url", "table")
_SOURCE = {
    "jobs": (*_ANY, "entrypoint", "status"),
    "archive": (*_ANY, "entrypoint", "status", "since", "until"),
    "lines": (*_ANY, "since", "until"),
}
_STREAM = ("starting_version", "ending_version", "max_objects_per_trigger", "max_bytes_per_trigger")
STREAM_SINK = ("url", "entrypoint", "priority", "max_attempts", "load_id")
SINK = (*STREAM_SINK, "load_number")
_OURS = tuple(dict.fromkeys((*_SOURCE["archive"], *_STREAM, *SINK)))
# Spark shows the options of a source in its plans, but for the values of those whose names say that
# they are secret. These do not.
_SECRET = "secret."
_SHOWN = ("access_key_id", "account_key", "service_account_key")
# What a storage takes only from Python code.
_NO_TEXT = ("client", "client_options", "credential", "session")
# Those of Spark itself, which it hands to every source and sink.
_SPARKS = ("path", "checkpointlocation", "queryname")


class Options:
    """What was asked for by `.option(name, value)`; whatever is not ours is for the storage.

    Its text never shows a value that could be a secret.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        self.url = self._given.get("url") or self._given.get("path") or ""
        if self._given.get("path", self.url) != self.url:
            raise ConfigurationError("a queue is named by the option url, or by the path, not by both")
        if not self.url:
            raise ConfigurationError(
                'no queue is named; say .option("url", "s3://bucket/jobs.json"), or file://, gs://, az://'
            )
        scheme = self.url.partition(":")[0]
        if scheme in ("memory", *BROKER_SCHEMES):
            raise ConfigurationError(
                f"Spark's processes share no {scheme}:// queue; give the URL of its storage:"
                " s3://, gs://, az://, or file:// where all of them see the same folder"
            )
        for name in _SHOWN:
            if name in self._given:
                raise ConfigurationError(
                    f'Spark would show the value of {name} in its plans; say .option("{_SECRET}{name}", …)'
                )
        # To find a mistake now rather than on an executor.
        self.open()

    def __repr__(self) -> str:
        return f"Options({self.url!r})"

    def open(self) -> Bucket:
        """The storage of the queue. Raises ConfigurationError."""
        options: dict[str, Any] = {
            name.removeprefix(_SECRET): value
            for name, value in self._given.items()
            if name not in (*_OURS, *_SPARKS)
        }
        for name in _NO_TEXT:
            if name in options:
                raise ConfigurationError(f"{name} is no text, and so no option for Spark")
        try:
            return open_storage(self.url, **options)
        except BucketQError as error:
            hint = f". {self._meant(options)}" if "have no option" in str(error) else ""
            raise ConfigurationError(f"{error}{hint}") from None

    def check_for(self, what: str, known: Sequence[str]) -> None:
        """Raise ConfigurationError for an option that says nothing here."""
        for name in self._given:
            if name in _OURS and name not in known:
                raise ConfigurationError(f"{what} has no option {name}; it has {', '.join(known)}")

    def check_for_source(self, is_stream: bool = False) -> None:
        """Raise ConfigurationError for an option that says nothing to a reader of the table."""
        known = (*_SOURCE[self.table], *(_STREAM if is_stream else ()))
        self.check_for(f"{'a stream of ' if is_stream else ''}the table {self.table}", known)

    @property
    def table(self) -> str:
        """Which table is read."""
        table = self._given.get("table", "archive")
        if table not in _SOURCE:
            raise ConfigurationError(f"there is no table {table!r}; there are {', '.join(_SOURCE)}")
        return table

    @property
    def selection(self) -> Selection:
        """Which finished jobs are read."""
        return Selection.of(self._moment("since"), self._moment("until"), self.entrypoint, self.status)

    @property
    def entrypoint(self) -> str | None:
        """That of every job to be read, or of every row without one to be written."""
        return self._given.get("entrypoint")

    @property
    def status(self) -> str | None:
        """That of every job to be read."""
        return self._given.get("status")

    @property
    def new_job(self) -> tuple[str | None, int, int]:
        """The entrypoint, priority and attempts of rows that do not say."""
        priority, max_attempts = self.number("priority", 0), self.number("max_attempts", 3)
        entrypoint = "any" if self.entrypoint is None else self.entrypoint
        check_plain(entrypoint, priority, max_attempts)
        return self.entrypoint, priority, max_attempts

    @property
    def starting_version(self) -> int | None:
        """Where a stream begins; None if that is now."""
        text = self._given.get("starting_version", "earliest").lower()
        return None if text == "latest" else 0 if text == "earliest" else self.number("starting_version", 0)

    @property
    def ending_version(self) -> int | None:
        """Where a stream ends, if it does."""
        return self.number("ending_version", 0) if "ending_version" in self._given else None

    @property
    def load_id(self) -> str | None:
        """The name by which the queue remembers what was written."""
        name = self._given.get("load_id")
        if name is None and "load_number" in self._given:
            raise ConfigurationError("load_number only makes sense with load_id")
        if name is not None and not 1 <= len(name) <= 100:
            raise ConfigurationError("a load_id has from 1 to 100 characters")
        return name

    @property
    def load_number(self) -> int | None:
        """Which part of the load is written, if that is said."""
        return self.number("load_number", 0) if "load_number" in self._given else None

    def number(self, name: str, default: int) -> int:
        """A whole number from 0, or any for a priority."""
        try:
            number = int(self._given.get(name, default))
            if number < 0 and name != "priority":
                raise ValueError
            return number
        except ValueError:
            least = "" if name == "priority" else " from 0"
            words = ", or earliest, or latest" if name == "starting_version" else ""
            raise ConfigurationError(
                f"{name} is a whole number{least}{words}, not {self._given[name]!r}"
            ) from None

    def limit(self, name: str) -> int | None:
        """A whole number from 1, or None if there is none."""
        if name not in self._given:
            return None
        if (limit := self.number(name, 0)) < 1:
            raise ConfigurationError(f"{name} is a whole number from 1, not {limit}")
        return limit

    def _meant(self, options: Mapping[str, object]) -> str:
        for name in options:
            for close in get_close_matches(name.replace("_", ""), [one.replace("_", "") for one in _OURS], 1):
                meant = next(one for one in _OURS if one.replace("_", "") == close)
                return f"Did you mean {meant}?"
        return f"Options of bucketq's own are {', '.join(_OURS)}."

    def _moment(self, name: str) -> datetime | None:
        text = self._given.get(name)
        if text is None:
            return None
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise ConfigurationError(
                f"{name} is a time such as 2026-02-15T10:00:00Z or 2026-02-15, not {text!r}"
            ) from None
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
