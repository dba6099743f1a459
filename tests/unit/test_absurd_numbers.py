"""Numbers of a queue.json that nobody can count with: a clear error, or a queue that works all the same."""

from datetime import UTC, datetime, timedelta

import pytest

from bucketq import CorruptStateError, QueueState, Settings
from bucketq.codec import decode, encode
from bucketq.glance import Glance
from bucketq.job import Claim, Job
from bucketq.limits import Limit, Limits
from bucketq.operation import Dequeue
from tests.unit.states import filled

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
HUGE = b"1" + 30 * b"0"
JOB = b'"id":"a","entrypoint":"mail"'
HEADER = b'"enqueued_total":1'
# Where, and what: the error names the field.
WRONG = {
    "version": (b'"version":1', b'"version":1000000000000'),
    "sequence": (b'"sequence":1', b'"sequence":' + HUGE),
    "collected_version": (HEADER, HEADER + b',"collected_version":' + HUGE),
    "epoch": (HEADER, HEADER + b',"epoch":' + HUGE),
    "writers": (HEADER, HEADER + b',"writers":{"w":[' + HUGE + b",1]}"),
    "sessions": (HEADER, HEADER + b',"sessions":{"s":[' + HUGE + b",1,1]}"),
    "loads": (HEADER, HEADER + b',"loads":{"l":[' + HUGE + b"]}"),
    "batches": (HEADER, HEADER + b',"batches":{"b":{"total":1,"left":' + HUGE + b"}}"),
    "max_running": (HEADER, HEADER + b',"limits":{"entrypoints":{"mail":{"max_running":' + HUGE + b"}}}"),
    "burst": (HEADER, HEADER + b',"limits":{"entrypoints":{"mail":{"rate":1,"burst":' + HUGE + b"}}}"),
    "turns": (HEADER, HEADER + b',"turns":{"mail":{"0":[' + HUGE + b",{}]}}"),
    "priority": (JOB, JOB + b',"priority":-' + HUGE),
    "attempts": (JOB, JOB + b',"attempts":' + HUGE),
    "crashes": (JOB, JOB + b',"crashes":' + HUGE),
    "max_attempts": (JOB, JOB + b',"max_attempts":' + HUGE),
    "turn": (JOB, JOB + b',"turn":' + HUGE),
    "timeout_s": (JOB, JOB + b',"timeout_s":1e999'),
}
HARMLESS = {
    "timeout_s": (JOB, JOB + b',"timeout_s":1e308'),
    "key_for_s": (JOB, JOB + b',"key":"k","key_for_s":1e308'),
    "payload_size": (JOB, JOB + b',"payload_size":18446744073709551615'),
    "progress": (JOB, JOB + b',"progress":-1e308'),
    "redrive_of": (JOB, JOB + b',"redrive_of":"' + b"x" * 100_000 + b'"'),
    "run_at": (JOB, JOB + b',"run_at":"9999-12-31T23:59:59.999999Z"'),
    "created_at": (b'"created_at":"2026-01-01T00:00:00Z"', b'"created_at":"9999-12-31T23:59:59.999999Z"'),
    "rate": (HEADER, HEADER + b',"limits":{"entrypoints":{"mail":{"rate":1e-300}}}'),
    "tokens": (
        HEADER,
        HEADER
        + b',"limits":{"entrypoints":{"other":{"rate":1}},"limit_keys":{"*":{"rate":1}}}'
        + b',"buckets":{"entrypoints":{"other":[-1e308,"2026-01-01T00:00:00Z"]},'
        + b'"limit_keys":{"x":[1e308,"9999-12-31T23:59:59.999999Z"]}}',
    ),
}


def edited(at, change):
    content = encode(written())
    assert at in content
    return content.replace(at, change, 1)


def written():
    state = filled(Job(id="a", entrypoint="mail", created_at=datetime(2026, 1, 1, tzinfo=UTC)))
    state.version = 1
    return state


@pytest.mark.parametrize(("at", "change"), WRONG.values(), ids=WRONG)
def test_a_number_beyond_all_bounds_is_named(at, change):
    with pytest.raises(CorruptStateError, match=r"out of range|<=|<|>="):
        decode(edited(at, change))


@pytest.mark.parametrize(("at", "change"), HARMLESS.values(), ids=HARMLESS)
def test_a_queue_with_a_strange_number_works_all_the_same(at, change):
    state = decode(edited(at, change))
    state.settings, state.archives = Settings(), True
    state.claimable(None, NOW)
    [job] = state.apply(Dequeue("mail", 1, "t", NOW))
    assert not state.apply(Dequeue(None, 1, "t", NOW))
    for seconds in (1, 2):
        state.heartbeat(Claim.of(job), NOW + timedelta(seconds=seconds))
    state.next_due(), state.next_refill(NOW)
    state.nack(Claim.of(job), "again", NOW)
    state.next_refill(NOW + timedelta(days=1))
    state.set_limits(Limits())
    [job] = state.apply(Dequeue("mail", 1, "t", NOW + timedelta(days=1)))
    state.ack(Claim.of(job), NOW + timedelta(days=1))
    state.seal()
    Glance.at(state, state.stats, NOW, 0.0, 0.0)
    assert decode(encode(state)).is_conserved()


def test_a_heartbeat_at_the_end_of_all_times_is_taken():
    state = written()
    [job] = state.apply(Dequeue("mail", 1, "t", NOW))
    content = encode(state).replace(b'"heartbeat_at":"2026', b'"heartbeat_at":"9999')
    state = decode(content)
    state.heartbeat(Claim.of(job), NOW)


def test_a_segment_of_jobs_for_the_end_of_all_times_holds_up_nobody():
    segment = (
        b',"segments":[{"name":"backlog/000000000001-00000000000000aa.json","entrypoint":"mail",'
        b'"status":"scheduled","count":1,"size":9,"first":[%d,0,1],"last":[%d,0,1],"ids":["",""]}]'
    )
    content = encode(QueueState()).replace(
        b'"sequence":0,"enqueued_total":0', b'"sequence":1,"enqueued_total":1'
    )
    for number in (2**63 - 1, -(2**62)):
        state = decode(content.replace(b',"jobs"', segment % (number, number) + b',"jobs"'))
        assert state.next_due() is not None


def test_a_rate_that_is_all_but_nothing_lets_nobody_wait_for_longer_than_dates_go():
    state = written()
    state.set_limits(Limits(entrypoints={"mail": Limit(rate=1e-300, burst=1)}))
    assert state.apply(Dequeue("mail", 1, "t", NOW))
    assert state.next_refill(NOW).year > 5000
