"""BucketQSource: the format "bucketq" of Spark, as a source and as a sink."""

from collections.abc import Mapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from bucketq.errors import ConfigurationError
from bucketq.spark.options import Options


class BucketQSource(DataSource):
    """What Spark makes of `.format("bucketq")` and its options.

        jobs = spark.read.format("bucketq").options(url="s3://b/jobs.json", table="jobs").load()
        df.write.format("bucketq").option("url", "s3://b/jobs.json").mode("append").save()

    Each part is imported when it is needed: Spark imports this module to learn the format's name.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        # Not kept as they are: they may hold secrets, and Spark shows sources to people.
        self._options = Options(options)

    @classmethod
    def name(cls) -> str:
        return "bucketq"

    def schema(self) -> StructType:
        from bucketq.spark.schema import schema_of

        return schema_of(self._options.table)

    def reader(self, schema: StructType) -> DataSourceReader:
        from bucketq.spark.tables import ArchiveReader, JobsReader

        return (JobsReader if self._options.table == "jobs" else ArchiveReader)(self._options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from bucketq.spark.stream import ArchiveStream

        if self._options.table == "jobs":
            raise ConfigurationError("the table jobs cannot be read as a stream, only archive and lines")
        return ArchiveStream(self._options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from bucketq.spark.sink import Sink

        _refuse_overwriting(overwrite)
        return Sink(self._options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from bucketq.spark.sink import StreamSink

        _refuse_overwriting(overwrite)
        return StreamSink(self._options, schema)


def _refuse_overwriting(overwrite: bool) -> None:
    if overwrite:
        raise ConfigurationError(
            'jobs are added to a queue, which is never overwritten: use .mode("append"), or for a stream'
            ' .outputMode("append")'
        )
