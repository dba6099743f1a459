"""Tasks: orders are carried out by executors, each as a Spark job of one task.

The calls block, so each has a thread of its own while its task runs.
"""

import asyncio
import itertools
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from bucketq.errors import ConfigurationError
from bucketq.spark.fleet.order import Kit, Lost, Order, Report, Unready, Work

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)


class Tasks:
    """Runs orders with one kit on the executors of a session."""

    def __init__(self, spark: "SparkSession", kit: Kit) -> None:
        self._context = _context_of(spark)
        self._kit = kit
        self._threads: ThreadPoolExecutor | None = None

    @property
    def cores(self) -> int:
        """How many tasks the executors run at the same time, as far as Spark knows."""
        return self._context.defaultParallelism

    @property
    def is_stopped(self) -> bool:
        """Whether Spark was stopped: then every task fails, and no executor is to blame."""
        try:
            return self._context._jsc is None or bool(self._context._jsc.sc().isStopped())
        except Exception:
            # There is no Java any more that could tell.
            return True

    async def probe(self) -> None:
        """Raise ConfigurationError if the executors cannot run the app."""
        try:
            reports = await asyncio.to_thread(self._collect, "probe", [Order(self._kit)] * self.cores)
        except Exception as error:
            raise ConfigurationError(f"the executors cannot run the app: {error}") from error
        for report in reports:
            if isinstance(report, Unready):
                raise ConfigurationError(f"the executors cannot run the app: {report.error}")

    def open(self, number: int) -> None:
        """Make ready to run so many orders at a time."""
        self._threads = ThreadPoolExecutor(number, "bucketq lane")

    def close(self) -> None:
        """Let the threads end, whose tasks were cancelled if they had not ended."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    def new_group(self) -> str:
        """A name by which one task can be cancelled."""
        return f"bucketq {next(_numbers)}"

    async def run(self, group: str, work: Work) -> Report:
        """Have an executor do some work."""
        loop = asyncio.get_running_loop()
        try:
            orders = [Order(self._kit, work)]
            [report] = await loop.run_in_executor(self._threads, self._collect, group, orders)
        except Exception as error:
            return Lost(str(error))
        return report

    async def cancel(self, group: str) -> None:
        """Stop a task; Spark ends its Python process a few seconds later, if it does not end by itself."""
        if not self.is_stopped:
            await asyncio.to_thread(self._context.cancelJobGroup, group)

    def _collect(self, group: str, orders: list[Order]) -> list[Report]:
        # Here, since the package is to be imported without Spark.
        from bucketq.spark.fleet.crew import run_orders

        # It holds for this thread, and what it starts.
        self._context.setJobGroup(group, "jobs of bucketq", interruptOnCancel=True)
        pickled: RDD[bytes] = self._context.parallelize(map(pickle.dumps, orders), len(orders))
        return [pickle.loads(report) for report in pickled.mapPartitions(run_orders).collect()]


def _context_of(spark: Any) -> "SparkContext":
    try:
        context: SparkContext = spark.sparkContext
    except Exception as error:
        raise ConfigurationError(
            "a fleet runs on a Spark session of its own driver, such as local_session() gives or spark-submit"
            " starts; not through Spark Connect"
        ) from error
    return context
