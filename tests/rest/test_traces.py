"""A request of a trace: the jobs that it submits are of that trace too, whether the broker traces or not."""

import asyncio
import gc
import logging

import grpc.aio
import pytest

from bucketq.v1 import queue_pb2 as pb
from tests.app.traced import kept_spans, parent_of, trace_of

SENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-01"
HEADERS = {"traceparent": SENT, "tracestate": "vendor=abc"}


async def told(http, job_id):
    job = (await http.get(f"/v1/jobs/{job_id}")).json()
    return job.get("traceparent"), job.get("tracestate")


async def submitted(http, headers=HEADERS, **more):
    answer = await http.post("/v1/jobs", json={"type": "mail", **more}, headers=headers)
    return answer.json()["jobId"]


async def test_a_job_is_of_the_trace_of_its_request(http):
    assert await told(http, await submitted(http)) == (SENT, "vendor=abc")
    assert await told(http, await submitted(http, headers={})) == (None, None)


async def test_a_job_may_name_its_trace_itself(http):
    assert await told(http, await submitted(http, traceparent=OTHER)) == (OTHER, None)


@pytest.mark.parametrize("wrong", ["nonsense", SENT.upper(), SENT + "-00", "x" * 5000])
async def test_what_is_no_trace_is_dropped_and_the_job_is_taken(http, wrong):
    assert await told(http, await submitted(http, headers={"traceparent": wrong})) == (None, None)
    assert await told(http, await submitted(http, headers={}, traceparent=wrong)) == (None, None)


async def test_batches_what_follows_them_and_transactions_are_of_it_too(http):
    batch = {"type": "mail", "payloads": [1, 2], "then": {"type": "report"}}
    made = (await http.post("/v1/jobs/batch", json=batch, headers=HEADERS)).json()
    for job_id in made["jobIds"]:
        assert await told(http, job_id) == (SENT, "vendor=abc")
    for _ in made["jobIds"]:
        claimed = (await http.post("/v1/jobs/claim", json={"workerId": "w"})).json()
        assert (claimed["traceparent"], claimed["tracestate"]) == (SENT, "vendor=abc"), "its worker can go on"
        await http.post(f"/v1/jobs/{claimed['jobId']}/complete", json={"workerId": "w"})
    assert await told(http, made["batchId"]) == (SENT, "vendor=abc")
    operations = {"operations": [{"do": "submit", "type": "mail"}]}
    [job_id] = (await http.post("/v1/transactions", json=operations, headers=HEADERS)).json()["jobIds"]
    assert await told(http, job_id) == (SENT, "vendor=abc")


async def test_by_grpc_it_is_in_the_metadata(broker, http):
    async with grpc.aio.insecure_channel(broker.address) as channel:
        call = channel.unary_unary(
            "/bucketq.v1.Queue/Enqueue",
            request_serializer=pb.EnqueueRequest.SerializeToString,
            response_deserializer=pb.Jobs.FromString,
        )
        request = pb.EnqueueRequest(jobs=[pb.NewJob(entrypoint="mail")])
        [job] = (await call(request, metadata=tuple(HEADERS.items()))).jobs
    assert await told(http, job.id) == (SENT, "vendor=abc")


async def test_whoever_leaves_a_stream_leaves_no_trouble(broker, http, caplog):
    await broker.storage.objects.create("payloads/film", b"0" * 20_000_000)
    async with grpc.aio.insecure_channel(broker.address) as channel:
        stream = channel.unary_stream("/bucketq.v1.Queue/ReadObject")
        request = pb.ReadObjectRequest(name="payloads/film").SerializeToString()
        with kept_spans() as kept:
            call = stream(request, metadata=tuple(HEADERS.items()))
            await call.read()
            call.cancel()
            async with asyncio.timeout(10):
                while not kept.named("ReadObject"):
                    await asyncio.sleep(0.01)
            async with http.stream("GET", "/v1/events", headers=HEADERS):
                pass
            gc.collect()
            await http.get("/v1/stats")
            assert not kept.named("streamEvents"), "which may take hours"
    # When gRPC was just sending, it says itself that nobody is there any more.
    errors = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert not [one for one in errors if "ExecuteBatchError raised in core" not in one.getMessage()]


async def test_a_broker_that_traces_puts_its_spans_between(http):
    with kept_spans() as kept:
        job_id = await submitted(http)
        await http.get("/v1/stats")
        request, enqueue = kept.one("submitJob"), kept.one("enqueue mail")
        assert not kept.named("getStats"), "whoever does not trace is not traced"
    assert (f"{trace_of(request):032x}", f"{parent_of(request):016x}") == tuple(SENT.split("-")[1:3])
    assert parent_of(enqueue) == request.context.span_id
    traceparent, tracestate = await told(http, job_id)
    assert (traceparent.split("-")[2], tracestate) == (f"{enqueue.context.span_id:016x}", "vendor=abc")
    assert (request.attributes["rpc.method"], request.attributes["bucketq.way"]) == ("submitJob", "http")
