"""local_session: Spark on this machine, quiet and small, and the Java that it needs."""

import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from bucketq.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_MIN = 17

# Nothing but this machine is asked or told anything.
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
if sys.platform == "linux":
    # Not on a cluster: its executors may get bucketq from `spark.submit.pyFiles`, after this module starts.
    _LOCAL["spark.python.daemon.module"] = "bucketq.spark.daemon"
# A few jobs need no 200 partitions.
_SETTINGS = {
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_INSTALL = {
    "linux": "apt-get install openjdk-17-jre-headless, or dnf install java-17-openjdk-headless",
    "darwin": "brew install openjdk@17",
    "win32": "winget install EclipseAdoptium.Temurin.17.JRE",
}


def local_session(
    master: str = "local[*]",
    *,
    name: str = "bucketq",
    settings: dict[str, str] | None = None,
    is_quiet: bool = False,
) -> "SparkSession":
    """A Spark session on this machine, in UTC; `settings` go to Spark.

    With `is_quiet` nobody hears what Java says while it starts.

        spark = local_session()
        spark.read.format("bucketq").option("url", "file:///var/lib/myapp/queue.json").load().show()

    Raises ConfigurationError if Spark, or a Java that it can use, is missing.
    """
    try:
        from pyspark.logger import PySparkLogger
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ConfigurationError("Spark is an extra: pip install 'bucketq[spark]'") from error
    os.environ["JAVA_HOME"] = str(find_java())
    is_local = master.startswith("local")
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # The executors' Python has to have bucketq too.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in (_SETTINGS | (_LOCAL if is_local else {}) | (settings or {})).items():
        builder = builder.config(key, value)
    with _silence() if is_quiet else nullcontext():
        session = builder.getOrCreate()
    from bucketq.spark.source import BucketQSource

    if is_quiet:
        # They print errors that are raised as well, with the whole of Java's stack.
        for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    # Mostly Spark finds it by itself; but it does without, and says nothing, if a Python is slow to start.
    session.dataSource.register(BucketQSource)
    return session


def find_java() -> Path:
    """The home of a Java that Spark can use. Raises ConfigurationError, which says how to get one."""
    found: list[str] = []
    for home in _java_homes():
        version = _version_of(home)
        if version is not None and version >= JAVA_MIN:
            return home
        found.append(f"{home} has Java {version}" if version else f"{home} has none")
    seen = f" ({'; '.join(found)})" if found else ""
    how = _INSTALL.get(sys.platform, "see adoptium.net")
    raise ConfigurationError(
        f"Spark needs Java {JAVA_MIN} or newer, and there is none{seen}. Install it: {how}."
        " If it is somewhere else, set JAVA_HOME to its folder."
    )


@contextmanager
def _silence() -> Iterator[None]:
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _java_homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if program := shutil.which("java"):
        yield Path(program).resolve().parents[1]
    yield from sorted(Path("/usr/lib/jvm").glob("*"))


def _version_of(home: Path) -> int | None:
    try:
        told = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(version[1]) if version else None
