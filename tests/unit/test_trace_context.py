"""The trace of a job: what has the form of one travels along unchanged, and nothing else does."""

import json
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from bucketq import Job
from bucketq.archived_job import FinishedStatus, decode_archived, encode_archived
from bucketq.jobline import decode_job, encode_job
from bucketq.new_job import new_job
from bucketq.trace_context import TRACESTATE_MAX, TraceContext
from bucketq.wire.jobs import job_message, job_of, new_job_message, new_job_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAIN = Job(id="1", entrypoint="mail", payload=b"{}", created_at=NOW)


def hexadecimal(digits):
    return st.integers(1, 16**digits - 1).map(lambda number: f"{number:0{digits}x}")


TRACEPARENTS = st.builds(
    "{:02x}-{}-{}-{:02x}".format,
    st.integers(0, 254),
    hexadecimal(32),
    hexadecimal(16),
    st.integers(0, 255),
)
TRACESTATES = st.none() | st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=256
)
GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@given(TRACEPARENTS, TRACESTATES)
def test_a_trace_comes_back_from_wherever_it_goes(traceparent, tracestate):
    trace = TraceContext(traceparent, tracestate)
    assert TraceContext.of(*trace) == trace
    asked = {name: text for name, text in trace._asdict().items() if text is not None}
    job = new_job("1", "mail", b"{}", 0, NOW, asked)
    assert TraceContext(job.traceparent, job.tracestate) == trace
    assert decode_job(encode_job(job), "here") == job
    assert job_of(job_message(job)) == job
    assert new_job_of(new_job_message(job), NOW, None) == job
    assert (
        decode_archived(encode_archived(job, FinishedStatus.COMPLETED, NOW, NOW)).traceparent == traceparent
    )


@given(st.one_of(st.text(), st.none(), st.integers(), st.from_regex(r"[0-9a-f]{2}(-[0-9a-f]{0,33}){1,4}\s*")))
def test_what_has_another_form_is_dropped_and_the_job_is_not(sent):
    trace = TraceContext.of(sent, "vendor=abc")
    is_one = isinstance(sent, str) and len(sent) == 55 and trace.traceparent == sent
    assert is_one or trace == TraceContext()
    message = new_job_message(PLAIN)
    if isinstance(sent, str) and sent.isprintable():
        message.options.traceparent = sent
        assert new_job_of(message, NOW, None).traceparent == trace.traceparent


def test_the_form_to_the_letter():
    wrong = [
        GOOD.upper(),
        f"{GOOD}\n",
        f"{GOOD}-00",
        GOOD.replace("00-", "ff-", 1),
        GOOD.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32),
        GOOD.replace("b7ad6b7169203331", "0" * 16),
    ]
    assert {TraceContext.of(one) for one in wrong} == {TraceContext()}
    assert TraceContext.of(GOOD, "é=1").tracestate is None
    assert TraceContext.of(GOOD, "a=1\n").tracestate is None
    assert TraceContext.of(GOOD, "a" * TRACESTATE_MAX).tracestate is not None
    assert TraceContext.of(GOOD, "a" * (TRACESTATE_MAX + 1)) == TraceContext(GOOD)


def test_a_job_without_one_has_no_bytes_for_it():
    assert b"trace" not in encode_job(PLAIN)
    assert not job_message(PLAIN).HasField("options")
    archived = json.loads(encode_archived(PLAIN, FinishedStatus.COMPLETED, NOW, NOW))
    assert "traceparent" not in archived
