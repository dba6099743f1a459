"""The data pipeline over what the tour has archived, and its report, as a process."""

import asyncio
import os
import sys
import time
from pathlib import Path

from bucketq.archive import Archive
from bucketq.errors import BucketQError, ConfigurationError
from bucketq.spark import local_session
from bucketq.state import QueueState
from bucketq.supervised import end_with_supervisor

# The exit code where there is no Spark, or no Java for it.
NO_SPARK = 2
# For a few hundred jobs, a Java that compiles little has half the work.
_IN_A_HURRY = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}


def is_archived(state: QueueState) -> bool:
    """Whether all jobs are finished, and in the archive."""
    return not state.stats.live and not state.ledger.finished and not state.ledger.sealed


def main(folder: Path) -> int:
    """Start Spark, and write a report as soon as all is archived; 1 if a check of the pipeline failed."""
    end_with_supervisor(lambda: os._exit(1), 0)
    try:
        return _report(folder)
    except ConfigurationError as error:
        print(error)
        return NO_SPARK
    except BucketQError as error:
        print(error)
        return 1


def _report(folder: Path) -> int:
    spark = local_session(settings=_IN_A_HURRY, is_quiet=True)
    # Only here, where Spark is known to be there.
    from bucketq.pipeline.lake import Lake
    from bucketq.pipeline.report.findings import find
    from bucketq.pipeline.report.page import page, write_report
    from bucketq.pipeline.run import run

    url, lake = (folder / "queue.json").as_uri(), str(folder / "lake")
    try:
        while not is_archived(asyncio.run(Archive.open(url).state())):
            time.sleep(0.2)
        outcome = run(spark, {"url": url}, lake)
        write_report(folder / "report.html", page(find(Lake(spark, lake), days=1)))
    finally:
        spark.stop()
    for check in outcome.checks:
        if check.passed is False:
            print(f"{check.name}: {check.found}")
    return 0 if outcome.is_sound else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
