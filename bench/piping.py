"""Piping: the data pipeline over archives of two sizes, and again with nothing new."""

import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench.finding import Finding
from bench.sparking import write_archive
from bucketq.pipeline.run import Outcome, run
from bucketq.spark import local_session


@dataclass(frozen=True)
class Amount:
    """How much is measured: archived jobs, few and many, and how many it takes to be warm."""

    warm: int = 24_000
    few: int = 100_000
    many: int = 1_000_000

    def shortened(self) -> "Amount":
        """The same for a quick look."""
        return Amount(warm=240, few=480, many=960)


def measure(folder: Path, amount: Amount) -> list[Finding]:
    """Run the pipeline on a small and on a large archive, each twice."""
    spark = local_session("local[2]", is_quiet=True)
    try:
        _run(spark, folder, amount.warm)
        few_s, _, few = _run(spark, folder, amount.few)
        python_before, java_before = _memory(), _java_memory(spark)
        many_s, again_s, many = _run(spark, folder, amount.many)
        return [
            Finding(
                f"seconds of a first run, {amount.few:,} and {amount.many:,} jobs", few_s, many_s, most=11
            ),
            Finding("seconds of a run, the first and one with nothing new", many_s, again_s, most=0.2),
            Finding(
                "megabytes of the Python driver, after few jobs and after many",
                python_before,
                _memory(),
                most=1.5,
            ),
            Finding(
                "megabytes of Java, driver and executor, after few jobs and after many",
                java_before,
                _java_memory(spark),
            ),
            *(
                Finding(f"seconds of {step} in a first run, few jobs and many", took_s, many.took_s[step])
                for step, took_s in few.took_s.items()
            ),
        ]
    finally:
        spark.stop()


def _run(spark: SparkSession, folder: Path, jobs: int) -> tuple[float, float, Outcome]:
    url = write_archive(folder / str(jobs), jobs)
    took, outcomes = list[float](), list[Outcome]()
    for _ in range(2):
        started_s = time.perf_counter()
        outcomes.append(run(spark, {"url": url}, str(folder / f"lake-{jobs}")))
        took.append(time.perf_counter() - started_s)
        assert outcomes[-1].is_sound, outcomes[-1].checks
    assert outcomes[1].days == []
    return took[0], took[1], outcomes[0]


def _memory() -> float:
    """The most that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _java_memory(spark: SparkSession) -> float:
    """The most that the process of Java ever had."""
    jvm: Any = spark._jvm
    status = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/status").read_text()
    [kilobytes] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(kilobytes) / 1024
