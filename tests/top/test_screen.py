"""Each key does what it says, to a real queue."""

import re
from pathlib import Path

import pytest

from bucketq import InMemoryStorage, StorageError
from bucketq.errors import ConfigurationError
from bucketq.top.screen import Top
from tests.live.watched import WatchedQueue
from tests.top.watched import seen, until_seen, until_told, watching

GUIDE = Path(__file__).parents[2] / "docs" / "top.md"


@pytest.fixture
async def queue():
    async with WatchedQueue() as queue:
        yield queue


async def test_it_looks_again_by_itself(queue):
    async with watching(queue, every_s=0.1) as pilot:
        assert "queued 0" in seen(pilot)
        await queue.enqueue("mail")
        await until_told(pilot, "queued 1 ")


async def test_it_shows_what_happens(queue):
    async with watching(queue) as pilot:
        await queue.enqueue_many("resize", range(1234))
        await until_seen(pilot, "queued 1,234")
        queue.worker = "web-1:4711"
        [job] = await queue.dequeue("resize")
        await queue.heartbeat(job, progress=0.4, note="page 4 of 10")
        await queue.enqueue("mail")
        await until_seen(pilot, "web-1:4711 · page")
        assert "40%" in seen(pilot)
        await queue.ack(job)
        await until_seen(pilot, "done 1 ")


async def test_r_redrives_a_dead_job(queue):
    await queue.enqueue("mail", {"to": "ann"})
    dead = await queue.kill("mail")
    async with watching(queue) as pilot:
        await until_seen(pilot, "ConnectionError")
        await pilot.press("r")
        await until_seen(pilot, f"Retry job {dead.id}")
        await pilot.press("y")
        await until_seen(pilot, "is done again, as")
        [again] = (await queue.read_state()).queued_jobs()
        assert (again.redrive_of, again.json()) == (dead.id, {"to": "ann"})
        assert (await queue.stats()).dead == 0
        await until_seen(pilot, "queued 1 ")


async def test_an_r_that_is_held_down_redrives_nothing_by_itself(queue):
    for _ in range(2):
        await queue.enqueue("mail")
        await queue.kill("mail")
    async with watching(queue) as pilot:
        await until_seen(pilot, "ConnectionError")
        await pilot.press("r", "r", "r", "y", "r", "r")
        await until_seen(pilot, "is done again, as")
        await pilot.press("r", "r")
        await until_seen(pilot, "Retry job")
        assert (await queue.stats()).dead == 1


async def test_r_leaves_a_job_that_is_not_dead(queue):
    await queue.enqueue("mail")
    async with watching(queue) as pilot:
        await until_seen(pilot, "queued 1 ")
        await pilot.press("r")
        await until_seen(pilot, "is queued: only dead jobs are retried")
    assert (await queue.stats()).enqueued_total == 1


async def test_c_cancels_after_a_yes(queue):
    await queue.enqueue("mail")
    async with watching(queue) as pilot:
        await until_seen(pilot, "queued 1 ")
        await pilot.press("c")
        await until_seen(pilot, "Cancel job")
        await pilot.press("y")
        await until_seen(pilot, "is cancelled")
    assert (await queue.stats()).cancelled_total == 1


@pytest.mark.parametrize("key", ["n", "escape", "enter", "q"])
async def test_anything_else_is_a_no(queue, key):
    await queue.enqueue("mail")
    async with watching(queue) as pilot:
        await until_seen(pilot, "queued 1 ")
        await pilot.press("c")
        await until_seen(pilot, "Cancel job")
        await pilot.press(key)
        await until_seen(pilot, "Cancel job", is_there=False)
    assert (await queue.stats()).cancelled_total == 0


async def test_c_tells_the_worker_of_a_job_that_runs(queue):
    await queue.enqueue("mail")
    [job] = await queue.dequeue()
    async with watching(queue) as pilot:
        await until_seen(pilot, "running 1 ")
        await pilot.press("c", "y")
        await until_seen(pilot, "cancelling")
    assert (await queue.find(job)).is_cancelled


async def test_p_pauses_the_entrypoint_of_the_job_and_lets_it_go_on(queue):
    await queue.enqueue("mail")
    async with watching(queue) as pilot:
        await until_seen(pilot, "queued 1 ")
        await pilot.press("p", "y")
        await until_seen(pilot, "paused: mail")
        assert (await queue.limits()).paused == ("mail",)
        await pilot.press("p")
        await until_seen(pilot, "mail goes on")
        assert (await queue.limits()).paused == ()


async def test_p_pauses_the_entrypoint_that_was_chosen_among_them(queue):
    await queue.enqueue("mail")
    await queue.enqueue("resize")
    async with watching(queue) as pilot:
        await until_seen(pilot, "queued 2 ")
        await pilot.press("shift+tab", "shift+tab", "down", "p", "y")
        await until_seen(pilot, "paused: resize")
    assert (await queue.limits()).paused == ("resize",)


async def test_capital_p_pauses_the_whole_queue_and_lets_it_go_on(queue):
    await queue.enqueue("mail")
    async with watching(queue) as pilot:
        await pilot.press("P", "y")
        await until_seen(pilot, "PAUSED")
        assert (await queue.limits()).is_paused
        await pilot.press("P")
        await until_seen(pilot, "The queue goes on")
        assert not (await queue.limits()).is_paused


async def test_a_text_that_is_typed_filters_at_once_and_escape_shows_all(queue):
    await queue.enqueue("mail", {"to": "ann"})
    await queue.enqueue("mail", {"to": "quintus"})
    async with watching(queue) as pilot:
        await until_seen(pilot, "2 of 2")
        await pilot.press("slash", *"qui")
        await until_seen(pilot, "with 'qui' · 1 of 2")
        await pilot.press("enter")
        await until_seen(pilot, "ann", is_there=False)
        assert "quintus" in seen(pilot)
        await pilot.press("escape")
        await until_seen(pilot, "2 of 2")


async def test_s_shows_one_status_after_the_other(queue):
    for name in ("waits", "died", "runs"):
        await queue.enqueue(name)
    await queue.kill("died")
    await queue.dequeue("runs")
    async with watching(queue) as pilot:
        await until_seen(pilot, "3 of 3")
        for status, number in (("in_progress", 1), ("dead", 1), ("queued", 1), ("scheduled", 0)):
            await pilot.press("s")
            await until_seen(pilot, f"Jobs · {status} · {number} of 3")
        await pilot.press("s", "s")
        await until_seen(pilot, "Jobs · 3 of 3")


async def test_enter_on_an_entrypoint_or_a_worker_shows_its_jobs(queue):
    await queue.enqueue("mail")
    await queue.enqueue("resize", {"why": "mail"})
    queue.worker = "web-1:4711"
    await queue.dequeue("resize")
    async with watching(queue) as pilot:
        await until_seen(pilot, "2 of 2")
        await pilot.press("shift+tab", "shift+tab", "enter")
        await until_seen(pilot, "of mail · 1 of 2")
        await pilot.press("shift+tab", "enter")
        await until_seen(pilot, "by web-1:4711 · 1 of 2")


async def test_enter_shows_all_about_a_job(queue):
    await queue.enqueue("mail", {"to": "ann"}, key="order-17")
    job = await queue.kill("mail", trace='File "mail.py", line 7\nConnectionError: refused')
    async with watching(queue, size=(100, 40)) as pilot:
        await until_seen(pilot, "dead 1 ")
        await pilot.press("enter")
        await until_seen(pilot, f"Job {job.id}")
        for text in ("order-17", "2026-02-15 12:00:00  enqueued", "mail.py", '"to": "ann"'):
            assert text in seen(pilot)
        await pilot.press("escape")
        await until_seen(pilot, "order-17", is_there=False)


async def test_a_large_payload_is_fetched_when_it_is_to_be_seen(queue):
    await queue.enqueue("mail", {"text": "begins-here " * 9_000})
    async with watching(queue) as pilot:
        await until_seen(pilot, "queued 1 ")
        await pilot.press("enter")
        await until_seen(pilot, "Payload, 108 kB")
        assert "begins-here" in seen(pilot)


async def test_a_payload_that_is_no_json_is_shown_as_it_is(queue):
    await queue.enqueue("mail", b"begins-here" + b"[" * 20_000)
    await queue.enqueue("deep", b"[" * 20_000 + b"]" * 20_000, priority=1)
    async with watching(queue) as pilot:
        await pilot.press("enter")
        await until_seen(pilot, "begins-here[[[")
        await pilot.press("escape", "down", "enter")
        await until_seen(pilot, "Payload, 40 kB")
        assert "[[[" in seen(pilot)


async def test_what_a_terminal_would_obey_is_shown_not_sent(queue):
    await queue.enqueue("mail\x1b]0;owned\x07")
    job = await queue.kill("mail\x1b]0;owned\x07", error="bell \x07 and \x1b[2J")
    async with watching(queue) as pilot:
        await until_seen(pilot, r"bell \x07 and")
        await pilot.press("enter")
        await until_seen(pilot, job.id)
        assert r"bell \x07 and \x1b[2J" in seen(pilot)
        assert not {"\x1b", "\x07"} & set(seen(pilot))


async def test_the_cursor_stays_on_its_job(queue):
    jobs = [await queue.enqueue("mail", {"n": n}) for n in range(5)]
    async with watching(queue) as pilot:
        await until_seen(pilot, "queued 5 ")
        await pilot.press("down", "down", "down")
        await queue.dequeue(batch_size=2)
        await until_seen(pilot, "running 2 ")
        await queue.ack(jobs[0].id)
        await until_seen(pilot, "running 1 ")
        await pilot.press("c", "y")
        await until_seen(pilot, "is cancelled")
    assert {job.id for job in (await queue.read_state()).jobs} == {jobs[n].id for n in (1, 2, 4)}


async def test_a_job_that_is_gone_meanwhile_is_told(queue):
    await queue.enqueue("mail")
    async with watching(queue) as pilot:
        await until_seen(pilot, "queued 1 ")
        [job] = await queue.dequeue()
        await queue.ack(job)
        await pilot.press("c", "y")
        await until_told(pilot, "is not in the queue")
        await pilot.app.look()
        assert "is not in the queue" in seen(pilot)


async def test_an_outage_is_told_and_it_goes_on_afterwards():
    class Weather(InMemoryStorage):
        is_bad = False

        async def read_if_changed(self, etag):
            if self.is_bad:
                raise StorageError("connection refused by the weather")
            return await super().read_if_changed(etag)

    storage = Weather()
    async with WatchedQueue(storage) as queue, watching(queue) as pilot:
        await queue.enqueue("mail")
        await until_seen(pilot, "queued 1 ")
        storage.is_bad = True
        await until_seen(pilot, "refused by the weather")
        assert "queued 1 " in seen(pilot)
        storage.is_bad = False
        await queue.enqueue("mail")
        await until_seen(pilot, "queued 2 ")
        assert "weather" not in seen(pilot)


async def test_help_and_guide_tell_every_key_of_the_last_line(queue):
    async with watching(queue) as pilot:
        bindings = [one.binding for one in pilot.app.active_bindings.values() if one.binding.show]
        keys = {pilot.app.get_key_display(binding) for binding in bindings} - {"⏎"} | {"enter"}
        await pilot.press("question_mark")
        await until_told(pilot, "Help ─")
        told = [line.split("│")[1].split()[:1] for line in seen(pilot).splitlines() if line.count("│") == 2]
        assert keys - {"?"} <= {key for [key] in filter(None, told)}
        assert keys <= set(re.findall(r"^\| `(\S+)` \|", GUIDE.read_text(), re.MULTILINE))


@pytest.mark.parametrize("keys", [("q",), ("ctrl+c",), ("question_mark", "ctrl+c")], ids=repr)
async def test_q_quits_and_the_queue_stays(queue, keys):
    await queue.enqueue("mail")
    top = Top(queue, clock=queue.looks_by)
    async with top.run_test() as pilot:
        await pilot.press(*keys)
    assert top.return_code == 0
    assert (await queue.stats()).queued == 1


async def test_the_terminal_may_be_tiny_and_change(queue):
    await queue.enqueue("mail")
    await queue.kill("mail")
    async with watching(queue) as pilot:
        for size in ((30, 10), (1, 1), (200, 60)):
            await pilot.resize_terminal(*size)
            await pilot.app.look()
        await until_seen(pilot, "ConnectionError")


async def test_it_looks_every_so_many_seconds_more_than_none(queue):
    with pytest.raises(ConfigurationError, match="more than 0"):
        Top(queue, every_s=0)


async def test_no_more_than_a_hundred_jobs_are_drawn(queue):
    for n in range(300):
        await queue.enqueue("mail", n)
    async with watching(queue) as pilot:
        await until_seen(pilot, "100 of 300")


async def test_brackets_are_not_taken_for_styles(queue):
    await queue.enqueue("mail", {"n": "[red]x[/]"})
    async with watching(queue) as pilot:
        await pilot.press("slash", *"[red]x[/]", "enter")
        await until_seen(pilot, "with '[red]x[/]' · 1 of 1")
