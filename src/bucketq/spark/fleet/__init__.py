"""Fleet: Spark's executors as workers. `fleet` and `supply` are the driver's part, `crew` the executors'."""

from bucketq.spark.fleet.fleet import Fleet, run

__all__ = ["Fleet", "run"]
