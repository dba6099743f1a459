"""What the tables hold, without a browser."""

from datetime import timedelta

from bucketq.archive import Archive
from bucketq.dashboard.pages.jobs import Wanted
from bucketq.dashboard.rows import (
    dead_row,
    entrypoint_row,
    finished_row,
    job_row,
    limit_row,
    running_rows,
    schedule_row,
)
from bucketq.live.dead import look_at_dead
from bucketq.live.rows import entrypoint_rows
from tests.live.watched import NOON, WatchedQueue


async def test_an_entrypoint_offers_to_be_paused_or_resumed():
    async with WatchedQueue() as queue:
        await queue.enqueue("a&b")
        await queue.pause("fax")
        look = await queue.looker().look()
        mail, fax = (entrypoint_row(row, is_queue_paused=False) for row in entrypoint_rows(look))
        assert (mail["state"], mail["actions"][0], mail["path"]) == (
            "open",
            "pause",
            "/jobs?entrypoint=a%26b",
        )
        assert (fax["state"], fax["actions"][0]) == ("paused", "resume")
        mail, _ = (entrypoint_row(row, is_queue_paused=True) for row in entrypoint_rows(look))
        assert (mail["state"], mail["actions"][0]) == ("paused", "pause"), "it would still be"


async def test_limits_of_entrypoints_and_of_keys_are_spelt_alike():
    async with WatchedQueue() as queue:
        await queue.limit("mail", max_running=4, rate=10)
        await queue.limit(limit_key="customer-*", max_running=4, rate=10)
        look = await queue.looker().look()
        [mail] = (entrypoint_row(row, is_queue_paused=False) for row in entrypoint_rows(look))
        [key] = (limit_row(*one) for one in look.state.limits.limit_keys.items())
        assert (mail["limit"], key) == ("4 running, 10/s", {"id": "customer-*", "limit": "4 running, 10/s"})


async def test_dead_jobs_without_an_error_are_not_redriven_as_a_group():
    async with WatchedQueue() as queue:
        for error in ("Refused: a\nb", "\nb"):
            await queue.enqueue("mail")
            await queue.kill("mail", error)
        found = await look_at_dead(queue)
        rows = {row["error_text"]: row["actions"] for row in (dead_row(one, NOON) for one in found.groups)}
        assert rows == {"Refused: a": ["redrive", "discard"], "": []}, "an empty text fits to all"
        assert {dead_row(one, NOON)["error"] for one in found.groups} == {"Refused: a", "(no error was told)"}


async def test_running_jobs_tell_how_far_they_are_and_long_texts_are_cut():
    async with WatchedQueue() as queue:
        job = await queue.enqueue("mail", "x" * 5000)
        assert len(job_row(job, NOON)["about"]) < 400
        [claimed] = await queue.dequeue("mail", worker="web-1:7")
        await queue.heartbeat(claimed, 0.4, "4 of 10")
        await queue.enqueue("fax")  # the heartbeat rides along
        [row] = running_rows(await queue.looker().look(), "web-1:7", 10)
        assert (row["status"], row["progress"], row["note"]) == ("running", 0.4, "4 of 10")
        assert row["attempts"] == "1/3"
        assert running_rows(await queue.looker().look(), "somebody", 10) == []


async def test_finished_jobs_tell_who_ran_them_and_how_long_or_that_nobody_did():
    async with WatchedQueue() as queue:
        await queue.enqueue("mail")
        [job] = await queue.dequeue("mail", worker="web-1:7")
        queue.wait(3)
        await queue.ack(job)
        await queue.cancel(await queue.enqueue("fax"))
        queue.wait(60)
        newest = await Archive(queue.storage).newest(10)
        rows = {job.entrypoint: finished_row(job, queue.clock.now()) for job in newest}
        told = {name: (row["status"], row["span"], row["took"], row["worker"]) for name, row in rows.items()}
        assert told == {
            "mail": ("completed", "60 s ago", "3.0 s", "web-1:7"),
            "fax": ("cancelled", "60 s ago", "", ""),
        }


async def test_a_job_for_later_tells_when_and_one_that_waits_has_no_worker():
    async with WatchedQueue() as queue:
        later, soon = await queue.enqueue("mail", delay=90), await queue.enqueue("mail")
        rows = [job_row(job, NOON + timedelta(seconds=30)) for job in (later, soon)]
        assert [(row["span"], row["worker"]) for row in rows] == [("in 60 s", ""), ("30 s", "")]


async def test_a_schedule_tells_its_next_tick_and_that_there_was_none_yet():
    async with WatchedQueue() as queue:
        made = await queue.schedule("poll", "fetch", every=60)
        row = schedule_row(made, NOON + timedelta(seconds=15))
        assert (row["next"], row["last"], row["times"]) == ("in 45 s, 12:01:00Z", "not yet", "every 60 s")
        row = schedule_row(made, NOON - timedelta(days=1))
        assert row["next"] == "in 24 h, 2026-02-15 12:01:00Z"
        made = await queue.schedule("nightly", "report", cron="0 3 * * *", tz="Europe/Vienna")
        assert schedule_row(made, NOON)["times"] == "0 3 * * * Europe/Vienna"


def test_what_makes_no_sense_in_an_address_is_left_out():
    wanted = Wanted.of({"status": "wrong", "before": "²", "text": " ada ", "entrypoint": "mail"})
    assert wanted == Wanted(entrypoint="mail", text="ada")
    assert wanted.path(status="dead") == "/jobs?status=dead&entrypoint=mail&text=ada"
