"""Lake: the folder that the pipeline writes to, on whatever file system Spark can write to.

    lake/bronze/ingest=000007/day=2026-02-15/…      lines of the archive, by ingestion
    lake/quarantine/ingest=000007/…                 those that could not be read, with the reason
    lake/silver/day=2026-02-15/…                    jobs
    lake/gold/activity/window=hour/day=2026-02-15/… what happened; errors, slowest, slo, trends beside it
    lake/checkpoint/…                               how far bronze has read the archive, by Spark
    lake/notes/silver/000000000003.json             how far each later step has come

Tables are Parquet, for anybody to read; checkpoint and notes are the pipeline's own.
"""

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession

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

    def folders(self, *parts: str) -> list[str]:
        """The names of what is in a folder."""
        if not self.exists(*parts):
            return []
        listed = self._fs.listStatus(self._path(self.path(*parts)))
        return sorted(str(one.getPath().getName()) for one in listed)

    def days(self, *parts: str) -> list[str]:
        """The days that a table, or a part of it, has; none if it has no rows."""
        names = [name for name in self.folders(*parts) if name.startswith("day=")]
        return [name.removeprefix("day=") for name in names if not name.startswith("day=__HIVE")]

    def read(self, *parts: str) -> DataFrame:
        """A table, with the columns that any part of it has."""
        return self.spark.read.option("mergeSchema", "true").parquet(self.path(*parts))

    def note(self, step: str) -> dict[str, Any]:
        """How far a step has come; nothing if it never ran."""
        names = self._notes(step)
        if not names:
            return {}
        stream = self._fs.open(self._path(self.path("notes", step, names[-1])))
        try:
            text = bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()
        found: dict[str, Any] = json.loads(text)
        return found

    def write_note(self, step: str, note: dict[str, Any]) -> None:
        """Say how far a step has come. Whoever reads sees the last note, or this one, and whole."""
        names = self._notes(step)
        number = int(names[-1].removesuffix(".json")) + 1 if names else 1
        hidden = self._path(self.path("notes", step, f".{number:012}"))
        stream = self._fs.create(hidden, True)
        try:
            stream.write(bytearray(json.dumps(note).encode()))
        finally:
            stream.close()
        self._fs.rename(hidden, self._path(self.path("notes", step, f"{number:012}.json")))
        for name in names[:-_NOTES_KEPT]:
            self._fs.delete(self._path(self.path("notes", step, name)), False)

    def _notes(self, step: str) -> list[str]:
        return [name for name in self.folders("notes", step) if name.endswith(".json")]

    def remove(self, *parts: str) -> None:
        """Remove a folder, if it is there."""
        self._fs.delete(self._path(self.path(*parts)), True)
