"""The limits of `bucketq serve`: what is more is refused with a clear error, by HTTP and by gRPC."""

import json

import grpc
import pytest
from grpc_status import rpc_status

from bucketq.errors import TooManyRequestsError
from bucketq.v1 import queue_pb2 as pb
from bucketq.wire import error_of
from tests.acceptance.hostile import Besieged
from tests.acceptance.served import served


@pytest.fixture
def serve(tmp_path):
    with_exits = []

    def start(*options):
        context = served(f"file://{tmp_path}/queue.json", *options)
        with_exits.append(context)
        return Besieged(context.__enter__())

    yield start
    for context in with_exits:
        context.__exit__(None, None, None)


def post(path, body):
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


def get(path):
    return f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()


def refusal_of(target, method, request):
    """The error that a call by gRPC is refused with, and its status."""
    address, path = f"127.0.0.1:{target.grpc_port}", f"/bucketq.v1.Queue/{method}"
    with grpc.insecure_channel(address) as channel, pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(path)(request.SerializeToString(), timeout=20)
    refusal = pb.Refusal()
    assert rpc_status.from_call(refused.value).details[0].Unpack(refusal)
    return error_of(refusal), refused.value.code()


def may_wait(channel):
    wait = pb.WaitReadyRequest(timeout_us=1000).SerializeToString()
    try:
        channel.unary_unary("/bucketq.v1.Queue/WaitReady")(wait, timeout=20)
    except grpc.RpcError as error:
        return error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED
    return True


def test_a_rate(serve):
    target = serve("--rate-per-client", "0.1", "--burst-per-client", "5")
    assert [target.talk(get("/v1/stats")).status for _ in range(6)] == [200] * 5 + [429]
    answer = target.talk(post("/v1/jobs", {}))
    assert (answer.status, answer.tag) == (429, "TooManyRequestsError")
    assert 1 <= int(answer.headers["retry-after"]) <= 10
    error, code = refusal_of(target, "Stats", pb.StatsRequest())
    assert isinstance(error, TooManyRequestsError)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    # Whoever looks after the process may always ask.
    assert [target.talk(get("/healthz")).status for _ in range(20)] == [200] * 20
    assert target.talk(get("/readyz")).status == 200


def test_waiting_calls(serve):
    target = serve("--waiting-per-client-max", "2")
    wait = post("/v1/jobs/claim", {"workerId": "w", "wait": 60})
    waiting = [target.connect() for _ in range(2)]
    for line in waiting:
        line.sendall(wait)
    target.wait_until(
        lambda: target.talk(post("/v1/jobs/claim", {"workerId": "w", "wait": 0.01})).status == 429
    )
    error, _ = refusal_of(target, "WaitReady", pb.WaitReadyRequest(timeout_us=10_000_000))
    assert isinstance(error, TooManyRequestsError)
    assert target.talk(get("/v1/events")).status == 429
    # What does not wait goes on.
    assert target.talk(post("/v1/jobs/claim", {"workerId": "w"})).status == 200
    for line in waiting:
        line.close()
    target.wait_until(
        lambda: target.talk(post("/v1/jobs/claim", {"workerId": "w", "wait": 0.01})).status == 200
    )


def test_if_all_connections_are_at_work_a_new_one_is_told(serve):
    target = serve("--connections-max", "5", "--waiting-per-client-max", "5")
    lines = [target.connect() for _ in range(5)]
    for line in lines:
        line.sendall(post("/v1/jobs/claim", {"workerId": "w", "wait": 60}))
    # A sixth that would wait, by the other port, is refused as soon as all five do.
    address = f"127.0.0.1:{target.grpc_port}"
    with grpc.insecure_channel(address) as channel:
        target.wait_until(lambda: not may_wait(channel))
    assert target.talk(get("/healthz")).status == 503
    for line in lines:
        line.close()
    target.wait_until(lambda: target.talk(get("/healthz")).status == 200)


def test_batches_and_payloads(serve):
    target = serve("--batch-max", "10", "--payload-bytes-max", "1000")
    batch = {"type": "t", "payloads": [1] * 11}
    assert target.talk(post("/v1/jobs/batch", batch)).tag == "TooLargeError"
    for _ in range(2):
        assert target.talk(post("/v1/jobs/batch", batch | {"payloads": [1] * 10})).status == 200
    claimed = json.loads(target.talk(post("/v1/claims", {"workerId": "w", "batchSize": 15})).body)["jobs"]
    assert len(claimed) == 10, "of those who want more, nobody gets more"
    claims = [{"jobId": "1", "token": "t"}] * 11
    for path in ("/v1/claims/complete", "/v1/claims/heartbeat", "/v1/claims/release"):
        assert target.talk(post(path, {"claims": claims})).tag == "TooLargeError"
    parts = [{"do": "submit"}] * 11
    assert target.talk(post("/v1/transactions", {"operations": parts})).tag == "TooLargeError"
    many = pb.EnqueueRequest(jobs=[pb.NewJob(entrypoint="t")] * 11)
    assert "10 jobs" in str(refusal_of(target, "Enqueue", many)[0])
    assert target.talk(post("/v1/jobs", {"payload": "x" * 2000})).status == 413
    large = pb.EnqueueRequest(jobs=[pb.NewJob(entrypoint="t", payload=b"x" * 2000)])
    assert "1000 bytes" in str(refusal_of(target, "Enqueue", large)[0])
    then = pb.NewJob(entrypoint="t", id="1", created_at_us=1, payload=b"x" * 2000)
    follows = pb.Operation(enqueue_batch=pb.EnqueueBatchRequest(then=then, jobs=pb.EnqueueRequest()))
    request = pb.BatchRequest(session="s", number=1, operations=[follows])
    with grpc.insecure_channel(f"127.0.0.1:{target.grpc_port}") as channel:
        told = channel.unary_unary("/bucketq.v1.Queue/Batch")(request.SerializeToString(), timeout=20)
    [answer] = pb.BatchResponse.FromString(told).answers
    assert answer.refusal.error == "TooLargeError"


def test_larger_batches_are_allowed(serve):
    target = serve("--batch-max", "20000")
    batch = {"type": "t", "payloads": [1] * 20_000}
    assert target.talk(post("/v1/jobs/batch", batch)).status == 200
    assert target.talk(post("/v1/jobs/batch", batch | {"payloads": [1] * 20_001})).status == 413
