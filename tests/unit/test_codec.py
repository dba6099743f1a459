"""queue.json: what is written can be read, old files open, and damage is named."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bucketq import CorruptStateError, Job, JobNotFoundError, JobStatus, NewerFormatError, QueueState
from bucketq.archived_job import FORMAT as ARCHIVE_FORMAT
from bucketq.archived_job import decode_archived
from bucketq.codec import FORMAT, StateEncoder, decode, encode, leader_of
from bucketq.codec.osqueue import decode_osqueue, is_osqueue
from bucketq.job import Claim, IfDead
from bucketq.ledger import batch_content
from bucketq.limits import Limit, Limits
from bucketq.loads import LoadMark
from bucketq.refusal import Refusal
from bucketq.schedule import Schedules, new_schedule
from bucketq.segment_claim import CompletedJobs, SegmentClaim
from bucketq.segment_lines import FORMAT as SEGMENT_FORMAT
from bucketq.segment_lines import SegmentLines, SegmentWriter
from bucketq.sessions import Sessions

NOW = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
GOLDEN = Path(__file__).parent / "golden"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def example() -> QueueState:
    """A state with every field in use; golden/format-9.json is its encoding."""
    state = last_example()
    later = [
        state.enqueue(
            Job(
                id=f"job-{number}", entrypoint="later", created_at=NOW, status=JobStatus.SCHEDULED, run_at=NOW
            )
        )
        for number in (21, 22)
    ]
    state.spill([(segment_of(later, "backlog/000000000008-00000000000000ff.json")[0], later)])
    return state


def last_example() -> QueueState:
    """A state with every field in use that format 8 had; golden/format-8.json is its encoding."""
    state = QueueState()
    state.collected_version = 7
    state.archives = True
    for number, payload in enumerate([b'{"to": "alice"}', b"\x89PNG", b"", b"gone", b"[1]"]):
        state.enqueue(
            Job(
                id=f"job-{number}",
                entrypoint="mail",
                payload=payload,
                priority=number % 2,
                max_attempts=1 if number == 4 else 5,
                created_at=NOW,
            )
        )
    state.ack(Claim.of(_claim(state, "job-0")), NOW)
    state.seal()
    state.drop_archived("archive/2026-01-01T12/000000000001.json")
    state.ledger.archived["2025-12-31"] = 5
    state.expire("2025-12-31")
    _claim(state, "job-2")
    state.nack(Claim.of(_claim(state, "job-4")), "no such host", NOW)
    state.seal()
    state.enqueue(Job(id="job-13", entrypoint="mail", payload=b"{}", priority=-1, created_at=NOW))
    state.nack(Claim.of(_claim(state, "job-13", "host:1")), "try again", NOW + timedelta(minutes=40))
    state.ack(Claim.of(_claim(state, "job-13")), NOW + timedelta(minutes=50), b'{"sent": true}')
    large = Job(
        id="job-5",
        entrypoint="video",
        payload_object="payloads/000000000008-00000000000000aa",
        payload_size=70_000,
        created_at=NOW,
    )
    state.enqueue(large)
    state.enqueue_segments([example_segment()[0]])
    spilled = [state.enqueue(large_again(large, number)) for number in (9, 10)]
    state.spill([(segment_of(spilled, "backlog/000000000008-00000000000000cc.json")[0], spilled)])
    others = [state.enqueue(large_again(large, number)) for number in (11, 12)]
    holey = replace(segment_of(spilled, "backlog/000000000008-00000000000000dd.json")[0], count=3)
    state.spill([(holey, [*others, spilled[0]])])
    claim_segments(state)
    for number, status in ((14, JobStatus.SCHEDULED), (15, JobStatus.BLOCKED), (16, JobStatus.QUEUED)):
        after = ("job-2",) if status is JobStatus.BLOCKED else ()
        job = replace(demanding(), id=f"job-{number}", status=status, key=f"video-{number}", after=after)
        state.enqueue(job)
    keyed = [state.enqueue(replace(large_again(large, 17), key="video-17"))]
    state.spill([(segment_of(keyed, "backlog/000000000008-00000000000000ee.json")[0], keyed)])
    state.kept_keys.keep("video-6", "job-98", NOW + timedelta(hours=1))
    state.begin_batch(Job(id="album", entrypoint="video", payload=b'{"to": "eve"}', created_at=NOW), 3)
    state.cancelled_total += 1
    state.enqueued_total += 1
    limits = Limits().with_pause("mail").with_limit("video", None, Limit(max_running=2))
    state.set_limits(limits.with_limit(None, "gpu-*", Limit(rate=0.5, burst=3)))
    state.buckets.take_of_key("gpu-1", Limit(rate=0.5, burst=3), NOW)
    state.elect("broker-1", "10.0.0.7:7420", None, NOW)
    refused = JobNotFoundError("job-99")
    state.sessions = Sessions(forgotten_version=1)
    state.remember("client-2", 7, {"0": Refusal.of(refused), "3": 2}, NOW)
    state.load("orders", LoadMark(7, "a-query"))
    state.load("once", LoadMark(0))
    state.schedules = Schedules(example_schedules())
    state.stamp("writer-a", 3)
    state.stamp("writer-b", 1)
    return state


def claim_segments(state):
    """Three segments that are claimed as a whole: one is held, one's worker has died, one is completed."""
    claims = {}
    for number, entrypoint in ((18, "scan"), (19, "print"), (20, "thumb")):
        job = Job(id=f"job-{number}", entrypoint=entrypoint, created_at=NOW, sequence=1)
        state.enqueue_segments([segment_of([job], f"backlog/000000000008-00000000000000{number}.json")[0]])
        segment = state.claim_segment(entrypoint, f"token of job-{number}", NOW, "host:2")
        claims[number] = SegmentClaim(segment, state.version)
    state.heartbeat_segment(claims[18].claim, NOW + timedelta(minutes=1))
    state.requeue_stale_segment(claims[19].claim, NOW + timedelta(minutes=5))
    completed = CompletedJobs()
    completed.add(replace(job, worker="host:2", attempts=1, claimed_at=NOW), NOW)
    [(part, _)] = completed.finish(8, lambda: "00000000000000aa")
    state.settle_segment(claims[20].claim, [part], [], [], NOW)


def demanding():
    """A job with every option in use."""
    return Job(
        id="demanding",
        entrypoint="video",
        created_at=NOW,
        crashes=1,
        max_crashes=5,
        run_at=NOW + timedelta(hours=1),
        expires_at=NOW + timedelta(hours=2),
        timeout_s=1.5,
        key="video-7",
        key_for_s=60.0,
        tenant="acme",
        turn=3,
        limit_key="gpu",
        after=("job-2",),
        if_dead=IfDead.RUN,
        batch="album",
        progress=0.5,
        note="half of it",
        is_cancelled=True,
        redrive_of="job-99",
        traceparent=TRACEPARENT,
        tracestate="vendor=abc",
    )


def example_schedules():
    model = Job(id="", entrypoint="mail", payload=b'{"to": "bob"}', created_at=NOW)
    times = {"cron": "30 9 * * MON", "tz": "Europe/Vienna", "every": None, "missed": "skip"}
    yield new_schedule("weekly", model, {}, **times)
    model = replace(model, payload=b"\x89PNG", expires_at=NOW + timedelta(seconds=50))
    times = {"cron": None, "tz": "UTC", "every": 60, "missed": "last"}
    yield replace(new_schedule("minutely", model, {}, **times), last_at=NOW)


def example_segment():
    """Three jobs; golden/segment-1.json is the content of their object."""
    jobs = [
        Job(
            id=f"job-{number}",
            entrypoint="mail",
            payload=payload,
            priority=1,
            created_at=NOW,
            sequence=number - 5,
        )
        for number, payload in enumerate([b'{"to": "bob"}', b"\x89PNG", b""], 6)
    ]
    return segment_of(jobs, "backlog/000000000008-00000000000000bb.json")


def segment_of(jobs, name):
    writer = SegmentWriter()
    for job in jobs:
        writer.add(job)
    return writer.finish(name)


def large_again(large: Job, number: int) -> Job:
    """Another one like it, with an object of its own."""
    return replace(large, id=f"job-{number}", payload_object=f"payloads/{number:012}-00000000000000aa")


def _claim(state: QueueState, expected: str, worker: str | None = None) -> Job:
    job = state.dequeue("mail", f"token of {expected}", NOW, worker)
    assert job is not None
    assert job.id == expected
    return job


def test_the_golden_file_of_this_format_is_written_and_read():
    golden = (GOLDEN / f"format-{FORMAT}.json").read_bytes()
    assert encode(example()) == golden
    state = decode(golden)
    assert state.jobs == example().jobs
    assert state.stats == example().stats
    assert state.signatures.writers == example().signatures.writers
    assert list(state.backlog) == list(example().backlog)
    assert state.collected_version == 7
    assert vars(state.ledger) == vars(example().ledger)
    assert list(state.schedules) == list(example().schedules)
    assert (state.epoch, state.leader) == (1, example().leader)
    assert dict(state.batches) == dict(example().batches)
    assert state.sessions.forgotten_version == example().sessions.forgotten_version == 1
    assert [(name, mark.number) for name, mark in state.sessions.marks.items()] == [("client-2", 7)]
    assert encode(state) == golden


def test_without_sorted_scheduled_segments_nothing_but_the_format_differs_from_the_last_one():
    older = (GOLDEN / "format-8.json").read_bytes()
    assert encode(last_example()).replace(b'"format":9', b'"format":8') == older


def test_a_trace_in_the_file_has_the_form_of_one():
    with pytest.raises(CorruptStateError, match="traceparent"):
        decode(encode(example()).replace(TRACEPARENT.encode(), b"whatever"))


def test_the_golden_segment_is_written_and_read():
    golden = (GOLDEN / f"segment-{SEGMENT_FORMAT}.json").read_bytes()
    segment, content = example_segment()
    assert content == golden
    [taken_in] = [entry for entry in example().backlog if entry.name == segment.name]
    jobs = list(SegmentLines(taken_in, golden).jobs(taken_in))
    assert [(job.id, job.sequence, job.payload) for job in jobs] == [
        ("job-6", 8, b'{"to": "bob"}'),
        ("job-7", 9, b"\x89PNG"),
        ("job-8", 10, b""),
    ]
    assert json.loads(golden)["entrypoint"] == "mail"


@pytest.mark.parametrize(
    ("older", "enqueued", "segments"),
    [(1, 5, 0), (2, 13, 3), (3, 14, 3), (4, 14, 3), (5, 14, 3), (6, 19, 4), (7, 22, 6), (8, 22, 6)],
)
def test_files_of_older_formats_open_as_they_are(older, enqueued, segments):
    state = decode((GOLDEN / f"format-{older}.json").read_bytes())
    assert [job.id for job in state.jobs][:4] == ["job-1", "job-2", "job-3", "job-4"]
    assert (state.stats.enqueued_total, len(state.backlog)) == (enqueued, segments)
    assert decode(encode(state)).jobs == state.jobs


def test_the_golden_archive_line_is_written_and_read():
    """golden/archive-1.json is an archive object; readers outside rely on its form."""
    [retried] = [entry.line for entry in example().ledger.finished]
    [((dead,), _)] = example().ledger.sealed.values()
    golden = (GOLDEN / f"archive-{ARCHIVE_FORMAT}.json").read_bytes()
    assert batch_content((dead, retried)) == golden
    assert len(json.loads(golden)) == 2
    job = decode_archived(retried)
    assert (job.id, job.status, job.worker, job.result, job.json()) == (
        "job-13",
        "completed",
        None,
        {"sent": True},
        {},
    )
    assert [(attempt.outcome, attempt.worker, attempt.error) for attempt in job.attempts] == [
        ("failed", "host:1", "try again"),
        ("completed", None, None),
    ]
    assert (job.first_claimed_at, job.finished_at, job.attempts_total) == (
        NOW,
        NOW + timedelta(minutes=50),
        2,
    )
    job = decode_archived(dead)
    assert (job.status, job.error, job.attempts[0].outcome) == ("dead", "no such host", "failed")
    assert decode_archived(dead[:-1] + b',"added_later":1}') == job, "a newer field is passed over"


def test_a_file_of_jqueue_opens_as_it_is():
    state = decode((GOLDEN / "jqueue-1.0.0.json").read_bytes())
    assert state.version == 3
    first, second = state.jobs
    # By age, as jqueue serves them, not by their order in the file.
    assert (first.entrypoint, first.status, first.attempts) == ("resize_image", JobStatus.IN_PROGRESS, 1)
    assert (second.entrypoint, second.payload) == ("send_email", b'{"to": "user@example.com"}')
    assert state.is_conserved()
    state.stamp("w", 1)
    assert decode(encode(state)).jobs == state.jobs


def test_a_file_of_osqueue_in_typescript_is_read():
    content = (GOLDEN / "osqueue-typescript.json").read_bytes()
    assert is_osqueue(content)
    first, second = decode_osqueue(content, "q").jobs
    assert (first.entrypoint, first.payload) == ("email:send", b'{"to":"alice@example.com","price":1.50}')
    assert first.created_at == datetime(2024, 1, 23, 8, 53, 20, 123_000, UTC)
    # An attempt there ends by a timeout, and `maxAttempts` counts those.
    assert (first.attempts, first.crashes, first.max_attempts, first.max_crashes) == (1, 1, 5, 5)
    # Its worker is of the other system, so it waits again.
    assert (second.entrypoint, second.payload, second.status) == ("default", b"null", JobStatus.QUEUED)
    assert (second.attempts, second.crashes, second.max_attempts, second.max_crashes) == (1, 1, 3, 3)


def test_a_file_of_osqueue_in_go_is_read():
    content = (GOLDEN / "osqueue-go.json").read_bytes()
    assert is_osqueue(content)
    first, second = decode_osqueue(content, "q").jobs
    assert (first.entrypoint, first.json(), first.status) == (
        "default",
        {"name": "build-index"},
        JobStatus.QUEUED,
    )
    assert first.created_at == datetime(2026, 2, 15, 9, 0, 0, 123_456, UTC)
    # There, attempts have no limit.
    assert (first.attempts, first.crashes, first.max_attempts) == (0, 0, 3)
    assert second.payload == b"\x00\xff", "in the order of the file"
    assert decode_osqueue(b'{"broker":"","jobs":null}', "q").jobs == ()


@pytest.mark.parametrize(
    "job",
    [
        b'{"id":"1","status":"unclaimed"}',
        b'{"id":"1","status":"finished","createdAt":1}',
        b'{"id":"1","status":"unclaimed","createdAt":1e300}',
        b'{"id":"1","status":"unclaimed","createdAt":253402300800000}',
        b'{"id":"1","status":"unclaimed","created_at":"0001-01-01T00:00:00+14:00"}',
        b'{"id":"1","status":"unclaimed","createdAt":1,"attempts":-1}',
        b'{"id":"1","status":"unclaimed","createdAt":1,"maxAttempts":0}',
        b'{"id":"1","status":"unclaimed","created_at":"2026-01-01T00:00:00Z","data":"?"}',
        b"7",
    ],
)
def test_a_damaged_file_of_osqueue_is_refused(job):
    with pytest.raises(CorruptStateError, match="not a readable queue of osqueue"):
        decode_osqueue(b'{"broker":null,"jobs":[%b]}' % job, "q")


def test_a_queue_of_osqueue_is_not_opened_in_place_and_the_error_names_the_command():
    with pytest.raises(CorruptStateError, match="bucketq import"):
        decode((GOLDEN / "osqueue-go.json").read_bytes())


def test_one_job_a_line_and_json_stays_readable():
    lines = encode(last_example()).decode().splitlines()
    assert len(lines) == 2 + 1 + 2 + 1 + 1 + 1 + 1 + 1 + 6 + 1 + 8 + 1
    document = json.loads("\n".join(lines))
    assert [job["id"] for job in document["jobs"]] == [f"job-{n}" for n in (1, 2, 3, 4, 5, 14, 15, 16)]
    assert [segment["count"] for segment in document["segments"]] == [3, 2, 2, 1, 1, 1]
    assert [segment.get("status") for segment in document["segments"]][-2:] == ["in_progress", None]
    assert json.loads(encode(QueueState()))["jobs"] == []
    assert document["jobs"][3]["json"] == [1]
    assert document["jobs"][0]["payload"] == "iVBORw=="
    assert "priority" not in document["jobs"][1], "defaults are left out"


@given(payloads=st.lists(st.one_of(st.binary(max_size=40), st.text(max_size=20).map(str.encode)), max_size=8))
def test_every_payload_comes_back_to_the_byte(payloads):
    check_round_trip(payloads)


JSON_TEXTS = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
).map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


@given(payloads=st.lists(JSON_TEXTS, max_size=5), damage=st.binary(max_size=2), at=st.integers(0, 30))
def test_json_and_almost_json_payloads_come_back_to_the_byte(payloads, damage, at):
    check_round_trip([*payloads, *(payload[:at] + damage + payload[at:] for payload in payloads)])


def test_json_on_several_lines_stays_one_line_in_the_file():
    check_round_trip([b'{\n  "a": 1\n}', b"[1,\r\n2]", b"[1,\r2]", b"[1]\n", b" [1]"])


def check_round_trip(payloads):
    state = QueueState()
    for number, payload in enumerate(payloads):
        state.enqueue(Job(id=str(number), entrypoint="e", payload=payload, created_at=NOW))
    content = encode(state)
    json.loads(content)
    assert len(content.splitlines()) == 2 + max(1, len(payloads)), "one job a line"
    assert [job.payload for job in decode(content).jobs] == payloads


def test_encoding_again_after_changes_equals_encoding_anew():
    state = example()
    encoder = StateEncoder(state)
    encoder.encode()
    state.enqueue(Job(id="late", entrypoint="mail", payload=b"x", created_at=NOW))
    state.ack(Claim("job-2"), NOW)
    assert decode(b"".join(encoder.encode())).jobs == decode(encode(state)).jobs == state.jobs


def test_no_bytes_are_an_empty_queue():
    assert decode(b"").stats == QueueState().stats
    assert leader_of(b"") is None


GOOD = encode(last_example())


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b"  \n", "empty"),
        (GOOD[:-40], "truncated"),
        (b"<html>503</html>", "malformed"),
        (b"[]", "Expected `object`"),
        (b'{"jobs":[]}', "version"),
        (GOOD.replace(b'"id":"job-2"', b'"id":5'), r"\$\.jobs\[1\]\.id"),
        (GOOD.replace(b'"job-2"', b'"job-3"'), "same id"),
        (GOOD.replace(b'"seq":3', b'"seq":3,"surprise":1'), "surprise"),
        (GOOD.replace(b'"in_progress"', b'"sleeping"'), "sleeping"),
        (GOOD.replace(b'"enqueued_total":22', b'"enqueued_total":20'), "do not add up"),
        (GOOD.replace(b'"count":3', b'"count":4'), "do not add up"),
        (GOOD.replace(b'"count":3', b'"count":0'), r"\$\.segments\[0\]\.count"),
        (
            GOOD.replace(b'"backlog/000000000008-00000000000000bb', b'"../elsewhere'),
            r"\$\.segments\[0\]\.name",
        ),
        (GOOD.replace(b"00000000000000bb.json", b"00000000000000cc.json"), "same segment"),
        (GOOD.replace(b'"payloads/', b'"../payloads/'), "payload_object"),
        (GOOD.replace(b'"scan","status":"in_progress"', b'"scan"'), "not held"),
        (GOOD.replace(b'"staged/', b'"../staged/'), r"\$\.staged"),
        (GOOD.replace(b'"sequence":21', b'"sequence":5'), "sequence"),
        (GOOD.replace(b'"sequence":21', b'"sequence":8'), "sequence"),
        (GOOD.replace(b'"iVBORw=="', b'"%%%%"'), "base64"),
    ],
)
def test_damage_is_named(content, names):
    assert content != GOOD
    with pytest.raises(CorruptStateError, match=names):
        decode(content)


def test_a_newer_format_is_refused_as_such_whatever_it_holds():
    newer = b'{"format":99,"version":"what","blocks":[]}'
    with pytest.raises(NewerFormatError, match="format 99"):
        decode(newer)
    with pytest.raises(NewerFormatError, match=f"format {FORMAT + 1}"):
        decode(GOOD.replace(b'"format":%d' % FORMAT, b'"format":%d' % (FORMAT + 1)))


@given(cut=st.integers(1, len(GOOD) - 2))
def test_no_truncation_is_taken_for_a_queue(cut):
    with pytest.raises(CorruptStateError):
        decode(GOOD[:cut])


@settings(max_examples=1000)
@given(
    edits=st.lists(
        st.tuples(st.integers(0, len(GOOD)), st.integers(0, 30), st.binary(max_size=12)), max_size=4
    )
)
def test_any_damage_is_either_harmless_or_called_corrupt(edits):
    check_decodes_or_refuses(damage(edits))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=500)
@given(field=st.sampled_from(sorted(json.loads(GOOD))), job_field=st.none() | st.text(), value=VALUES)
def test_any_wrong_field_is_either_harmless_or_called_corrupt(field, job_field, value):
    document = json.loads(GOOD)
    document[field] = value
    if job_field is not None:
        document["jobs"] = [{**json.loads(GOOD)["jobs"][0], job_field: value}]
    check_decodes_or_refuses(json.dumps(document).encode())


def damage(edits):
    content = GOOD
    for at, length, inserted in edits:
        content = content[:at] + inserted + content[at + length :]
    return content


def check_decodes_or_refuses(content):
    try:
        state = decode(content)
    except CorruptStateError:
        return
    assert state.is_conserved()
    assert decode(encode(state)).jobs == state.jobs
