"""Schedule: a job that is enqueued again and again, by the clock.

A tick is a time at which it is. Each is fired once, whoever does it: the commit that enqueues the
job also moves the schedule on, and the job's id is made of the schedule's name and the tick.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError
from msgspec import Raw
from msgspec.structs import replace

from bucketq.duration import LONGEST_S, Duration, seconds_of
from bucketq.errors import BucketQError, ConfigurationError, PayloadError, QueueFullError
from bucketq.job import Job, JobStatus, Moment, Seconds
from bucketq.jobline import StoredJob, encode_job, line_bytes
from bucketq.new_job import JobOptions, check_name, check_new_job
from bucketq.wanted import Wanted, is_wanted

log = logging.getLogger("bucketq")

# They are written with every commit.
SCHEDULES_MAX = 1000
PAYLOAD_BYTES_MAX = 64 * 1024
EVERY_MIN_S = 1.0
# A list of every value of every field is shorter. An expression is parsed at each tick.
CRON_MAX = 500
CRON_PARTS_MAX = 150
TZ_MAX = 100
# A tick that is found later than this was missed.
_GRACE = timedelta(seconds=60)
# A clock further ahead than this is not believed: making the schedule again sets it right.
_AHEAD_MAX = timedelta(days=1)
# So many missed ticks are made up for at once; the others follow.
_AT_ONCE = 1000
# No change of a time zone's clocks is larger.
_CLOCK_CHANGE_MAX = timedelta(hours=3)
_SECOND = timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What cronsim and zoneinfo say of what they do not know.
_UNKNOWN = (CronSimError, ValueError, LookupError, OSError)
# What makes no sense for a job that comes again and again.
_ONCE_ONLY = ("run_at", "delay", "expires_at", "after", "if_dead", "if_exists", "traceparent", "tracestate")
# A line of queue.json that somebody wrote may say more of a job; a batch would take it for one of its own.
_OF_MODEL = (
    *("id", "entrypoint", "payload", "priority", "created_at", "max_attempts", "max_crashes", "expires_at"),
    *("timeout_s", "key", "key_for_s", "tenant", "limit_key", "if_dead", "traceparent", "tracestate"),
)


class Missed(StrEnum):
    """What becomes of ticks that nobody was there to fire."""

    SKIP = "skip"
    LAST = "last"
    ALL = "all"


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """When, and what: `job` is the model of the jobs that the ticks enqueue.

    `next_at` is the next tick, None if there is none any more; `last_at` the last one that was fired.
    """

    name: str
    cron: str | None = None
    tz: str = "UTC"
    every_s: Seconds = 0.0
    missed: Missed = Missed.LAST
    next_at: Moment | None = None
    last_at: Moment | None = None
    job: Job

    @property
    def is_of_handler(self) -> bool:
        """Whether it is what `cron=` or `every=` of a handler asks for: named like it, without arguments."""
        return self.name == self.job.entrypoint and self.job.payload in (b"", b"{}")

    @property
    def is_known_here(self) -> bool:
        """Whether this process can tell its times.

        It may lack the time zone, or the file may have been edited by hand. Such a schedule stays as it is.
        """
        if self.next_at is not None and self.next_at < _EPOCH:
            return False
        # Cut, so that the cache holds nothing long. A cut one is still too long.
        cron = self.cron and self.cron[: CRON_MAX + 1]
        return _is_known(cron, self.tz[: TZ_MAX + 1], self.every_s, self._lasts_s)

    @property
    def _lasts_s(self) -> float:
        """For how long after its tick a job may begin; 0 is for ever."""
        expires_at = self.job.expires_at
        return 0.0 if expires_at is None else (expires_at - self.job.created_at).total_seconds()

    def after(self, moment: datetime) -> datetime | None:
        """The first tick after a time, if this one's ticks are counted from there."""
        if self.cron is None:
            return moment + timedelta(seconds=self.every_s)
        return next(_cron_ticks(self.cron, self.tz, moment), None)

    def due(self, now: datetime) -> tuple[list[datetime], datetime | None]:
        """The ticks to be fired now, some hundreds at most, and the one that is next then.

        Of missed ones the policy says which.
        """
        if self.next_at is None or self.next_at > now:
            return [], self.next_at
        if self.missed is Missed.ALL:
            ticks = self._ticks(self.next_at)
            fired = list(islice(_until(ticks, now), _AT_ONCE))
            return fired, self.after(fired[-1])
        newest = self._newest(self.next_at, now)
        is_late = now - newest > _GRACE
        return [] if is_late and self.missed is Missed.SKIP else [newest], self.after(newest)

    def job_of(self, tick: datetime, now: datetime) -> Job:
        """The job of a tick, the same whoever makes it."""
        model = _model(self.job)
        expires_at = model.expires_at and tick + (model.expires_at - model.created_at)
        return replace(
            model,
            id=_tick_id(self.name, tick),
            created_at=now,
            run_at=tick,
            expires_at=expires_at,
            status=JobStatus.QUEUED,
        )

    def has_times_of(self, other: "Schedule") -> bool:
        """Whether both tick at the same times."""
        return (self.cron, self.tz, self.every_s) == (other.cron, other.tz, other.every_s)

    def _ticks(self, first: datetime) -> Iterator[datetime]:
        yield first
        if self.cron is not None:
            yield from _cron_ticks(self.cron, self.tz, first)
            return
        step = timedelta(seconds=self.every_s)
        while True:
            first += step
            yield first

    def _newest(self, first: datetime, now: datetime) -> datetime:
        if self.cron is None:
            step = timedelta(seconds=self.every_s)
            return first + (now - first) // step * step
        following = self.after(first)
        if following is None or following > now:
            return first
        # Backwards from now, it may be off by a change of the clocks; so forwards from before that.
        about = next(CronSim(self.cron, _local(now + _SECOND, self.tz), reverse=True), first)
        near = _cron_ticks(self.cron, self.tz, max(first, about.astimezone(UTC) - _CLOCK_CHANGE_MAX))
        return max(_until(near, now), default=following)


class StoredSchedule(Schedule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule as its line in queue.json spells it."""

    job: StoredJob

    def schedule(self) -> Schedule:
        """The schedule that the line stands for."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return Schedule(**fields | {"job": self.job.job()})


def encode_schedule(schedule: Schedule) -> bytes:
    """The line of a schedule."""
    return msgspec.json.encode(replace(schedule, job=Raw(encode_job(schedule.job))))


class Schedules:
    """The schedules of a queue. A value: a change makes a new one."""

    def __init__(self, schedules: Iterable[Schedule] = ()) -> None:
        self._by_name: Mapping[str, Schedule] = {schedule.name: schedule for schedule in schedules}
        # When the next tick of any of them comes, that this process can tell.
        self.next_at = min(
            (one.next_at for one in self if one.next_at is not None and one.is_known_here), default=None
        )

    def __iter__(self) -> Iterator[Schedule]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Schedule | None:
        """The schedule of this name, or None."""
        return self._by_name.get(name)

    def put(self, schedule: Schedule, now: datetime) -> "Schedules":
        """These, and this one in the place of any other of its name. Raises ConfigurationError.

        One whose times are what they were goes on as before.
        """
        known = self.get(schedule.name)
        if known is None and len(self) >= SCHEDULES_MAX:
            raise ConfigurationError(f"a queue has up to {SCHEDULES_MAX} schedules; unschedule some first")
        last_at = known.last_at if known else None
        if last_at is not None and last_at - now > _AHEAD_MAX:
            # A clock that was far ahead has fired it, and nothing would come until then.
            known, last_at = None, None
        if known is not None and known.has_times_of(schedule):
            next_at = known.next_at
        else:
            # Another clock may have fired a tick that is still to come on this one.
            next_at = schedule.after(now if last_at is None else max(now, last_at))
        schedule = replace(schedule, next_at=next_at, last_at=last_at)
        return Schedules({**self._by_name, schedule.name: schedule}.values())

    def without(self, name: str) -> "Schedules":
        """All but the one of this name."""
        return Schedules(schedule for schedule in self if schedule.name != name)

    def is_due(self, now: datetime) -> bool:
        """Whether there is a tick to be fired."""
        return self.next_at is not None and self.next_at <= now

    def wakes(self, wanted: Wanted, now: datetime, room_bytes: int) -> bool:
        """Whether a tick has come that brings a job that is wanted.

        Not if its job has no room: whoever came for it would come again and again, in vain.
        """
        return self.is_due(now) and any(
            one.next_at is not None
            and one.next_at <= now
            and is_wanted(one.job.entrypoint, wanted)
            and line_bytes(one.job) <= room_bytes
            and one.is_known_here
            for one in self
        )

    def fired(self, now: datetime, enqueue: Callable[[Job], object]) -> "Schedules":
        """Enqueue the jobs of the ticks that have come; return the schedules as they are then.

        A job that is refused, because its key is taken, is passed over. If the queue is full, the
        ticks wait.
        """
        schedules = dict(self._by_name)
        for name, schedule in schedules.items():
            if not schedule.is_known_here:
                continue
            ticks, next_at = schedule.due(now)
            if next_at == schedule.next_at:
                continue
            last_at = schedule.last_at
            for tick in ticks:
                try:
                    _enqueue_or_pass(schedule.job_of(tick, now), enqueue)
                except QueueFullError:
                    next_at = tick
                    break
                last_at = tick
            schedules[name] = replace(schedule, next_at=next_at, last_at=last_at)
        return self if schedules == self._by_name else Schedules(schedules.values())


def new_schedule(
    name: str,
    job: Job,
    options: JobOptions,
    *,
    cron: str | None,
    tz: str,
    every: Duration | None,
    missed: str,
) -> Schedule:
    """A schedule as a caller wants it. Raises ConfigurationError and PayloadError."""
    if wrong := [option for option in _ONCE_ONLY if option in options]:
        raise ConfigurationError(f"a schedule says when its jobs run; it takes no {', '.join(wrong)}")
    every_s = 0.0 if every is None else seconds_of(every, "every")
    if (cron is None) == (every is None):
        raise ConfigurationError("a schedule has either cron or every")
    if missed not in list(Missed):
        raise ConfigurationError(f"missed is 'skip', 'last' or 'all', not {missed!r}")
    # As a model it has no id of its own.
    job = replace(job, id=name)
    schedule = Schedule(name=name, cron=cron, tz=tz, every_s=every_s, missed=Missed(missed), job=job)
    check_schedule(schedule)
    return replace(schedule, next_at=schedule.after(job.created_at))


def check_schedule(schedule: Schedule) -> None:
    """Raise ConfigurationError, or PayloadError, for what cannot be a schedule."""
    name, job = schedule.name, schedule.job
    check_name("a schedule's name", name)
    check_name("a job's id", job.id)
    check_new_job(job)
    if job.run_at is not None or job.after:
        raise ConfigurationError("a schedule says when its jobs run; it takes no run_at and no after")
    if job != replace(_model(job), payload_object=job.payload_object, payload_size=job.payload_size):
        raise ConfigurationError(f"the job of schedule {name!r} must be a new one, of no batch")
    if job.payload_object is not None or len(job.payload) > PAYLOAD_BYTES_MAX:
        raise PayloadError(
            f"the payload of schedule {name!r} is too large: the limit is {PAYLOAD_BYTES_MAX} bytes."
            " Store it elsewhere and give a reference to it."
        )
    if schedule.cron is not None and schedule.every_s:
        raise ConfigurationError("a schedule has either cron or every")
    try:
        _check_times(schedule.cron, schedule.tz, schedule.every_s, schedule._lasts_s)
    except (*_UNKNOWN, TypeError, AttributeError) as error:
        when = f"every {schedule.every_s!r} s"
        if schedule.cron is not None:
            when = f"cron {schedule.cron!r:.{CRON_MAX}} with tz {schedule.tz!r:.{TZ_MAX}}"
        raise ConfigurationError(
            f'{when} is no schedule: {error}. Cron has five fields, such as "30 9 * * MON-FRI", and a time'
            ' zone such as "Europe/Vienna".'
        ) from error
    if schedule.after(job.created_at) is None:
        raise ConfigurationError(f"cron {schedule.cron!r} never comes")


def _model(job: Job) -> Job:
    """A job with nothing but what those set that make a schedule."""
    return Job(**{name: getattr(job, name) for name in _OF_MODEL})


def _enqueue_or_pass(job: Job, enqueue: Callable[[Job], object]) -> None:
    try:
        enqueue(job)
    except QueueFullError:
        raise
    except BucketQError as error:
        log.info("a tick of %s is passed over: %s", job.entrypoint, error)


def _until(ticks: Iterator[datetime], now: datetime) -> Iterator[datetime]:
    for tick in ticks:
        if tick > now:
            return
        yield tick


def _cron_ticks(cron: str, tz: str, after: datetime) -> Iterator[datetime]:
    for local in CronSim(cron, _local(after, tz)):
        tick = local.astimezone(UTC)
        # In the hour that comes twice, the search begins at its first time.
        if tick > after:
            yield tick


def _local(moment: datetime, tz: str) -> datetime:
    # cronsim knows its own UTC by identity.
    return moment.astimezone(UTC if tz == "UTC" else ZoneInfo(tz))


@lru_cache(1024)
def _is_known(cron: str | None, tz: str, every_s: float, lasts_s: float) -> bool:
    try:
        _check_times(cron, tz, every_s, lasts_s)
    except _UNKNOWN as error:
        log.warning("schedules at %r in %r are left to other processes: %s", cron, tz, error)
        return False
    return True


def _check_times(cron: str | None, tz: str, every_s: float, lasts_s: float) -> None:
    """Raise ValueError, or what cronsim and zoneinfo raise, for times that cannot be counted with."""
    if not abs(lasts_s) < LONGEST_S:
        raise ValueError(f"its jobs may begin for up to {LONGEST_S:g} s, not {lasts_s!r}")
    if cron is None:
        if not EVERY_MIN_S <= every_s < LONGEST_S:
            raise ValueError(f"every is from {EVERY_MIN_S:g} to {LONGEST_S:g} s, not {every_s!r}")
        return
    if len(cron) > CRON_MAX or cron.count(",") >= CRON_PARTS_MAX or len(tz) > TZ_MAX:
        raise ValueError(
            f"cron has up to {CRON_MAX} characters and {CRON_PARTS_MAX} parts between commas, and tz up to"
            f" {TZ_MAX} characters, not {len(cron)}, {cron.count(',') + 1} and {len(tz)}"
        )
    if len(cron.split()) != 5:
        raise ValueError("cron has five fields")
    CronSim(cron, _local(_EPOCH, tz))


def _tick_id(name: str, tick: datetime) -> str:
    """A UUIDv7 of the tick's time, its random part a hash."""
    tick_us = (tick - _EPOCH) // _MICROSECOND
    digest = int.from_bytes(blake2b(b"%d %b" % (tick_us, name.encode()), digest_size=10).digest())
    fixed = tick_us // 1000 << 80 | 0x7 << 76 | 0x2 << 62
    digits = f"{fixed | (digest >> 62 & 0xFFF) << 64 | digest & (1 << 62) - 1:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
