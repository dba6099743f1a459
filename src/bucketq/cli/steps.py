"""Steps: what a command on Spark is at, for its progress bars and for what it says when Spark fails."""

import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from bucketq.errors import BucketQError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnProgress = Callable[[str, int, int], None]
_POLL_S = 0.2


class StepError(BucketQError):
    """Spark could not do a step; `is_gone` says that it never will, since Java has ended."""

    def __init__(self, message: str, is_gone: bool) -> None:
        super().__init__(message)
        self.is_gone = is_gone


class Steps:
    """The steps of a command, one after the other."""

    def __init__(self, on_progress: OnProgress, is_verbose: bool = False) -> None:
        self._on_progress = on_progress
        self._is_verbose = is_verbose
        self._lock = threading.Lock()
        # The tasks of every stage that the step has had so far.
        self._tasks: dict[int, int] = {}
        self._name: str | None = None

    def begin(self, name: str) -> None:
        """Say that the last step is done, and the next one begins."""
        with self._lock:
            if self._name is not None:
                self._on_progress(self._name, 1, 1)
            self._name, self._tasks = name, {}
            self._on_progress(name, 0, 1)

    @contextmanager
    def followed(self, spark: "SparkSession") -> Iterator[None]:
        """Tell how many of its tasks Spark has done, again and again."""
        is_over = threading.Event()
        thread = threading.Thread(target=self._follow, args=(spark, is_over), daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    @contextmanager
    def told_plainly(self) -> Iterator[None]:
        """Turn what Spark raises into one sentence. Raises StepError."""
        try:
            yield
        except Exception as error:
            if not _is_of_spark(error):
                raise
            if self._is_verbose:
                traceback.print_exc()
            is_gone = isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError"
            cause = "Java has ended" if is_gone else _cause_of(error)
            hint = "" if self._is_verbose else " (--verbose tells more)"
            raise StepError(f"the step {self._name!r} failed: {cause}{hint}", is_gone) from error

    def _follow(self, spark: "SparkSession", is_over: threading.Event) -> None:
        from py4j.protocol import Py4JError

        tracker = spark.sparkContext.statusTracker()
        while not is_over.wait(_POLL_S):
            # Java may be going just now.
            with suppress(Py4JError, OSError):
                self._tell(tracker)

    def _tell(self, tracker: Any) -> None:
        jobs = [tracker.getJobInfo(number) for number in tracker.getActiveJobsIds()]
        stages = [tracker.getStageInfo(number) for job in jobs if job for number in job.stageIds]
        with self._lock:
            active = {stage.stageId: stage for stage in stages if stage}
            self._tasks |= {number: stage.numTasks for number, stage in active.items()}
            left = sum(stage.numTasks - stage.numCompletedTasks for stage in active.values())
            total = sum(self._tasks.values())
            if self._name is not None and total:
                self._on_progress(self._name, total - left, total)


def _is_of_spark(error: Exception) -> bool:
    # By name, for Spark may not be installed.
    families = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(families & {"pyspark", "py4j"}) or isinstance(error, ConnectionError)


def _cause_of(error: Exception) -> str:
    """The innermost reason, in a line."""
    java = getattr(error, "java_exception", None)
    if java is not None:
        while (deeper := java.getCause()) is not None:
            java = deeper
        return str(java.toString()).strip().splitlines()[0]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(line.startswith("Traceback ") for line in lines):
        # What a Python process of Spark raised: its traceback ends with the error itself.
        named = [line for line in lines if "Error: " in line or "Exception: " in line]
        return named[-1] if named else lines[0]
    return lines[0] if lines else type(error).__name__
