"""The queue as a Spark source and sink, and an app's jobs on Spark's executors.

`spark.read.format("bucketq")`, `df.write.format("bucketq")`, `run(app, spark)`.
"""

from bucketq.spark.fleet import Fleet, run
from bucketq.spark.fleet.chunk import Tally
from bucketq.spark.session import local_session

__all__ = ["Fleet", "Tally", "local_session", "run"]
