"""How tests start Spark: its Java compiles little, and takes its classes from an archive (AppCDS).

Python's processes do not import PySpark from pyspark.zip, where they would compile it again each time, but
from its package: the SPARK_HOME of tests has no such file.

`make setup` makes archive and home, with tests/spark/class_data.py. Without them Spark starts more slowly.
"""

import shlex
from pathlib import Path

_TOOLS = Path(__file__).resolve().parents[2] / ".tools"
ARCHIVE, HOME = _TOOLS / "spark.jsa", _TOOLS / "spark-home"
# Jobs are over before it would pay to compile them well.
_LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
}


def java_options() -> str:
    """The options of a Java that runs Spark."""
    # An archive of other versions is not used, and nobody has to hear of that.
    return f"{_LIGHT} -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else _LIGHT


def submit_arguments(options: str) -> str:
    """What PYSPARK_SUBMIT_ARGS is for sessions of this process and those that it starts."""
    arguments = ["--driver-java-options", options]
    for name, value in (_SETTINGS | {"spark.executor.extraJavaOptions": java_options()}).items():
        arguments += ["--conf", f"{name}={value}"]
    return shlex.join([*arguments, "pyspark-shell"])


def environment() -> dict[str, str]:
    """The variables with which Spark starts quickly, wherever it is started."""
    home = {"SPARK_HOME": str(HOME)} if (HOME / "jars").exists() else {}
    return home | {
        "PYSPARK_SUBMIT_ARGS": submit_arguments(java_options()),
        "SPARK_DAEMON_JAVA_OPTS": java_options(),
        "SPARK_LAUNCHER_OPTS": _LIGHT,
    }
