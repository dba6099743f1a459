"""Spark looks for packages of this kind, and so finds the format "bucketq" by itself."""

from bucketq.spark.source import BucketQSource as DefaultSource

__all__ = ["DefaultSource"]
