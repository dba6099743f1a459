"""Job: all about one job, live or finished, and what can be done with it."""

import msgspec
from nicegui import background_tasks, ui

from bucketq.archived_job import ArchivedJob
from bucketq.broker.access import Role
from bucketq.dashboard.frame import Frame
from bucketq.dashboard.parts import empty, facts, link, panel, text
from bucketq.dashboard.rows import job_path, jobs_path
from bucketq.errors import BucketQError
from bucketq.facts import facts as facts_of
from bucketq.job import Attempt, Job, JobStatus
from bucketq.live.finding import fetch_payload, find_job
from bucketq.live.look import Look
from bucketq.live.words import spell_payload, spell_status
from bucketq.queue import Queue
from bucketq.timeline import timeline
from bucketq.words import spell_moment, spell_size, spell_time

# Larger ones are fetched by whoever wants them.
_PAYLOAD_FETCHED_MAX = 1_000_000


async def draw_job(frame: Frame) -> None:
    """What it is, what happened to it, its errors, payload and result; drawn anew when it changes."""
    job_id = frame.request.path_params["job_id"]
    link("All jobs", "/jobs")
    await _JobView(frame, job_id).show()


class _JobView:
    """The job as it was drawn last, and where."""

    def __init__(self, frame: Frame, job_id: str) -> None:
        self._frame = frame
        self._id = job_id
        self._job: Job | ArchivedJob | None = None
        self._client = ui.context.client
        self._box = ui.element("div").classes("bq-job")
        self._is_reading = False

    async def show(self) -> None:
        """Draw it, and again when it changes."""
        await self._read()
        self._frame.each_look(self._compare)

    def _compare(self, look: Look) -> None:
        if isinstance(self._job, ArchivedJob) or self._is_reading:
            return
        # One in a segment is not in the look: it has neither begun nor ended.
        seen = look.state.find(self._id)
        if self._shown(seen) != self._shown(self._job) and not (
            seen is None and look.state.backlog.may_hold(self._id)
        ):
            self._is_reading = True
            background_tasks.create(self._read_again(), name="bucketq dashboard job")

    def _shown(self, job: Job | None) -> Job | None:
        # The look has what is not for everybody.
        return job and self._frame.visitor.caller.shown(job)

    async def _read_again(self) -> None:
        try:
            with self._client:
                await self._read()
        except (BucketQError, OSError):
            pass  # the banner tells why, and the next look tries again
        finally:
            self._is_reading = False

    async def _read(self) -> None:
        job = await find_job(self._frame.visitor.queue, self._id)
        if job is not None and job == self._job:
            # A look may be older than what is shown. New buttons would take no click meanwhile.
            return
        payload = await self._payload_of(job) if job is not None else ""
        self._job = job
        self._box.clear()
        with self._box:
            if job is None:
                empty(
                    "search_off",
                    "No such job",
                    "It is neither in the queue nor in its archive: never enqueued, or not kept any more.",
                    f"bucketq archive --since 30d --url {self._frame.house.url}",
                )
            else:
                self._draw(job, payload)

    async def _payload_of(self, job: Job | ArchivedJob) -> str:
        if job.payload_object is not None and job.payload_size > _PAYLOAD_FETCHED_MAX:
            return f"{spell_size(job.payload_size)}: `bucketq show {job.id} --payload` writes all of it."
        try:
            payload = await fetch_payload(self._frame.visitor.queue, job)
        except (BucketQError, OSError) as error:
            return f"The payload cannot be shown: {error}"
        return spell_payload(payload) if payload else "none"

    def _draw(self, job: Job | ArchivedJob, payload: str) -> None:
        status = spell_status(job) if isinstance(job, Job) else job.status.value
        with ui.element("div").classes("bq-toolbar"):
            with ui.element("div").classes("bq-job-head"):
                text("span", status, f"bq-badge bq-tone-{job.status.value}")
                link(job.entrypoint, jobs_path(entrypoint=job.entrypoint), "bq-job-entrypoint bq-link")
                text("code", job.id, "bq-job-id")
            with ui.element("div").classes("bq-buttons"):
                self._draw_buttons(job)
        if isinstance(job, Job) and job.progress is not None:
            ui.linear_progress(job.progress, show_value=False).props(
                f'aria-label="Progress {job.progress:.0%}"'
            ).classes("bq-job-progress")
        with ui.element("div").classes("bq-job-grid"):
            with panel("Facts"):
                facts().show(list(facts_of(job)))
                if job.redrive_of is not None:
                    link("The job that it does again", job_path(job.redrive_of))
            with panel("Timeline, UTC"), ui.element("ol").classes("bq-timeline"):
                for when, what in timeline(job):
                    with ui.element("li"):
                        text("time", spell_moment(when).removesuffix("Z"))
                        text("span", what)
        attempts = job.history if isinstance(job, Job) else job.attempts
        for number, attempt in enumerate(attempts, 1):
            if attempt.error or attempt.trace:
                _draw_attempt(number, attempt)
        with panel("Payload"):
            text("pre", payload, "bq-pre")
        if not isinstance(job, Job) and job.result is not None:
            with panel("Result"):
                text("pre", _spell_result(job.result), "bq-pre")

    def _draw_buttons(self, job: Job | ArchivedJob) -> None:
        frame, job_id = self._frame, job.id
        if not isinstance(job, Job):
            return

        async def redrive(queue: Queue) -> str:
            again = await queue.redrive(job_id)
            with self._client:
                ui.navigate.to(job_path(again.id))
            return f"It is done again, as {again.id}."

        async def discard(queue: Queue) -> str:
            await queue.discard(job_id)
            return "It is discarded; the archive keeps what it was."

        async def cancel(queue: Queue) -> str:
            cancelled = await queue.cancel(job_id)
            if cancelled.status is JobStatus.IN_PROGRESS:
                return "It is to stop: its next heartbeat tells its worker."
            return "It is cancelled."

        if job.status is JobStatus.DEAD:
            question = f"Redrive this job of {job.entrypoint}? A new one takes its place."
            frame.act("Redrive", Role.ADMIN, question, redrive, icon="replay")
            question = f"Discard this job of {job.entrypoint}? It cannot be redriven then."
            frame.act("Discard", Role.ADMIN, question, discard, icon="delete", is_grave=True)
        elif not job.is_cancelled:
            question = f"Cancel this job of {job.entrypoint}, which is {spell_status(job)}?"
            frame.act("Cancel the job", Role.PRODUCER, question, cancel, icon="cancel", is_grave=True)


def _draw_attempt(number: int, attempt: Attempt) -> None:
    took = spell_time(attempt.ended_at - attempt.claimed_at)
    outcome = attempt.outcome.value.replace("_", " ")
    with panel(f"Attempt {number}: {outcome} after {took}", "bq-attempt"):
        if attempt.error:
            text("pre", attempt.error, "bq-pre bq-error")
        if attempt.trace:
            with ui.element("details").props("open"):
                text("summary", "Where it came from")
                text("pre", attempt.trace, "bq-pre")


def _spell_result(result: object) -> str:
    return msgspec.json.format(msgspec.json.encode(result), indent=2).decode()
