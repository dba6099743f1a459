"""replay: jobs that are finished, chosen by SQL over silver, go back into the queue as new ones, once.

    lake/replays/7d0c…/     the jobs of a replay: written before they are enqueued
    lake/notes/replay-7d0c…  that they are in the queue

A replay that was interrupted is finished by the next one, before that chooses: the queue knows it by
its name, and enqueues it once. What was replayed before is not chosen again.
"""

import uuid
from collections.abc import Mapping

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from bucketq.errors import ConfigurationError
from bucketq.pipeline.lake import Lake
from bucketq.pipeline.lease import held
from bucketq.pipeline.silver import SILVER, read_silver

REPLAYS = "replays"


def chosen(lake: Lake, where: str, again: bool = False) -> DataFrame:
    """The jobs of silver for which a condition holds, but for those that were replayed before.

    Raises ConfigurationError.
    """
    if not lake.days(SILVER):
        raise ConfigurationError(f"there are no jobs in {lake.root}: run the pipeline first")
    try:
        jobs = read_silver(lake).where(where)
    except (AnalysisException, ParseException) as error:
        # Spark goes on with its plan, or with the text and where in it.
        reason = str(error).strip().splitlines()[0].partition(" SQLSTATE")[0]
        raise ConfigurationError(f"{where!r} cannot be asked of silver: {reason}") from error
    if lake.names(REPLAYS) and not again:
        jobs = jobs.join(lake.read(REPLAYS, "*").select("id").distinct(), "id", "left_anti")
    return jobs


def replay(lake: Lake, where: str, target: Mapping[str, str], again: bool = False) -> int:
    """Enqueue the chosen jobs; return how many. With `again`, also those that were replayed before."""
    if lake.note("source").get("url") != target["url"]:
        raise ConfigurationError(f"{lake.root} is the lake of {lake.note('source').get('url')}")
    with held(lake):
        return _replay(lake, where, target, again)


def _replay(lake: Lake, where: str, target: Mapping[str, str], again: bool) -> int:
    _finish(lake, target)
    jobs = chosen(lake, where, again).select("id", "entrypoint", "payload", "priority", "payload_object")
    name = uuid.uuid4().hex
    jobs.write.parquet(lake.path(REPLAYS, name))
    written = lake.read(REPLAYS, name)
    count, lost = written.count(), written.where("payload_object IS NOT NULL").count()
    if lost or not count:
        lake.remove(REPLAYS, name)
    if lost:
        raise ConfigurationError(
            f"{lost} of {count} jobs have a payload in an object of its own, which a replay cannot bring"
            " back; leave them out: AND payload_object IS NULL"
        )
    _finish(lake, target)
    return count


def _finish(lake: Lake, target: Mapping[str, str]) -> None:
    """Enqueue what was chosen, but is not known to be in the queue."""
    for name in lake.names(REPLAYS):
        if not lake.exists(REPLAYS, name, "_SUCCESS"):
            # It was being written, and nothing of it was enqueued.
            lake.remove(REPLAYS, name)
        elif not lake.note(f"replay-{name}"):
            rows = lake.read(REPLAYS, name).select("entrypoint", "payload", "priority")
            rows.write.format("bucketq").options(**target, load_id=f"replay-{name}").mode("append").save()
            lake.write_note(f"replay-{name}", {"done": True})
