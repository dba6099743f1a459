"""Schedules as values: which ticks there are, which are fired, and that each is fired once."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from bucketq import ConfigurationError, Job, PayloadError, QueueState, ScheduleNotFoundError, Settings
from bucketq.codec import decode, encode
from bucketq.job import Claim
from bucketq.mint import time_of
from bucketq.operation import Dequeue
from bucketq.schedule import PAYLOAD_BYTES_MAX, SCHEDULES_MAX, new_schedule

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
VIENNA = ZoneInfo("Europe/Vienna")
SECOND, MINUTE, HOUR, DAY = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours", "days"))


def schedule(name="s", *, now=NOW, cron=None, tz="UTC", every=None, missed="last", options=None, **fields):
    model = Job(id="", entrypoint="mail", created_at=now, **fields)
    return new_schedule(name, model, options or {}, cron=cron, tz=tz, every=every, missed=missed)


def scheduled(*, now=NOW, **fields):
    state = QueueState()
    state.put_schedule(schedule(now=now, **fields), now)
    return state


def ticks(state):
    return [job.run_at for job in state.queued_jobs()]


def fired_in(tz, cron, since, until, step=10 * MINUTE, missed="all"):
    """The ticks that are fired from one time to another, as that place's clocks show them."""
    zone = ZoneInfo(tz)
    now, until = since.astimezone(UTC), until.astimezone(UTC)
    state = scheduled(now=now, cron=cron, tz=tz, missed=missed)
    while now <= until:
        state.fire(now)
        now += step
    return [f"{tick.astimezone(zone):%d %H:%M %z}" for tick in ticks(state)]


def test_a_tick_is_fired_when_it_comes_and_not_again():
    state = scheduled(cron="30 12 * * *", payload=b"[1]", priority=4)
    state.fire(NOW + 29 * MINUTE)
    assert state.jobs == ()
    for _ in range(3):
        state.fire(NOW + 30 * MINUTE)
    [job] = state.jobs
    assert (job.entrypoint, job.payload, job.priority) == ("mail", b"[1]", 4)
    assert (job.run_at, job.created_at) == (NOW + 30 * MINUTE, NOW + 30 * MINUTE)
    [found] = state.schedules
    assert (found.last_at, found.next_at) == (NOW + 30 * MINUTE, NOW + 30 * MINUTE + DAY)
    assert state.is_conserved()


def test_whoever_fires_a_tick_makes_the_same_job():
    one, other = scheduled(every=60), scheduled(every=60)
    one.fire(NOW + MINUTE)
    other.fire(NOW + MINUTE + 20 * SECOND)
    assert one.jobs[0].id == other.jobs[0].id
    assert time_of(one.jobs[0].id) == NOW + MINUTE
    another = scheduled(name="t", every=60)
    another.fire(NOW + MINUTE)
    assert another.jobs[0].id != one.jobs[0].id


def test_a_clock_that_is_ahead_fires_early_and_one_that_goes_back_fires_nothing_twice():
    state = scheduled(every=60)
    state.fire(NOW + MINUTE)
    state.fire(NOW + 2 * MINUTE)
    for late in (2, 1, 0, 2):
        state.fire(NOW + late * MINUTE)
    assert ticks(state) == [NOW + MINUTE, NOW + 2 * MINUTE]
    # Not even if the jobs are finished, and the schedule is changed meanwhile.
    while job := state.dequeue(None, "t", NOW):
        state.ack(Claim.of(job), NOW)
    state.put_schedule(schedule(cron="* * * * *"), NOW)
    state.fire(NOW + 2 * MINUTE)
    assert ticks(state) == []
    state.fire(NOW + 3 * MINUTE)
    assert ticks(state) == [NOW + 3 * MINUTE]


def test_the_hour_that_is_left_out_in_spring_loses_no_tick():
    """In Vienna it is never half past two on 29 March 2026."""
    begin, end = datetime(2026, 3, 28, 12, tzinfo=VIENNA), datetime(2026, 3, 30, 12, tzinfo=VIENNA)
    fired = fired_in("Europe/Vienna", "30 2 * * *", begin, end)
    assert fired == ["29 03:00 +0200", "30 02:30 +0200"]
    assert len(fired_in("Europe/Vienna", "30 * * * *", begin, end)) == 47


def test_the_hour_that_comes_twice_in_autumn_brings_no_tick_twice():
    """In Vienna it is half past two twice on 25 October 2026."""
    begin, end = datetime(2026, 10, 24, 12, tzinfo=VIENNA), datetime(2026, 10, 26, 12, tzinfo=VIENNA)
    fired = fired_in("Europe/Vienna", "30 2 * * *", begin, end)
    assert fired == ["25 02:30 +0200", "26 02:30 +0100"]
    assert len(fired_in("Europe/Vienna", "30 * * * *", begin, end)) == 49


def test_a_schedule_that_is_made_in_the_second_of_two_equal_hours_waits_for_the_next_day():
    now = datetime(2026, 10, 25, 1, 10, tzinfo=UTC)
    assert f"{now.astimezone(VIENNA):%H:%M}" == "02:10"
    made = schedule(now=now, cron="30 2 * * *", tz="Europe/Vienna")
    assert made.next_at == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("missed", "late", "fired"),
    [
        ("skip", 59 * SECOND, [1]),
        ("last", 59 * SECOND, [1]),
        ("all", 59 * SECOND, [1]),
        ("skip", 61 * SECOND, []),
        ("last", 61 * SECOND, [1]),
        ("all", 61 * SECOND, [1]),
        ("skip", 2 * HOUR + 61 * SECOND, []),
        ("skip", 2 * HOUR + SECOND, [3]),
        ("last", 2 * HOUR + 61 * SECOND, [3]),
        ("all", 2 * HOUR + 61 * SECOND, [1, 2, 3]),
    ],
)
@pytest.mark.parametrize("times", [{"every": 3600}, {"cron": "0 * * * *"}], ids=["every", "cron"])
def test_of_missed_ticks_the_policy_says_which_are_made_up_for(missed, late, fired, times):
    state = scheduled(missed=missed, **times)
    state.fire(NOW + HOUR + late)
    assert ticks(state) == [NOW + number * HOUR for number in fired]
    [found] = state.schedules
    assert found.next_at == NOW + HOUR + late // HOUR * HOUR + HOUR


@pytest.mark.parametrize("times", [{"every": 60}, {"cron": "* * * * *"}], ids=["every", "cron"])
def test_very_many_missed_ticks_are_made_up_for_in_parts(times):
    state = scheduled(missed="all", **times)
    now = NOW + 2500 * MINUTE
    for expected in (1000, 2000, 2500, 2500):
        state.fire(now)
        assert ticks(state) == [NOW + number * MINUTE for number in range(1, expected + 1)]


@pytest.mark.parametrize("tz", ["UTC", "Europe/Vienna"])
@pytest.mark.parametrize("after", [DAY, 100 * DAY, 300 * DAY + 11 * HOUR, 1000 * DAY])
def test_after_a_long_absence_the_newest_tick_is_found_at_once(after, tz):
    state = scheduled(cron="*/7 3-22 * * *", tz=tz)
    state.fire(NOW + after)
    [newest] = ticks(state)
    slowly = schedule(now=newest - DAY, cron="*/7 3-22 * * *", tz=tz)
    while (following := slowly.after(slowly.next_at)) <= NOW + after:
        slowly = replace(slowly, next_at=following)
    assert newest == slowly.next_at


def test_a_schedule_whose_times_stay_keeps_its_next_tick_and_one_with_others_gets_another():
    state = scheduled(every=3600)
    state.put_schedule(schedule(every=3600, payload=b"new"), NOW + 59 * MINUTE)
    [found] = state.schedules
    assert (found.next_at, found.job.payload) == (NOW + HOUR, b"new")
    state.put_schedule(schedule(every=1800), NOW + 59 * MINUTE)
    [found] = state.schedules
    assert found.next_at == NOW + 89 * MINUTE


def test_each_job_expires_as_long_after_its_tick_as_was_asked():
    state = scheduled(every=60, missed="all", expires_at=NOW + 90 * SECOND)
    state.fire(NOW + 2 * MINUTE)
    assert [job.expires_at for job in state.jobs] == [NOW + 150 * SECOND, NOW + 210 * SECOND]


def test_an_operation_that_fails_fires_nothing():
    state = scheduled(every=60)

    def fire_and_fail(state):
        state.fire(NOW + MINUTE)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        state.apply(fire_and_fail)
    assert state.jobs == ()
    assert state.schedules.next_at == NOW + MINUTE


def test_a_full_queue_keeps_its_ticks_for_later_and_still_gives_out_jobs():
    state = scheduled(every=60, missed="all", payload=b"x" * 1000)
    state.settings = Settings(queue_bytes_max=3000, hot_bytes_max=3000)
    state.size = 0
    state.apply(lambda state: state.fire(NOW + 5 * MINUTE))
    assert ticks(state) == [NOW + MINUTE]
    assert state.schedules.next_at == NOW + 2 * MINUTE
    changes = state.changes
    state.apply(lambda state: state.fire(NOW + 5 * MINUTE))
    assert state.changes == changes
    assert not state.claimable("other", NOW + 5 * MINUTE)
    state.settings = Settings()
    state.fire(NOW + 5 * MINUTE)
    assert ticks(state) == [NOW + number * MINUTE for number in range(1, 6)]


def test_waiters_are_woken_for_ticks_of_their_entrypoint():
    state = scheduled(every=60)
    assert state.next_due() == NOW + MINUTE
    assert not state.claimable(None, NOW + 59 * SECOND)
    assert state.claimable(None, NOW + MINUTE)
    assert state.claimable("mail", NOW + MINUTE)
    assert not state.claimable("other", NOW + MINUTE)


def test_a_time_zone_that_is_unknown_here_is_left_to_others():
    state = scheduled(cron="30 12 * * *")
    state.put_schedule(schedule("other", every=60), NOW)
    content = encode(state).replace(b'"cron":"30 12 * * *"', b'"cron":"30 12 * * *","tz":"Mars/Olympus"')
    state = decode(content)
    state.fire(NOW + HOUR)
    assert [job.run_at for job in state.jobs] == [NOW + HOUR]
    assert state.schedules.get("s").next_at == NOW + 30 * MINUTE


def test_every_value_of_every_field_is_not_too_long():
    every = [
        ",".join(map(str, values)) for values in (range(60), range(24), range(1, 32), range(1, 13), range(7))
    ]
    assert schedule(cron=" ".join(every)).next_at == NOW + MINUTE


# What somebody may have written into the file, and what an older broker let pass.
ABSURD = {
    "a cron that is too long": ("cron", b'"cron":"' + b"0-59," * 200_000 + b'0 * * * *"'),
    "a time zone that is too long": ("cron", b'"cron":"30 12 * * *","tz":"' + b"x" * 200_000 + b'"'),
    "too many seconds": ("every", b'"every_s":1e308'),
    "too few seconds": ("every", b'"every_s":1e-9'),
    "no seconds": ("every", b'"missed":"all"'),
    "the year 1": ("next", b'"next_at":"0001-01-01T00:00:00Z"'),
    "a job that may begin for ever": (
        "job",
        b'"created_at":"0001-01-01T00:00:00Z","expires_at":"9999-01-01T00:00:00Z"',
    ),
}
SPELT = {
    "cron": b'"cron":"30 12 * * *"',
    "every": b'"every_s":77.0',
    "next": b'"next_at":"2026-01-01T12:01:17Z"',
    "job": b'"created_at":"2026-01-01T12:00:00Z"',
}


@pytest.mark.parametrize(("what", "absurd"), ABSURD.values(), ids=ABSURD)
def test_absurd_times_in_the_file_stop_no_other_schedule_and_no_claim(what, absurd):
    state = scheduled(cron="30 12 * * *") if what == "cron" else scheduled(every=77)
    state.put_schedule(schedule("other", every=60), NOW)
    content = encode(state)
    assert SPELT[what] in content
    state = decode(content.replace(SPELT[what], absurd, 1))
    for hours in (1, 2):
        now = NOW + hours * HOUR
        assert state.claimable(None, now)
        assert state.apply(Dequeue(None, 5, "t", now))[0].run_at == now
        assert not state.claimable(None, now)
    assert absurd in encode(state), "it stays as it is, for somebody to look at"
    state.remove_schedule("s")


def test_removing_a_schedule_leaves_its_jobs():
    state = scheduled(every=60)
    state.fire(NOW + MINUTE)
    state.remove_schedule("s")
    state.fire(NOW + HOUR)
    assert ticks(state) == [NOW + MINUTE]
    with pytest.raises(ScheduleNotFoundError, match="no schedule 's'"):
        state.remove_schedule("s")


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"cron": "* * * * *", "every": 60},
        {"every": 0.5},
        {"every": 0},
        {"every": -60},
        {"every": float("nan")},
        {"cron": "* * * *"},
        {"cron": "0 0 * * * *"},
        {"cron": "61 * * * *"},
        {"cron": "0 0 31 2 *"},
        {"cron": 5},
        {"cron": "* * * * *", "tz": "Mars/Olympus"},
        {"cron": "* * * * *", "tz": "../etc/passwd"},
        {"cron": "* * * * *", "tz": ""},
        {"cron": "* * * * *", "tz": None},
        {"cron": "0-59," * 100_000 + "0 * * * *"},
        {"cron": f"{'0' * 500} * * * *"},
        {"cron": ",".join("0" * 151) + " * * * *"},
        {"cron": "* * * * *", "tz": "x" * 101},
        {"every": 1e11},
        {"every": 60, "now": datetime(1, 1, 1, tzinfo=UTC)},
        {"every": 60, "redrive_of": "x" * 251},
        {"every": 60, "missed": "some"},
        {"every": 60, "name": ""},
        {"every": 60, "name": "x" * 251},
        {"every": 60, "name": "\ud800"},
        {"every": 60, "options": {"run_at": NOW}},
        {"every": 60, "options": {"expires_at": NOW}},
        {"every": 60, "after": ("other",)},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigurationError):
        schedule(**wrong)


def test_schedules_stay_small_and_few():
    with pytest.raises(PayloadError):
        schedule(every=60, payload=b"x" * (PAYLOAD_BYTES_MAX + 1))
    state = QueueState()
    for number in range(SCHEDULES_MAX):
        state.put_schedule(schedule(str(number), every=60), NOW)
    state.put_schedule(schedule("7", every=61), NOW)
    with pytest.raises(ConfigurationError, match="up to 1000"):
        state.put_schedule(schedule("more", every=60), NOW)
