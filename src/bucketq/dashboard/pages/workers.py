"""Workers: who holds which jobs, since when they were heard of, and how far the jobs are."""

from bucketq.dashboard.frame import Frame
from bucketq.dashboard.parts import empty, link, panel, text
from bucketq.dashboard.rows import running_rows, worker_row
from bucketq.dashboard.table import Column, Table
from bucketq.live.rows import worker_rows

_WORKERS_SHOWN = 200
_JOBS_SHOWN = 100

_WORKER_COLUMNS = (
    Column("id", "Worker", link="path", is_code=True),
    Column("jobs", "Jobs", is_number=True),
    Column("heard", "Last heartbeat", is_number=True),
)
_JOB_COLUMNS = (
    Column("job", "Job", link="path", is_code=True),
    Column("entrypoint", "Entrypoint"),
    Column("worker", "Worker", is_code=True),
    Column("span", "Runs for", is_number=True),
    Column("attempts", "Attempts", is_number=True),
    Column("progress", "Progress", is_bar=True),
    Column("note", "Note", is_wide=True),
)


def draw_workers(frame: Frame) -> None:
    """Those who hold jobs, and the jobs that run, of one of them or of all."""
    worker = frame.request.query_params.get("worker") or None
    nothing = empty(
        "engineering",
        "No worker holds a job",
        "A worker shows here as soon as it has begun one. Start one with the app whose handlers it runs.",
        f"bucketq work myapp:app --url {frame.house.url}",
    )
    with panel() as box:
        workers = Table(_WORKER_COLUMNS, label="Workers")
    note = text(
        "p",
        "Heartbeats ride along with other writes, so up to a third of stale_after_s is no cause to worry.",
        "bq-note",
    )
    with panel(f"Jobs of {worker}" if worker else "Jobs that run") as jobs_box:
        if worker:
            link("The jobs of all workers", "/workers")
        jobs = Table(_JOB_COLUMNS, label="Jobs that run")
        more = text("p", "", "bq-note")

    def show() -> None:
        look = frame.watch.look
        if look is None:
            return
        held = worker_rows(look)
        workers.show([worker_row(row) for row in held[:_WORKERS_SHOWN]])
        running = running_rows(look, worker, _JOBS_SHOWN)
        jobs.show(running)
        more.text = f"The {_JOBS_SHOWN} that have run for longest." if len(running) == _JOBS_SHOWN else ""
        nothing.set_visibility(not held)
        for part in (box, note, jobs_box):
            part.set_visibility(bool(held))

    frame.each_second(show)
