"""run: one run of the pipeline, from the archive to gold, and the checks at its end."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec
from pyspark.sql import SparkSession

from bucketq.archive_name import arrived
from bucketq.errors import ConfigurationError
from bucketq.pipeline.bronze import ingest
from bucketq.pipeline.gold import aggregate
from bucketq.pipeline.lake import Lake
from bucketq.pipeline.lease import held
from bucketq.pipeline.quality import Check, Counters, check
from bucketq.pipeline.silver import refine
from bucketq.pipeline.targets import Targets
from bucketq.spark.options import Options
from bucketq.spark.tables import check_there, read_queue

OnStep = Callable[[str], object]


@dataclass
class Outcome:
    """What a run did: the days that it made anew, what the checks found, and the seconds of each step."""

    days: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    took_s: dict[str, float] = field(default_factory=dict)
    # Finished jobs that are not in the archive yet, and come with a later run.
    on_the_way: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether no check failed."""
        return all(one.passed is not False for one in self.checks)


def run(
    spark: SparkSession,
    source: Mapping[str, str],
    out: str,
    targets: Targets | None = None,
    on_step: OnStep | None = None,
) -> Outcome:
    """Bring a lake up to date with the archive of a queue; `source` holds the options of the source.

    Without `targets`, those that the lake was given last count. `on_step` is told the name of each step
    when it begins.

        outcome = run(spark, {"url": "s3://my-bucket/jobs.json"}, "lake")
        assert outcome.is_sound, outcome.checks

    Raises ConfigurationError, also if somebody else is at work on the lake.
    """
    # Days and hours are those of UTC, here as in the archive.
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    lake = Lake(spark, out)
    with held(lake):
        return _run(lake, source, targets, on_step)


def _run(lake: Lake, source: Mapping[str, str], given: Targets | None, on_step: OnStep | None) -> Outcome:
    counters = _counters(Options(source))
    _claim(lake, source["url"])
    targets = _targets(lake, given)
    outcome = Outcome(on_the_way=counters.on_the_way)

    def step(name: str, work: Callable[[], None]) -> None:
        if on_step:
            on_step(name)
        started_s = time.perf_counter()
        work()
        outcome.took_s[name] = time.perf_counter() - started_s

    step("bronze", lambda: ingest(lake, source, counters.version))
    step("silver", lambda: outcome.days.extend(refine(lake)))
    step("gold", lambda: outcome.days.extend(set(aggregate(lake, targets)) - {*outcome.days}))
    step("quality", lambda: outcome.checks.extend(check(lake, counters)))
    outcome.days.sort()
    return outcome


def _targets(lake: Lake, given: Targets | None) -> Targets:
    """The targets that are given, or else those that the lake was given last."""
    if given is None:
        return msgspec.convert(lake.note("targets"), Targets)
    lake.write_note("targets", msgspec.to_builtins(given))
    return given


def _claim(lake: Lake, url: str) -> None:
    """A lake is that of one queue."""
    owner = lake.note("source").get("url")
    if owner is None:
        lake.write_note("source", {"url": url})
    elif owner != url:
        raise ConfigurationError(f"{lake.root} is the lake of {owner}; {url} needs another one")


def _counters(options: Options) -> Counters:
    """The version up to which everything is in the archive, and what queue.json counts then."""
    state = read_queue(options)
    check_there(state, options)
    ledger = state.ledger
    # While a batch is on its way, younger ones may be counted already.
    counted = None if ledger.sealed else dict(ledger.archived)
    on_the_way = len(ledger.finished) + sum(batch.total for batch in ledger.sealed.values())
    return Counters(arrived(ledger.sealed, state.version), counted, on_the_way)
