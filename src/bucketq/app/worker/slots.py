"""Slots: the jobs that a worker is busy with, each in a task of its own.

    begin ──▶ attempt ──▶ settle(job, outcome) ──▶ callbacks ──▶ the slot is free
                 └─ lose, cancel_all: the task is cancelled ──▶ Interrupted

An interrupted job is given back. If its claim is lost, the queue passes over that.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from functools import partial

from bucketq.app.attempt import Attempts
from bucketq.app.events import Callbacks
from bucketq.app.outcome import Completed, Failed, Interrupted, Outcome, Rejected
from bucketq.app.worker.threads import Threads
from bucketq.errors import JobNotFoundError
from bucketq.failure import error_text
from bucketq.job import Job
from bucketq.log_fields import fields_of

log = logging.getLogger("bucketq")

_NOTHING = (None, None)


class Slots:
    """So many jobs at a time. `settle` is told each outcome, `on_free` that a slot is free again."""

    def __init__(
        self,
        size: int,
        attempts: Attempts,
        threads: Threads,
        callbacks: Callbacks,
        settle: Callable[[Job, Outcome], None],
        on_free: Callable[[], None],
    ) -> None:
        self.done = 0
        self.failed = 0
        self.given_back = 0
        self.size = size
        self._attempts = attempts
        self._threads = threads
        self._callbacks = callbacks
        self._settle = settle
        self._on_free = on_free
        self._works: dict[str, _Work] = {}

    def __len__(self) -> int:
        return len(self._works)

    @property
    def free(self) -> int:
        """How many more jobs may begin. A thread that nobody waits for keeps its slot till it returns."""
        return self.size - len(self._works) - self._threads.lingering

    def begin(self, job: Job) -> None:
        """Run a claimed job."""
        before = self._works.get(job.id)
        if before is not None:
            # This worker itself was given the job again: its claim was lost, or it has failed before
            # and callbacks still hear of that.
            if not before.is_settled:
                self._cancel(before)
            self._free(before)
        work = self._works[job.id] = _Work(job)
        work.task = asyncio.create_task(self._run(work))

    def jobs(self) -> Iterator[Job]:
        """Those that run."""
        return (work.job for work in self._works.values())

    def progress(self) -> dict[str, tuple[float | None, str | None]]:
        """What their handlers have said of them, by id."""
        return {work.job.id: work.said for work in self._works.values() if work.said != _NOTHING}

    def lose(self, job: Job, lost: JobNotFoundError) -> None:
        """Stop a job that a heartbeat was refused for, unless this worker has it by a new claim."""
        work = self._works.get(job.id)
        if work is not None and work.job is job and not work.is_settled and not work.is_stopping:
            log.warning("%s; its handler is stopped", lost, extra=_fields(work))
            self._cancel(work)

    def cancel_all(self) -> None:
        """Stop every job; those that do not end by themselves are `Interrupted`."""
        for work in list(self._works.values()):
            self._cancel(work)

    async def wait(self, limit_s: float) -> None:
        """Wait for those that run now, for so long at most."""
        tasks = [work.task for work in self._works.values() if work.task]
        if tasks:
            await asyncio.wait(tasks, timeout=limit_s)

    def give_up(self) -> None:
        """Give back what still runs although it was cancelled."""
        for work in list(self._works.values()):
            log.error("job %s does not stop; it is given back all the same", work.job.id, extra=_fields(work))
            self._end(work, Interrupted())
            self._free(work)

    async def _run(self, work: "_Work") -> None:
        job = work.job
        await self._callbacks.tell_claimed(job)
        try:
            outcome = await self._attempts.attempt(job, work.report)
        except Exception as error:
            log.exception("job %s could not be tried", job.id, extra=_fields(work))
            outcome = Failed(error_text(error) or "")
        if work.is_stopping and not isinstance(outcome, Completed):
            return  # what it raises when it is stopped is no fault of the job
        self._end(work, outcome)
        await self._callbacks.tell_ended(job, outcome)
        self._free(work)

    def _cancel(self, work: "_Work") -> None:
        assert work.task is not None
        # Once: what it does then to clean up is not disturbed again.
        if not work.is_stopping and work.task.cancel():
            work.is_stopping = True
            # Not in the task itself: one that is cancelled before its first step never takes it.
            work.task.add_done_callback(partial(self._stopped, work))

    def _stopped(self, work: "_Work", task: "asyncio.Task[None]") -> None:
        self._end(work, Interrupted())
        self._free(work)

    def _end(self, work: "_Work", outcome: Outcome) -> None:
        if work.is_settled:
            return
        work.is_settled = True
        self._settle(work.job, outcome)
        match outcome:
            case Completed():
                self.done += 1
                if log.isEnabledFor(logging.DEBUG):
                    log.debug("job %s (%s) is done", work.job.id, work.job.entrypoint, extra=_fields(work))
            case Failed(error) | Rejected(error):
                self.failed += 1
                about = work.job.id, work.job.entrypoint, _prospect(work.job, outcome), error
                log.warning("job %s (%s) failed, %s: %s%s", *about, _where(outcome), extra=_fields(work))
            case Interrupted():
                self.given_back += 1

    def _free(self, work: "_Work") -> None:
        if self._works.get(work.job.id) is work:
            del self._works[work.job.id]
            self._on_free()


class _Work:
    """One job under way."""

    __slots__ = ("began_s", "is_settled", "is_stopping", "job", "said", "task")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.task: asyncio.Task[None] | None = None
        self.began_s = time.monotonic()
        self.is_settled = False
        self.is_stopping = False
        self.said: tuple[float | None, str | None] = _NOTHING

    def report(self, progress: float | None, note: str | None) -> None:
        self.said = self.said[0] if progress is None else progress, self.said[1] if note is None else note


def _prospect(job: Job, outcome: Failed | Rejected) -> str:
    """What a failure means for the job, in a few words."""
    if isinstance(outcome, Rejected) or job.failures >= job.max_attempts:
        return f"attempt {job.failures}, and is dead"
    return f"attempt {job.failures} of {job.max_attempts}, again in {outcome.retry_in_s:.3g} s"


def _where(outcome: Failed | Rejected) -> str:
    """The last place of a trace."""
    return f" ({outcome.trace.splitlines()[-1]})" if outcome.trace else ""


def _fields(work: _Work) -> dict[str, object]:
    """What structured logs tell of a job."""
    return {**fields_of(work.job), "seconds": round(time.monotonic() - work.began_s, 3)}
