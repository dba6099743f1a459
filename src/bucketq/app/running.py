"""Running: the job that a handler works on, for those handlers that want to know."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from bucketq.app.call import Call
from bucketq.errors import ConfigurationError
from bucketq.job import Job
from bucketq.log_fields import logged_as
from bucketq.progress import check_progress
from bucketq.tracing.switch import TRACING

Report = Callable[[float | None, str | None], None]


class Running:
    """One attempt under way. A handler gets it by a parameter of this type, or by `current()`.

    @app.job
    async def index(pages: list[str], running: Running = provided()):
        for number, page in enumerate(pages):
            running.report(number / len(pages), page)
            running.enqueue(notify.call(page=page))
    """

    def __init__(self, job: Job, report: Report | None = None) -> None:
        self.job = job
        self.calls: list[Call] = []
        self._report = report

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self.job.attempts

    def report(self, progress: float | None = None, note: str | None = None) -> None:
        """Say how far the work is, from 0 to 1, and more as a text; it goes along with the next heartbeat."""
        check_progress(progress, note)
        if self._report is not None:
            self._report(progress, note)

    def enqueue(self, *calls: Call) -> None:
        """Enqueue these by the very commit that completes this job; if it fails, none of them."""
        if TRACING.spans is not None:
            # They are enqueued when the attempt, and its span, have ended.
            here = TRACING.spans.current()
            calls = tuple(call.within(here) for call in calls)
        self.calls += calls


_current: ContextVar[Running] = ContextVar("bucketq_running")


def current() -> Running:
    """The job that runs here. Raises ConfigurationError outside of a handler."""
    try:
        return _current.get()
    except LookupError:
        raise ConfigurationError("no job runs here: current() is for handlers, and what they call") from None


@contextmanager
def running_as(running: Running) -> Iterator[None]:
    """Let `current` tell this one inside the block."""
    token = _current.set(running)
    try:
        with logged_as(running.job):
            yield
    finally:
        _current.reset(token)
