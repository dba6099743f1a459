"""The data pipeline over what the tour has archived, and its report, as a process."""

import os
import sys
from pathlib import Path

from bucketq.errors import BucketQError, ConfigurationError
from bucketq.spark import local_session
from bucketq.supervised import end_with_supervisor

# The exit code where there is no Spark, or no Java for it.
NO_SPARK = 2
# A Java that runs for less than a minute is done sooner if it compiles little: half the work.
_IN_A_HURRY = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def main(folder: Path) -> int:
    """Run the pipeline, and write the report beside the queue; 1 if a check of the pipeline failed."""
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

    lake = str(folder / "lake")
    try:
        outcome = run(spark, {"url": (folder / "queue.json").as_uri()}, lake)
        write_report(folder / "report.html", page(find(Lake(spark, lake), days=1)))
    finally:
        spark.stop()
    for check in outcome.checks:
        if check.passed is False:
            print(f"{check.name}: {check.found}")
    return 0 if outcome.is_sound else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
