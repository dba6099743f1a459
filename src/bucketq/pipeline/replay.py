"""replay: jobs that are finished, chosen by SQL over silver, go back into the queue as new ones."""

import hashlib
from collections.abc import Mapping

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from bucketq.errors import ConfigurationError
from bucketq.pipeline.lake import Lake
from bucketq.pipeline.silver import SILVER


def chosen(lake: Lake, where: str) -> DataFrame:
    """The jobs of silver for which a condition holds. Raises ConfigurationError."""
    if not lake.has_days(SILVER):
        raise ConfigurationError(f"there are no jobs in {lake.root}: run the pipeline first")
    try:
        return lake.read(SILVER).where(where)
    except (AnalysisException, ParseException) as error:
        raise ConfigurationError(f"{where!r} cannot be asked of silver: {error}") from error


def replay(lake: Lake, where: str, target: Mapping[str, str], name: str | None = None) -> int:
    """Enqueue the chosen jobs once; return how many there are.

    The load is known to the queue by `name`, or else by the very jobs that were chosen, so
    that the same replay, done again, adds nothing.
    """
    jobs = chosen(lake, where).cache()
    try:
        count, signature = jobs.agg(F.count("*"), F.bit_xor(F.xxhash64("id"))).collect()[0]
        lost = jobs.where("payload_object IS NOT NULL").count()
        if lost:
            raise ConfigurationError(
                f"{lost} of {count} jobs have a payload in an object of its own, which a replay cannot bring"
                " back; leave them out: AND payload_object IS NULL"
            )
        if count:
            digest = hashlib.sha256(f"{count} {signature}".encode()).hexdigest()[:16]
            rows = jobs.select("entrypoint", "payload", "priority")
            writer = rows.write.format("bucketq").options(**target).mode("append")
            writer.option("load_id", name or f"replay-{digest}").save()
        return int(count)
    finally:
        jobs.unpersist()
