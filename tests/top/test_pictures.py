"""Pictures of `top`: what is drawn now is what was drawn before, to the last character and colour.

Look at the new ones, and keep them, if they are meant to differ:

    RENEW_PICTURES=1 .venv/bin/python -m pytest tests/top/test_pictures.py
"""

import os
import re
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from bucketq import InMemoryStorage, StorageError
from tests.live.watched import WatchedQueue
from tests.top.watched import seen, until_told, watching

HERE = Path(__file__).parent / "pictures"
DOCS = Path(__file__).parents[2] / "docs" / "pictures"
SCREEN = "#2e3440"
# The colours of the buttons and the title of the window that is drawn around a picture.
WINDOW = {"ff5f57", "febc2e", "28c840", "c5c8c6"}
TRACE = """\
Traceback (most recent call last):
  File "/app/jobs/mail.py", line 41, in send_email
    server.sendmail(SENDER, to, text)
SMTPServerDisconnected: Connection unexpectedly closed"""


class Storage(InMemoryStorage):
    """One that is elsewhere, and may be out of reach."""

    url = "s3://acme-jobs/queue.json"
    is_away = False

    async def read_if_changed(self, etag):
        if self.is_away:
            raise StorageError(f"{self.url}: connection refused. It is tried again every second.")
        return await super().read_if_changed(etag)


@asynccontextmanager
async def busy_queue(size):
    """A queue in the middle of its day, seen for a while."""
    async with WatchedQueue(Storage()) as queue:
        await queue.enqueue_many("resize", ({"image": n} for n in range(30_000)))
        await queue.enqueue_many("send_email", ({"to": f"user{n}@example.com"} for n in range(90)))
        await queue.enqueue("make_report", {"month": "2026-01"}, delay=600)
        album = await queue.enqueue("import_album", {"album": 7})
        await queue.enqueue("publish", {"album": 7}, after=[album])
        async with watching(queue, size) as pilot:
            # Only the last of it is to be seen.
            with pilot.app.batch_update():
                await work_for_a_while(queue, pilot.app)
            await pilot.press("home")
            yield queue, pilot


async def work_for_a_while(queue, top):
    """Let workers work, and look every second."""
    dice = Random(5)
    for second in range(40):
        if second == 15:
            queue.worker = "spark-7:1201"
            segment = await queue.dequeue_segment("resize")
            queue.worker = "importer-2:88"
            [album] = await queue.dequeue("import_album")
        queue.worker = "mailer-1:4711"
        jobs = await queue.dequeue("send_email", batch_size=dice.choice([1, 2, 3]))
        queue.wait(0.2 + dice.random() * 0.3)
        for job in jobs:
            await queue.ack(job)
        queue.wait(0.5)
        await queue.enqueue_many("send_email", ({"to": f"late{n}@example.com"} for n in range(second % 5)))
        await top.look()
    await queue.kill("send_email", "SMTPServerDisconnected: Connection unexpectedly closed", TRACE)
    await queue.dequeue("send_email", batch_size=2)
    await queue.heartbeat_segment(segment)
    await queue.heartbeat(album, progress=0.4, note="photo 402 of 1,005")
    await queue.pause("make_report")
    queue.wait(0.6)
    await top.look()


def compare(pilot, path):
    """Hold what is on the screen against a stored picture."""
    picture = re.sub(r"terminal-\d+", "top", pilot.app.export_screenshot(simplify=True))
    # The colour behind every word is that of the window; the font may be that of whoever looks at it.
    picture = re.sub(rf'<rect fill="{SCREEN}"[^>]*/>', "", picture).replace(
        'fill="#292929"', f'fill="{SCREEN}"'
    )
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    picture = "\n".join(line.rstrip() for line in picture.splitlines()) + "\n"
    if os.environ.get("RENEW_PICTURES"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(picture)
    assert picture == path.read_text(), f"{path.name} has changed; the docstring above says how to renew it"


async def test_a_wide_terminal():
    async with busy_queue((120, 32)) as (_, pilot):
        compare(pilot, DOCS / "top.svg")


async def test_a_small_terminal():
    async with busy_queue((80, 24)) as (_, pilot):
        compare(pilot, HERE / "small.svg")


async def test_all_about_a_job():
    async with busy_queue((100, 36)) as (_, pilot):
        await pilot.press("s", "s", "enter")
        await until_told(pilot, "Timeline")
        compare(pilot, HERE / "job.svg")


async def test_a_question():
    async with busy_queue((80, 24)) as (_, pilot):
        await pilot.press("c")
        await until_told(pilot, "Cancel job")
        compare(pilot, HERE / "question.svg")


async def test_the_help():
    async with busy_queue((80, 24)) as (_, pilot):
        await pilot.press("question_mark")
        await until_told(pilot, "Help ─")
        compare(pilot, HERE / "help.svg")


async def test_a_filter_and_what_was_done():
    async with busy_queue((80, 24)) as (_, pilot):
        await pilot.press("slash", *"late", "enter", "P", "y")
        await until_told(pilot, "PAUSED")
        compare(pilot, HERE / "filter.svg")


async def test_an_outage():
    async with busy_queue((80, 24)) as (queue, pilot):
        queue.storage.is_away = True
        await pilot.app.look()
        await until_told(pilot, "cannot be read")
        compare(pilot, HERE / "outage.svg")


async def test_no_colour(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with busy_queue((80, 24)) as (_, pilot):
        colours = set(re.findall(r"#([0-9a-f]{6})", pilot.app.export_screenshot()))
        assert {one for one in colours if not one[:2] == one[2:4] == one[4:]} <= WINDOW
        assert "paused: make_rep" in seen(pilot)


@pytest.mark.parametrize("path", sorted([*HERE.glob("*.svg"), DOCS / "top.svg"]), ids=lambda path: path.name)
def test_pictures_stand_alone(path):
    addresses = set(re.findall(r'https?://[^"\s)]+', path.read_text()))
    assert addresses <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
