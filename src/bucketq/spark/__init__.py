"""The queue as a Spark source and sink: `spark.read.format("bucketq")`, `df.write.format("bucketq")`."""

from bucketq.spark.session import local_session

__all__ = ["local_session"]
