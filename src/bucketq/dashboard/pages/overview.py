"""Overview: how the queue stands as a whole, and how it went in the last minutes."""

from nicegui import ui

from bucketq.dashboard.charts import Line, LiveChart
from bucketq.dashboard.frame import Frame
from bucketq.dashboard.palette import BAD, BLOCKED, DONE, QUEUED, RUNNING, SCHEDULED
from bucketq.dashboard.parts import card, cards, empty
from bucketq.live.look import Look
from bucketq.live.trend import Times
from bucketq.words import spell_count, spell_rate, spell_size, spell_time


def draw_overview(frame: Frame) -> None:
    """Figures, then charts; or how to begin, while there is nothing."""
    with cards():
        queued = card("queued", kind="queued", path="/jobs?status=queued")
        running = card("running", kind="running", path="/jobs?status=in_progress")
        scheduled = card("scheduled", kind="scheduled", path="/jobs?status=scheduled")
        blocked = card("blocked", kind="blocked", path="/jobs?status=blocked")
        dead = card("dead", kind="dead", path="/dead")
        done = card("done")
        wait = card("wait")
        run = card("run")
    beginning = empty(
        "inbox",
        "Nothing has been enqueued yet",
        "Enqueue a first job; it shows here within a second.",
        f'bucketq enqueue hello \'{{"name": "world"}}\' --url {frame.house.url}',
    )
    with ui.element("div").classes("bq-charts") as charts:
        LiveChart(
            frame,
            "Jobs by status",
            [
                Line("queued", "queued", QUEUED),
                Line("running", "running", RUNNING),
                Line("scheduled", "scheduled", SCHEDULED),
                Line("blocked", "blocked", BLOCKED),
                Line("dead", "dead", BAD),
            ],
        )
        LiveChart(
            frame,
            "Throughput, jobs a second",
            [Line("enqueued_per_s", "enqueued", QUEUED), Line("completed_per_s", "completed", DONE)],
            unit="/s",
        )
        LiveChart(
            frame,
            "How long jobs waited and ran",
            [
                Line("wait_median_s", "wait, half", QUEUED),
                Line("wait_most_s", "wait, 95%", BLOCKED),
                Line("run_median_s", "run, half", RUNNING),
                Line("run_most_s", "run, 95%", SCHEDULED),
            ],
            unit="s",
        )
        LiveChart(
            frame,
            "Failures, each second",
            [
                Line("failed", "failed, tried again", BLOCKED),
                Line("died", "dead", BAD),
                Line("cancelled", "cancelled or expired", SCHEDULED),
            ],
            is_bars=True,
        )
    footnote = ui.label("").classes("bq-note")

    def show(look: Look) -> None:
        stats, trend = look.state.stats, frame.watch.trend
        queued.show(spell_count(stats.queued), f"{spell_rate(trend.enqueued_per_s)} enqueued")
        running.show(spell_count(stats.in_progress), is_loud=stats.in_progress > 0)
        scheduled.show(spell_count(stats.scheduled))
        blocked.show(spell_count(stats.blocked))
        dead.show(spell_count(stats.dead), f"{stats.dead_total:,} ever", is_loud=stats.dead > 0)
        done.show(spell_count(stats.completed_total), spell_rate(trend.completed_per_s))
        wait.show(*_spell_times(trend.waits))
        run.show(*_spell_times(trend.runs))
        is_empty = not stats.enqueued_total
        beginning.set_visibility(is_empty)
        charts.set_visibility(not is_empty)
        segments = len(look.state.backlog)
        size = f"queue.json has {spell_size(look.state.size)}"
        footnote.set_text(f"{size} and {segments:,} segments behind it, at version {look.state.version:,}.")

    frame.each_look(show)


def _spell_times(times: Times | None) -> tuple[str, str]:
    if times is None:
        return "-", ""
    return spell_time(times.median_s), f"half; 95%: {spell_time(times.most_s)}"
