"""Schedules: jobs that come again and again."""

from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from bucketq.errors import ConfigurationError, PayloadError, ScheduleNotFoundError
from bucketq.testing.contract.suite import QueueSuite, raises


class Schedules(QueueSuite):
    """Jobs that come again and again."""

    async def test_a_schedule_enqueues_a_job_at_each_of_its_times(self) -> None:
        async with self.open() as q:
            made = await q.schedule(
                "beat", "mail", {"n": 1}, -1, every=1, missed="all", timeout=60, key="beat"
            )
            assert await q.schedules() == [made]
            assert made.next_at is not None
            [job] = await q.dequeue("mail", wait=20)
            assert (job.json(), job.priority, job.timeout_s, job.key) == ({"n": 1}, -1, 60.0, "beat")
            assert job.run_at == made.next_at
            [found] = await q.schedules()
            assert found.last_at is not None
            assert found.next_at is not None
            assert found.next_at > found.last_at >= job.run_at
            await q.ack(job)

    async def test_schedules_are_replaced_listed_and_removed(self) -> None:
        async with self.open() as q:
            assert await q.schedules() == []
            cron: Any = {"cron": "30 9 * * MON-FRI", "tz": "Europe/Vienna"}
            report = await q.schedule("report", "mail", b"\x00", **cron, max_attempts=7, expires_in=60)
            poll = await q.schedule("poll", "feed", every=timedelta(hours=1))
            assert {one.name: one for one in await q.schedules()} == {"report": report, "poll": poll}
            assert (report.cron, report.tz, report.every_s) == ("30 9 * * MON-FRI", "Europe/Vienna", 0.0)
            assert (report.job.payload, report.job.max_attempts) == (b"\x00", 7)
            assert (poll.cron, poll.every_s, poll.missed) == (None, 3600.0, "last")
            again = await q.schedule("poll", "feed", b"other", every=3600, missed="skip")
            assert (again.next_at, again.job.payload, again.missed) == (poll.next_at, b"other", "skip")
            sooner = await q.schedule("poll", "feed", every=60)
            assert sooner.next_at is not None
            assert poll.next_at is not None
            assert sooner.next_at < poll.next_at
            await q.unschedule("poll")
            assert await q.schedules() == [report]
            with raises(ScheduleNotFoundError):
                await q.unschedule("poll")
            state = await q.read_state()
            assert (list(state.schedules), state.stats.enqueued_total) == ([report], 0)

    async def test_schedules_that_make_no_sense_are_refused(self) -> None:
        async with self.open() as q:
            anything: Any = {"cron": "sometimes", "tz": "Mars/Olympus", "every": 0.5, "missed": "some"}
            wrong_calls: list[Coroutine[Any, Any, Any]] = [
                q.schedule("s", "mail"),
                q.schedule("", "mail", every=60),
                q.schedule("s", "", every=60),
                q.schedule("s", "mail", every=60, cron="* * * * *"),
                q.schedule("s", "mail", every=60, delay=5),
                q.schedule("s", "mail", cron=anything["cron"]),
                q.schedule("s", "mail", cron="* * * * *", tz=anything["tz"]),
                q.schedule("s", "mail", every=anything["every"]),
                q.schedule("s", "mail", every=60, missed=anything["missed"]),
            ]
            for wrong_call in wrong_calls:
                with raises(ConfigurationError):
                    await wrong_call
            with raises(PayloadError):
                await q.schedule("s", "mail", b"x" * 70_000, every=60)
            assert await q.schedules() == []
