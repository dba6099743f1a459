"""Control: schedules, pauses, limits, and tidying up."""

from datetime import timedelta
from typing import Any, Literal, Unpack

from bucketq.archive_upkeep import tidy
from bucketq.collect import collect
from bucketq.duration import Duration
from bucketq.limits import Limit, Limits, check_limit
from bucketq.new_job import JobOptions, check_name
from bucketq.operation.limits import Pause, ReadLimits, Resume, SetLimit
from bucketq.operation.schedules import ListSchedules, PutSchedule, RemoveSchedule
from bucketq.queue.channel import Channel
from bucketq.schedule import Schedule, new_schedule
from bucketq.storage.port import ObjectInfo


class Control(Channel):
    """What governs a queue from outside."""

    async def schedule(
        self,
        name: str,
        entrypoint: str,
        payload: Any = b"",
        priority: int = 0,
        *,
        cron: str | None = None,
        tz: str = "UTC",
        every: Duration | None = None,
        missed: Literal["skip", "last", "all"] = "last",
        **options: Unpack[JobOptions],
    ) -> Schedule:
        """Enqueue a job again and again: at the times of `cron`, or `every` so many seconds.

            await q.schedule("report", "send_report", cron="30 9 * * MON-FRI", tz="Europe/Vienna")
            await q.schedule("poll", "fetch_feed", {"feed": 7}, every=60, key="poll", expires_in=50)

        Each tick is fired once, whoever does it; `job.run_at` tells which it was. Of ticks that were
        missed, because nobody was there, none is made up for ("skip"), the newest ("last"), or "all".
        The options are those of `enqueue`; with a `key`, a tick that comes while the last job still
        waits or runs is passed over. A schedule of the same name is replaced; if its times stay what
        they were, so does its next tick.
        """
        # Each tick is a trace of its own.
        model = self._model(entrypoint, payload, priority, options)
        schedule = new_schedule(name, model, options, cron=cron, tz=tz, every=every, missed=missed)
        stored: Schedule | None = await self._submit(PutSchedule(schedule, self._clock.now()))
        return stored or schedule

    async def unschedule(self, name: str) -> None:
        """End a schedule; what it has enqueued stays. Raises ScheduleNotFoundError."""
        await self._submit(RemoveSchedule(name))

    async def schedules(self) -> list[Schedule]:
        """The schedules, with their next tick (`next_at`) and the last one that was fired (`last_at`)."""
        schedules: list[Schedule] = await self._submit(ListSchedules())
        return schedules

    async def pause(self, entrypoint: str | None = None) -> None:
        """Let no more jobs of an entrypoint begin, or of the whole queue; those that run go on.

        Jobs are still enqueued. It stays so, whoever comes and goes, until `resume`.

            await q.pause("send_email")
        """
        if entrypoint is not None:
            check_name("an entrypoint", entrypoint)
        await self._submit(Pause(entrypoint))

    async def resume(self, entrypoint: str | None = None) -> None:
        """End the pause of an entrypoint, or that of the whole queue."""
        if entrypoint is not None:
            check_name("an entrypoint", entrypoint)
        await self._submit(Resume(entrypoint))

    async def limit(
        self,
        entrypoint: str | None = None,
        *,
        limit_key: str | None = None,
        max_running: int | None = None,
        rate: float | None = None,
        burst: int | None = None,
    ) -> None:
        """Limit the jobs of an entrypoint, or those that were enqueued with a `limit_key`.

        No more than `max_running` of them run at the same time, whoever runs them, and no
        more than `rate` a second begin, `burst` of them at once (by default as many as the
        rate, at least 1). A limit key that ends with `*` limits each key that begins so. It
        replaces the limit that was there; without numbers it removes it.

            await q.limit("resize", max_running=4)
            await q.limit(limit_key="api.example.com", rate=10, burst=20)
            await q.limit(limit_key="customer-*", max_running=1)
        """
        limit = Limit(max_running=max_running, rate=rate, burst=burst)
        check_limit(entrypoint, limit_key, limit)
        await self._submit(SetLimit(entrypoint, limit_key, limit))

    async def limits(self) -> Limits:
        """What is limited, and what is paused.

        (await q.limits()).entrypoints["resize"].max_running
        """
        limits: Limits = await self._submit(ReadLimits())
        return limits

    async def collect_garbage(self, *, dry_run: bool = False) -> list[ObjectInfo]:
        """Remove objects beside the queue that nothing has referred to for `collect_after_s`.

        Such are left by crashes. Also compacts the archive and removes what it does not keep.
        An open BrokerQueue does this by itself, once an hour. Returns the objects that nothing
        referred to and were removed, or with `dry_run` would be.
        """
        if self._objects is None:
            return []
        older_than = self._clock.now() - timedelta(seconds=self.settings.collect_after_s)
        removed = await collect(self._objects, self._submit, older_than=older_than, dry_run=dry_run)
        if not dry_run:
            await tidy(self._objects, self._submit, self.settings, self._clock.now())
        return removed
