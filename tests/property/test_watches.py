"""However the clock rounds, no claim that is watched is dropped before its watch reports it."""

import math
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from bucketq import Job, QueueState
from bucketq.election import Leader, LeaderWatch
from bucketq.job import Claim
from bucketq.segment_lines import SegmentWriter
from bucketq.stale import StaleWatch

NOW = datetime(2026, 1, 1, tzinfo=UTC)
# Monotonic clocks count in nanoseconds from a boot long ago, and some virtual ones in anything.
MOMENTS_S = st.floats(0, 1e9) | st.integers(0, 10**18).map(lambda ns: ns / 1e9)
SPANS_S = st.floats(1e-3, 1e6) | st.sampled_from([0.1, 0.3, 1 / 3, 7.7, 300.0])
OUTAGES_S = st.lists(SPANS_S | st.just(0.0), max_size=3)
# Looks at the very moment, at its neighbours among the floats, and somewhere around it.
LOOKS = st.lists(st.integers(-3, 3) | st.floats(0, 2), max_size=6)


def near(moment_s, span_s, look):
    """A time close to the end of a span."""
    if isinstance(look, float):
        return moment_s + span_s * look
    end_s = moment_s + span_s
    for _ in range(abs(look)):
        end_s = math.nextafter(end_s, math.inf if look > 0 else -math.inf)
    return end_s


def running(timeout_s=0.0):
    """A state with one job that a worker has claimed."""
    state = QueueState()
    state.enqueue(Job(id="a", entrypoint="mail", timeout_s=timeout_s, created_at=NOW))
    return state, state.dequeue(None, "t", NOW)


@given(MOMENTS_S, SPANS_S, OUTAGES_S, LOOKS, st.booleans())
def test_a_silent_claim_is_reported_and_none_too_early(since_s, after_s, outages_s, looks, is_refused):
    state, job = running()
    watch = StaleWatch(after_s)
    watch.observe(state, ["a"], since_s)
    end_s = since_s + after_s
    for outage_s in outages_s:
        watch.excuse(outage_s)
        if outage_s >= after_s / 10:
            end_s += outage_s + min(outage_s, after_s)
    slack_s = 16 * math.ulp(end_s)
    for now_s in sorted(near(since_s, end_s - since_s, look) for look in looks):
        if is_refused:
            # A commit that another writer refuses: what it did to the state never was.
            refused, claimed = running()
            refused.heartbeat(Claim.of(claimed), NOW)
            assert watch.stale(refused, now_s) == []
            watch.observe_all(state, now_s)
        reported = watch.stale(state, now_s)
        assert reported == [job] if now_s > end_s + slack_s else True
        assert reported == [] if now_s < end_s - slack_s else True
    assert watch.stale(state, end_s + slack_s) == [job]
    assert watch.stale(state, end_s + slack_s) == [job]


@given(MOMENTS_S, SPANS_S, LOOKS, st.booleans())
def test_an_attempt_that_takes_too_long_is_reported_and_none_too_early(since_s, after_s, looks, is_refused):
    state, job = running(timeout_s=after_s)
    watch = StaleWatch(1e9)
    watch.observe(state, ["a"], since_s)
    end_s = since_s + after_s
    for now_s in sorted(near(since_s, after_s, look) for look in looks):
        if is_refused:
            refused, claimed = running(timeout_s=after_s)
            refused.ack(Claim.of(claimed), NOW)
            assert watch.timeouts.over(refused, now_s) == []
            watch.observe_all(state, now_s)
        is_over = now_s >= end_s
        assert watch.timeouts.over(state, now_s) == [job] * is_over
        assert (watch.timeouts.left_s("a", now_s) == 0) == is_over
    assert watch.timeouts.over(state, end_s) == [job]


@given(MOMENTS_S, SPANS_S)
def test_a_leader_whose_beat_stands_still_is_stale_when_it_trusts_itself_no_more(since_s, after_s):
    leader = Leader(epoch=1, broker="b", address="here", beat_at=NOW)
    watch = LeaderWatch(after_s)
    watch.observe(leader, since_s)
    assert watch.stale(math.nextafter(since_s + after_s, 0)) is None
    assert watch.stale(since_s + after_s) == leader


def holding():
    """A state with one segment that a worker has claimed as a whole."""
    writer = SegmentWriter()
    writer.add(Job(id="a", entrypoint="mail", created_at=NOW, sequence=1))
    state = QueueState()
    state.enqueue_segments([writer.finish("backlog/000000000000-00000000000000aa.json")[0]])
    state.claim_segment("mail", "t", NOW)
    [claim] = state.backlog.held()
    return state, claim


@given(MOMENTS_S, SPANS_S, OUTAGES_S, LOOKS, st.booleans())
def test_a_silent_claim_of_a_segment_is_reported_and_none_too_early(
    since_s, after_s, outages_s, looks, is_refused
):
    state, claim = holding()
    watch = StaleWatch(after_s)
    watch.observe(state, [], since_s)
    end_s = since_s + after_s
    for outage_s in outages_s:
        watch.excuse(outage_s)
        if outage_s >= after_s / 10:
            end_s += outage_s + min(outage_s, after_s)
    slack_s = 16 * math.ulp(end_s)
    for now_s in sorted(near(since_s, end_s - since_s, look) for look in looks):
        if is_refused:
            refused, claimed = holding()
            refused.heartbeat_segment(claimed, NOW)
            assert watch.stale_segments(refused, now_s) == []
            watch.observe_all(state, now_s)
        reported = watch.stale_segments(state, now_s)
        assert reported == [claim] if now_s > end_s + slack_s else True
        assert reported == [] if now_s < end_s - slack_s else True
    assert watch.stale_segments(state, end_s + slack_s) == [claim]
    assert watch.stale_segments(state, end_s + slack_s) == [claim]


@given(MOMENTS_S, SPANS_S, st.lists(st.floats(0, 1), max_size=5))
def test_a_segment_whose_claim_beats_is_stale_after_its_last_beat(since_s, after_s, parts):
    state, claim = holding()
    watch = StaleWatch(after_s)
    watch.observe(state, [], since_s)
    for part in parts:
        assert watch.stale_segments(state, since_s + after_s * part * 0.99) == []
        since_s += after_s * part * 0.99
        state.heartbeat_segment(claim, NOW)
        watch.observe(state, [], since_s)
    assert watch.stale_segments(state, math.nextafter(since_s + after_s, math.inf)) == [claim]
