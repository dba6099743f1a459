"""`bucketq work --on spark`: the same jobs, on the executors of Spark."""

import argparse

from bucketq.app.app import App
from bucketq.cli.options import Option
from bucketq.errors import ConfigurationError
from bucketq.spark import Fleet, local_session

SPARK_OPTIONS: list[Option] = [
    ("--on", "here", "where jobs run: here, or on spark"),
    ("--spark-master", "local[*]", "on spark: its master, such as spark://10.0.0.7:7077"),
    ("--lanes", 0, "on spark: how many tasks at a time; 0 is 1.5 for each core"),
    ("--results", "", "on spark: a folder, or its URL, for a table of all outcomes"),
]
UNTIL_EMPTY = "--until-empty"


def fleet_of(options: argparse.Namespace, app: App, entrypoints: list[str] | None) -> Fleet:
    """The fleet that the options ask for. Raises ConfigurationError."""
    if options.processes > 1 or options.reload:
        raise ConfigurationError("--processes and --reload are for workers here; Spark has its own executors")
    return Fleet(
        app,
        local_session(options.spark_master, is_quiet=True),
        entrypoints=entrypoints,
        lanes=options.lanes or None,
        concurrency=options.concurrency,
        until_empty=options.until_empty,
        results=options.results or None,
        grace_s=options.grace,
    )
