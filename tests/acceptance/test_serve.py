"""`bucketq serve` as its users meet it: options, logs, signals, failover, health, reflection, raw gRPC."""

import asyncio
import json
import signal
import socket
import time

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status

import bucketq
from bucketq import BrokerUnavailableError, DirectQueue, LocalFileSystemStorage, OutcomeUnknownError, Settings
from bucketq.cli.__main__ import main
from bucketq.remote import lane
from bucketq.v1 import queue_pb2 as pb
from tests.acceptance.hosted import hosted
from tests.acceptance.served import WAYS, Served, served, url_of

# A second is enough for a busy machine to beat in, and little to wait for.
QUICK = ("--heartbeat-interval-s", "0.2", "--heartbeat-timeout-s", "1")


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/queue.json"


async def until(condition, limit_s=20):
    end_s = time.monotonic() + limit_s
    while not await condition():
        assert time.monotonic() < end_s, "it did not come to that"
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_works_while_leaders_come_and_go(url, way):
    with served(url, *QUICK) as first:
        first.wait_for("leading")
        with served(url, *QUICK) as second:
            second.wait_for("another broker leads")
            addresses = url_of(way, first, second)
            async with bucketq.connect(addresses) as q:
                await q.enqueue("mail", {"n": 1})
                [job] = await q.dequeue("mail", wait=10)
                first.signal(signal.SIGKILL)
                await q.enqueue("mail", {"n": 2})
                assert second.wait_for("leading")["epoch"] == 2
                # The claim was made through the first one.
                await q.heartbeat(job)
                await q.ack(job)
                with served(url, *QUICK) as third:
                    third.wait_for("another broker leads")
                    second.signal(signal.SIGTERM)
                    assert second.wait() == 0
                    assert "stepped down" in [line["message"] for line in second.log]
                    assert third.wait_for("leading")["epoch"] == 3
                    async with bucketq.connect(url, via="broker") as other:
                        assert (await other.stats()).completed_total == 1
                    async with bucketq.connect(url_of(way, third)) as other:
                        assert len(await other.dequeue("mail", wait=10)) == 1


async def test_a_leader_that_stood_still_steps_down_and_its_clients_go_on(url):
    with served(url, *QUICK) as first:
        first.wait_for("leading")
        with served(url, *QUICK) as second:
            async with bucketq.connect(url_of("grpc", first, second)) as q:
                await q.enqueue("mail", 1)
                first.signal(signal.SIGSTOP)
                await q.enqueue("mail", 2)
                second.wait_for("leading")
                first.signal(signal.SIGCONT)
                first.wait_for("leading no more")
                await q.enqueue("mail", 3)
                assert (await q.stats()).enqueued_total == 3


def test_a_broker_that_is_killed_and_started_again_at_its_address_leads_at_once(url):
    patient = ("--heartbeat-timeout-s", "600")
    with served(url, *patient) as killed:
        killed.wait_for("leading, at")
        ports = [place.rpartition(":")[2] for place in (killed.address, killed.http)]
        killed.signal(signal.SIGKILL)
        killed.wait()
    with served(url, *patient, "--grpc-port", ports[0], "--http-port", ports[1]) as again:
        assert again.wait_for("leading, at")["epoch"] == 2
        again.signal(signal.SIGTERM)
        assert again.wait() == 0


async def test_what_an_embedded_queue_enqueues_comes_to_a_client_and_back(url, tmp_path):
    with hosted(url) as broker:
        async with bucketq.connect(f"grpc://{broker.address}") as q:
            waiting = asyncio.create_task(q.dequeue("mail", wait=20))
            direct = DirectQueue(LocalFileSystemStorage(tmp_path / "queue.json"))
            await direct.enqueue("mail", "from the side")
            [job] = await waiting
            assert job.json() == "from the side"
            await direct.ack(job)
            assert (await q.stats()).completed_total == 1


@pytest.mark.parametrize("way", WAYS)
async def test_a_broker_that_is_told_to_stop_finishes_what_was_begun(url, way):
    with served(url, "--commit-interval-s", "0.3") as broker:
        broker.wait_for("leading")
        async with bucketq.connect(url_of(way, broker), settings=Settings(retry_for_s=0.5)) as q:
            await q.stats()
            added = []

            async def add():
                while True:
                    added.append(await q.enqueue("mail"))

            adding = [asyncio.create_task(add()) for _ in range(10)]

            async def is_at_work():
                return len(added) >= 10

            await until(is_at_work)
            broker.signal(signal.SIGTERM)
            await asyncio.gather(*adding, return_exceptions=True)
            assert await asyncio.to_thread(broker.wait) == 0
    async with bucketq.connect(url) as q:
        state = await q.read_state()
        assert {job.id for job in state.jobs} == {job.id for job in added}, "what was taken in was answered"
        assert state.leader is None


async def test_a_hundred_callers_share_the_writes_of_a_second(url, tmp_path):
    with served(url, BUCKETQ_WRITES_PER_S="2") as broker:
        broker.wait_for("leading")
        async with bucketq.connect(f"grpc://{broker.address}") as q:
            before = json.loads((tmp_path / "queue.json").read_text())["version"]
            began_s = time.monotonic()
            for _ in range(3):
                await asyncio.gather(*(q.enqueue("mail", number) for number in range(100)))
            took_s = time.monotonic() - began_s
            commits = json.loads((tmp_path / "queue.json").read_text())["version"] - before
            assert (await q.stats()).queued == 300
            # Those of a second are there from the beginning.
            assert commits <= 2 * took_s + 2


@pytest.mark.parametrize("way", WAYS)
async def test_without_a_broker_a_client_says_so_and_what_to_do(way):
    async with bucketq.connect(f"{way}://localhost:1", settings=Settings(retry_for_s=0.5)) as q:
        with pytest.raises(BrokerUnavailableError, match="bucketq serve"):
            await q.enqueue("mail")


async def test_a_broker_that_dies_and_is_not_followed_leaves_the_outcome_open_and_deadlines_hold(url):
    with served(url) as broker:
        broker.wait_for("leading")
        async with bucketq.connect(url_of("http", broker), settings=Settings(retry_for_s=0.5)) as q:
            await q.enqueue("mail")
            broker.signal(signal.SIGSTOP)
            with pytest.raises(OutcomeUnknownError):
                await q.enqueue("mail")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await q.enqueue("mail")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--host", "0.0.0.0"], "--insecure"),
        (["--commit-interval-s", "7"], "too short"),
        (["--writes-per-s", "0.5"], "too short"),
        (["--reads-per-s", "-1"], "a rate is"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(url, options, says):
    broker = Served(url, "--grpc-port", "0", "--http-port", "0", *options)
    assert broker.wait() == 2
    [line] = broker.log
    assert line["message"].startswith("bucketq: ")
    assert says in line["message"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--heartbeat-interval-s", "20"], "below"),
        (["--log-level", "loud"], "not one of 'debug'"),
        (["--commit-interval-s", "-1"], "commit_interval_s"),
        (["--grpc-port", "70000"], "65535"),
        (["--no-grpc", "--grpc-port", "7421"], "--no-grpc and --grpc-port"),
    ],
)
def test_options_that_make_no_sense_are_refused_in_one_sentence(url, capsys, options, says):
    assert main(["serve", url, *options]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("bucketq: ")
    assert says in line


def test_a_port_that_is_taken_is_told(url):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        second = Served(url, "--grpc-port", port, "--http-port", "0")
        assert second.wait() == 2
        assert port in second.log[-1]["message"]


def test_options_come_from_the_environment_too(url):
    with served(url, BUCKETQ_ADVERTISE="queue.example:7420", BUCKETQ_HEARTBEAT_TIMEOUT_S="5") as broker:
        broker.wait_for("leading")
        assert broker.address == "queue.example:7420"


@pytest.fixture
def channel(url):
    with hosted(url) as broker, grpc.insecure_channel(broker.address) as channel:
        yield channel


def ask(channel, method, request, response):
    call = channel.unary_unary(
        f"/bucketq.v1.Queue/{method}",
        request_serializer=type(request).SerializeToString,
        response_deserializer=response.FromString,
    )
    return call(request, timeout=20)


def test_every_call_by_itself(channel):
    new = [pb.NewJob(entrypoint="mail", payload=b"[%d]" % n) for n in range(3)]
    added = ask(channel, "Enqueue", pb.EnqueueRequest(jobs=new), pb.Jobs).jobs
    assert [(job.payload, job.max_attempts, job.sequence) for job in added] == [
        (b"", 3, 1),
        (b"", 3, 2),
        (b"", 3, 3),
    ]
    request = pb.DequeueRequest(entrypoints=["mail"], batch_size=2, worker="go:1", wait_us=10_000_000)
    first, second = ask(channel, "Dequeue", request, pb.Jobs).jobs
    assert (first.worker, first.status, first.payload) == ("go:1", pb.STATUS_IN_PROGRESS, b"[0]")
    claim = pb.Claim(job_id=first.id, token=first.token)
    ask(channel, "Heartbeat", pb.HeartbeatRequest(claim=claim), pb.Done)
    ask(channel, "Ack", pb.AckRequest(claim=claim, result=b'{"sent":true}'), pb.Done)
    other = pb.Claim(job_id=second.id, token=second.token)
    given_back = ask(channel, "Nack", pb.NackRequest(claim=other, error="no"), pb.Job)
    assert (given_back.status, given_back.error) == (pb.STATUS_QUEUED, "no")
    stats = ask(channel, "Stats", pb.StatsRequest(), pb.StatsResponse)
    assert (stats.queued, stats.completed_total) == (2, 1)
    leader = ask(channel, "Leader", pb.LeaderRequest(), pb.LeaderResponse)
    assert (leader.epoch, leader.is_me) == (1, True)
    cancelled = ask(channel, "Cancel", pb.CancelRequest(job_id=second.id), pb.Job)
    assert (cancelled.id, cancelled.is_cancelled) == (second.id, True)
    for end in ("Redrive", "Discard"):
        keyed = pb.NewJob(entrypoint="x", max_attempts=1, options=pb.JobOptions(key=end))
        [first] = ask(channel, "Enqueue", pb.EnqueueRequest(jobs=[keyed]), pb.Jobs).jobs
        [same] = ask(channel, "Enqueue", pb.EnqueueRequest(jobs=[keyed]), pb.Jobs).jobs
        assert same.id == first.id
        ask(channel, "Dequeue", pb.DequeueRequest(entrypoints=["x"]), pb.Jobs)
        ask(channel, "Nack", pb.NackRequest(claim=pb.Claim(job_id=first.id)), pb.Job)
        if end == "Redrive":
            again = ask(channel, "Redrive", pb.RedriveRequest(job_id=first.id), pb.Job)
            assert again.options.redrive_of == first.id
            ask(channel, "Cancel", pb.CancelRequest(job_id=again.id), pb.Job)
        else:
            ask(channel, "Discard", pb.DiscardRequest(job_id=first.id), pb.Done)
    stats = ask(channel, "Stats", pb.StatsRequest(), pb.StatsResponse)
    assert (stats.cancelled_total, stats.dead, stats.dead_total) == (2, 0, 2)


def test_jobs_are_listed_page_by_page_also_from_segments(channel, url):
    path = url.removeprefix("file://")

    async def fill():
        q = DirectQueue(LocalFileSystemStorage(path), Settings(segment_jobs_max=70))
        await q.enqueue_many("mail", range(1500), priority=5)
        await q.enqueue_many("mail", range(20), priority=1)
        await q.enqueue_many("other", range(30))
        return await q.dequeue("mail", batch_size=3)

    claimed = [job.id for job in asyncio.run(fill())]
    pages, token = [], ""
    while not pages or token:
        request = pb.ListJobsRequest(entrypoint="mail", page_size=400, page_token=token)
        page = ask(channel, "ListJobs", request, pb.ListJobsResponse)
        pages.append(page.jobs)
        token = page.next_page_token
    assert [len(page) for page in pages] == [400, 400, 400, 320]
    jobs = [job for page in pages for job in page]
    assert [job.id for job in jobs[:3]] == claimed
    waiting = [(job.priority, job.sequence) for job in jobs[3:]]
    assert waiting == sorted(waiting)
    assert len({job.id for job in jobs}) == 1520
    running = pb.ListJobsRequest(status=pb.STATUS_IN_PROGRESS)
    found = ask(channel, "ListJobs", running, pb.ListJobsResponse)
    assert ([job.id for job in found.jobs], found.next_page_token) == (claimed, "")


@pytest.mark.parametrize(
    ("method", "request_", "code", "error"),
    [
        ("Ack", pb.AckRequest(claim=pb.Claim(job_id="nobody")), "NOT_FOUND", "JobNotFoundError"),
        ("Ack", pb.AckRequest(claim=pb.Claim(job_id="1"), result=b"{"), "INVALID_ARGUMENT", "PayloadError"),
        ("Enqueue", pb.EnqueueRequest(jobs=[pb.NewJob()]), "INVALID_ARGUMENT", "ConfigurationError"),
        ("Batch", pb.BatchRequest(), "INVALID_ARGUMENT", "ConfigurationError"),
        ("Cancel", pb.CancelRequest(job_id="nobody"), "NOT_FOUND", "JobNotFoundError"),
        ("Discard", pb.DiscardRequest(), "INVALID_ARGUMENT", "ConfigurationError"),
        ("ListJobs", pb.ListJobsRequest(page_token="x"), "INVALID_ARGUMENT", "ConfigurationError"),
        (
            "Transaction",
            pb.TransactionRequest(operations=[pb.Operation(dequeue=pb.DequeueRequest(token="t"))]),
            "INVALID_ARGUMENT",
            "ConfigurationError",
        ),
    ],
)
def test_refusals_are_typed(channel, method, request_, code, error):
    with pytest.raises(grpc.RpcError) as refused:
        ask(channel, method, request_, pb.Done)
    assert refused.value.code().name == code
    [detail] = rpc_status.from_call(refused.value).details
    refusal = pb.Refusal()
    assert detail.Unpack(refusal)
    assert refusal.error == error


def test_a_result_in_a_batch_that_is_no_json_harms_nobody(channel):
    ask(channel, "Enqueue", pb.EnqueueRequest(jobs=[pb.NewJob(entrypoint="mail")]), pb.Jobs)
    [job] = ask(channel, "Dequeue", pb.DequeueRequest(), pb.Jobs).jobs
    ack = pb.AckRequest(claim=pb.Claim(job_id=job.id, token=job.token), result=b'1,"id":"2"')
    batch = pb.BatchRequest(session="s", number=1, operations=[pb.Operation(ack=ack)])
    [answer] = ask(channel, "Batch", batch, pb.BatchResponse).answers
    assert answer.refusal.error == "PayloadError"
    assert ask(channel, "Stats", pb.StatsRequest(), pb.StatsResponse).in_progress == 1


def test_a_broker_that_waits_tells_who_leads_and_is_not_serving(url):
    with hosted(url) as first, hosted(url, leads=False) as second:
        with grpc.insecure_channel(second.address) as channel:
            with pytest.raises(grpc.RpcError) as refused:
                ask(channel, "Stats", pb.StatsRequest(), pb.StatsResponse)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
            assert first.address in refused.value.details()
            leader = ask(channel, "Leader", pb.LeaderRequest(), pb.LeaderResponse)
            assert (leader.address, leader.is_me) == (first.address, False)
            assert health(channel) == health_pb2.HealthCheckResponse.NOT_SERVING
        with grpc.insecure_channel(first.address) as channel:
            assert health(channel) == health_pb2.HealthCheckResponse.SERVING


def health(channel):
    stub = health_pb2_grpc.HealthStub(channel)
    return stub.Check(health_pb2.HealthCheckRequest(service="bucketq.v1.Queue"), timeout=10).status


def test_the_server_describes_itself(channel):
    database = ProtoReflectionDescriptorDatabase(channel)
    assert "bucketq.v1.Queue" in database.get_services()
    assert database.FindFileByName("bucketq/v1/queue.proto").package == "bucketq.v1"


def test_the_leader_stands_in_the_file(url, tmp_path):
    with hosted(url) as broker:
        leader = json.loads((tmp_path / "queue.json").read_bytes())["leader"]
        assert (leader["address"], leader["epoch"]) == (broker.address, 1)


def create(channel, *requests):
    call = channel.stream_unary(
        "/bucketq.v1.Queue/CreateObject",
        request_serializer=pb.CreateObjectRequest.SerializeToString,
        response_deserializer=pb.Done.FromString,
    )
    return call(iter(requests), timeout=20)


PAYLOAD = "payloads/000000000001-00000000000000aa"
SEGMENT = "backlog/000000000001-00000000000000aa.json"


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [pb.CreateObjectRequest(name=PAYLOAD, size_bytes=10, content=b"half")],
        [pb.CreateObjectRequest(name=PAYLOAD, size_bytes=2, content=b"more")],
        [pb.CreateObjectRequest(name="archive/2026-01-01T00/000000000001.json", size_bytes=1, content=b"x")],
        [pb.CreateObjectRequest(name="../queue.json", size_bytes=1, content=b"x")],
    ],
    ids=["nothing", "half of it", "more", "the archive", "elsewhere"],
)
def test_only_whole_payloads_and_segments_are_created(channel, tmp_path, requests):
    with pytest.raises(grpc.RpcError):
        create(channel, *requests)
    assert not [path for path in (tmp_path / "queue").rglob("*") if path.is_file()]


def entry(**changes):
    place = [0, 0, 1]
    told = {"name": SEGMENT, "entrypoint": "mail", "count": 1, "size": 1, "first": place, "last": place}
    return json.dumps({**told, "ids": ["a", "b"], **changes}).encode()


@pytest.mark.parametrize(
    "operation",
    [
        pb.Operation(enqueue=pb.EnqueueRequest(jobs=[pb.NewJob(entrypoint="x", payload_object=SEGMENT)])),
        pb.Operation(enqueue=pb.EnqueueRequest(jobs=[pb.NewJob(entrypoint="x" * 1000)])),
        pb.Operation(enqueue=pb.EnqueueRequest(jobs=[pb.NewJob(entrypoint="x", created_at_us=2**62)])),
        pb.Operation(enqueue_segments=pb.EnqueueSegmentsRequest(segments=[entry(), entry()])),
        pb.Operation(enqueue_segments=pb.EnqueueSegmentsRequest(segments=[entry(count=2**62)])),
        pb.Operation(dequeue=pb.DequeueRequest(token="x" * 1000)),
        pb.Operation(ack_many=pb.AckManyRequest(claims=[pb.Claim(job_id="1")], results=[b"{"])),
        pb.Operation(ack_many=pb.AckManyRequest(claims=[pb.Claim(job_id="1")], results=[b"1", b"2"])),
        pb.Operation(heartbeat_many=pb.HeartbeatManyRequest(beats=[pb.HeartbeatRequest(progress=2)])),
    ],
    ids=[
        *("a segment as a payload", "a long name", "no time", "twice", "a huge count", "a long token"),
        *("no JSON", "too many results", "too much progress"),
    ],
)
def test_what_would_harm_the_queue_is_refused_and_the_others_are_not(channel, url, operation):
    for job in operation.enqueue.jobs:
        job.id, job.created_at_us = "1", job.created_at_us or 1
    good = pb.Operation(enqueue=pb.EnqueueRequest(jobs=[pb.NewJob(entrypoint="x", id="2", created_at_us=1)]))
    batch = pb.BatchRequest(session="s", number=1, operations=[operation, good])
    if operation.enqueue.jobs and operation.enqueue.jobs[0].created_at_us > 2**61:
        # What cannot be read as an operation at all fails its message.
        with pytest.raises(grpc.RpcError, match="no time"):
            ask(channel, "Batch", batch, pb.BatchResponse)
    else:
        bad, fine = ask(channel, "Batch", batch, pb.BatchResponse).answers
        assert (bad.WhichOneof("answer"), fine.WhichOneof("answer")) == ("refusal", "added")
    ask(channel, "Enqueue", pb.EnqueueRequest(jobs=[pb.NewJob(entrypoint="x")]), pb.Jobs)
    state = asyncio.run(bucketq.connect(url).read_state())
    assert {job.entrypoint for job in state.jobs} == {"x"}


def test_a_refused_transaction_removes_nothing_that_it_names(channel, tmp_path):
    create(channel, pb.CreateObjectRequest(name=PAYLOAD, size_bytes=1, content=b"x"))
    operations = [
        pb.Operation(ack=pb.AckRequest(claim=pb.Claim(job_id="nobody"))),
        pb.Operation(
            enqueue=pb.EnqueueRequest(
                jobs=[pb.NewJob(entrypoint="x", payload_object=PAYLOAD, payload_size=1)]
            )
        ),
    ]
    with pytest.raises(grpc.RpcError) as refused:
        ask(channel, "Transaction", pb.TransactionRequest(operations=operations), pb.Done)
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    assert (tmp_path / "queue" / PAYLOAD).exists()


async def test_one_callers_mistake_is_no_other_callers(url):
    with hosted(url) as broker:
        async with bucketq.connect(f"grpc://{broker.address}") as q:
            await q.enqueue("mail")
            outcomes = await asyncio.gather(
                q.ack("\ud800"),
                q.dequeue("mail", batch_size=20_000),
                q.enqueue("mail"),
                return_exceptions=True,
            )
            assert isinstance(outcomes[0], bucketq.BucketQError)
            assert len(outcomes[1]) in (1, 2)
            assert outcomes[2].entrypoint == "mail"
            results = [q.ack(job, "x" * 60_000) for job in outcomes[1]]
            assert await asyncio.gather(*results) == [None] * len(results)


async def test_many_large_results_do_not_pass_what_a_message_may_hold(url):
    with hosted(url) as broker:
        async with bucketq.connect(f"grpc://{broker.address}") as q:
            await q.enqueue_many("mail", range(1500))
            jobs = await q.dequeue(batch_size=1500)
            await asyncio.gather(*(q.ack(job, "x" * 60_000) for job in jobs))
            assert (await q.stats()).completed_total == len(jobs) == 1500


@pytest.mark.parametrize("way", WAYS)
async def test_a_new_client_that_asks_the_wrong_broker_first_is_served(url, tmp_path, way):
    # As in a queue that is old enough to have forgotten clients.
    await DirectQueue(LocalFileSystemStorage(tmp_path / "queue.json")).enqueue("mail")
    path = tmp_path / "queue.json"
    path.write_bytes(path.read_bytes().replace(b'"epoch":0', b'"epoch":0,"forgotten_sessions":1'))
    with hosted(url) as first, hosted(url, leads=False) as second:
        async with bucketq.connect(url_of(way, second, first)) as q:
            await q.enqueue("mail")
            assert (await q.stats()).enqueued_total == 2


def test_a_large_payload_is_read_apart_from_its_job(channel):
    large = pb.NewJob(entrypoint="video", payload=b"x" * 3_000_000)
    for _ in range(2):
        ask(channel, "Enqueue", pb.EnqueueRequest(jobs=[large]), pb.Jobs)
    jobs = ask(channel, "Dequeue", pb.DequeueRequest(batch_size=2), pb.Jobs).jobs
    assert [(job.payload, job.payload_size) for job in jobs] == [(b"", 3_000_000)] * 2
    read = channel.unary_stream(
        "/bucketq.v1.Queue/ReadObject",
        request_serializer=pb.ReadObjectRequest.SerializeToString,
        response_deserializer=pb.Chunk.FromString,
    )
    pieces = read(pb.ReadObjectRequest(name=jobs[0].payload_object), timeout=20)
    assert b"".join(piece.content for piece in pieces) == b"x" * 3_000_000
    with pytest.raises(grpc.RpcError) as refused:
        list(read(pb.ReadObjectRequest(name="../../etc/hostname"), timeout=20))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_queue_that_no_waiting_will_mend_is_refused_at_the_start(url, tmp_path):
    (tmp_path / "queue.json").write_text("{}")
    broker = Served(url, "--grpc-port", "0", "--http-port", "0")
    assert broker.wait() == 2
    assert "not a readable queue" in broker.log[-1]["message"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_that_gave_up_waiting_is_closed_without_it(way, monkeypatch):
    monkeypatch.setattr(lane, "_LAST_TRY_S", 0.2)
    # What was given up goes on being tried for 1,000 s, and a close that waited for it would not end here.
    q = bucketq.connect(f"{way}://localhost:1", settings=Settings(retry_for_s=1000))
    async with asyncio.timeout(60), q:
        for call in (q.enqueue("mail"), q.dequeue(wait=1000)):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(call, 0.1)


async def test_a_broker_may_speak_http_alone(url, tmp_path):
    with served(url, "--no-grpc") as broker:
        broker.wait_for("leading")
        async with bucketq.connect(f"http://{broker.http}") as q:
            await q.enqueue("mail")
        leader = json.loads((tmp_path / "queue.json").read_text())["leader"]
    assert (leader["address"], leader["http"]) == ("", broker.http)
