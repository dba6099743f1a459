"""Lake: the folder that the pipeline writes to, on whatever file system Spark can write to.

    lake/bronze/ingest=000007/day=2026-02-15/…      lines of the archive, by ingestion
    lake/quarantine/ingest=000007/…                 those that could not be read, with the reason
    lake/silver/day=2026-02-15/…                    jobs
    lake/gold/activity/window=hour/day=2026-02-15/… what happened; errors, slowest, slo, trends beside it
    lake/checkpoint/…                               how far bronze has read the archive, by Spark
    lake/notes/silver/000000000003.json             how far each later step has come; whose lake it is
    lake/lease.json                                 who works on it just now

Tables are Parquet, for anybody to read; checkpoint and notes are the pipeline's own.
"""

import json
import time
from datetime import UTC, datetime
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

_NOTES_KEPT = 5


class Lake:
    """The lake at a path that Spark understands: a folder, or a URL such as s3a://bucket/lake."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        jvm: Any = spark._jvm
        self._path = jvm.org.apache.hadoop.fs.Path
        self._hadoop = spark._jsc.hadoopConfiguration()
        self._fs = self._path(self.root).getFileSystem(self._hadoop)

    def path(self, *parts: str) -> str:
        """Where something is."""
        return "/".join((self.root, *parts))

    def exists(self, *parts: str) -> bool:
        """Whether something is there."""
        return bool(self._fs.exists(self._path(self.path(*parts))))

    def names(self, *parts: str) -> list[str]:
        """The names of what is in a folder."""
        if not self.exists(*parts):
            return []
        listed = self._fs.listStatus(self._path(self.path(*parts)))
        return sorted(str(one.getPath().getName()) for one in listed)

    def days(self, *parts: str) -> list[str]:
        """The days that a table, or a part of it, has; none if it has no rows."""
        names = [name for name in self.names(*parts) if name.startswith("day=")]
        return [name.removeprefix("day=") for name in names if not name.startswith("day=__HIVE")]

    def read(self, *parts: str, schema: StructType | None = None) -> DataFrame:
        """A table, with the columns of a schema; or with those that any part of it has."""
        if schema is not None:
            # No file is opened to find out; what an older one lacks is null.
            return self.spark.read.schema(schema).parquet(self.path(*parts))
        return self.spark.read.option("mergeSchema", "true").parquet(self.path(*parts))

    def note(self, about: str) -> dict[str, Any]:
        """What was noted last: how far a step has come, say; nothing if nothing was."""
        names = self._notes(about)
        if not names:
            return {}
        found: dict[str, Any] = json.loads(self.text("notes", about, names[-1]))
        return found

    def write_note(self, about: str, note: dict[str, Any]) -> None:
        """Note something anew. Whoever reads sees the last note, or this one, and whole."""
        names = self._notes(about)
        number = int(names[-1].removesuffix(".json")) + 1 if names else 1
        hidden = self._path(self.path("notes", about, f".{number:012}"))
        self._write(self._fs.create(hidden, True), json.dumps(note))
        self._fs.rename(hidden, self._path(self.path("notes", about, f"{number:012}.json")))
        for name in names[:-_NOTES_KEPT]:
            self._fs.delete(self._path(self.path("notes", about, name)), False)

    def _notes(self, about: str) -> list[str]:
        return [name for name in self.names("notes", about) if name.endswith(".json")]

    def text(self, *parts: str) -> str:
        """What is written in a file."""
        stream = self._fs.open(self._path(self.path(*parts)))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def create(self, name: str, text: str) -> bool:
        """Write a file, unless it is there already; return whether it was written."""
        try:
            stream = self._fs.create(self._path(self.path(name)), False)
        except Py4JJavaError:
            if self.exists(name):
                return False
            raise
        self._write(stream, text)
        return True

    def touch(self, name: str) -> None:
        """Say that a file is as good as new, where the file system can keep that."""
        self._fs.setTimes(self._path(self.path(name)), int(time.time() * 1000), -1)

    def changed_at(self, name: str) -> datetime | None:
        """When a file was written or touched; None if it is not there."""
        if not self.exists(name):
            return None
        at_ms = self._fs.getFileStatus(self._path(self.path(name))).getModificationTime()
        return datetime.fromtimestamp(at_ms / 1000, UTC)

    def _write(self, stream: Any, text: str) -> None:
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def remove(self, *parts: str) -> None:
        """Remove a folder or a file, if it is there."""
        self._fs.delete(self._path(self.path(*parts)), True)
