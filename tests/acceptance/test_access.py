"""Who may do what: everything that can be asked of a broker, by each of its ways, with every kind of token.

The tables are made from the broker's own: a route, a call or a method that is new is tried too, and one whose
role nobody has thought of fails here.
"""

import asyncio
import json
import re
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import httpx
import pytest
import websockets
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2
from starlette.routing import WebSocketRoute

import bucketq
from bucketq import ForbiddenError, LocalFileSystemStorage, UnauthenticatedError
from bucketq.app.call import Call
from bucketq.app.outcome import Completed
from bucketq.app.settling import Settling
from bucketq.broker.access import Role
from bucketq.broker.allowance import Allowance
from bucketq.broker.broker import Broker
from bucketq.broker.calls import CALLS
from bucketq.broker.door import Door
from bucketq.broker.http_shell import HttpShell
from bucketq.broker.metrics import Metrics
from bucketq.broker.place import Place
from bucketq.broker.rpc import Rpc
from bucketq.broker.service import Service
from bucketq.broker.ws_shell import AUTHENTICATE
from bucketq.v1 import queue_pb2 as pb
from tests.acceptance.guarded import SERVICE, asking, bearer, guarded

# These are for everybody, by design: whether a broker is well, and which questions there are.
OPEN_ROUTES = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/openapi.json")}
HEALTH, REFLECTION = "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"
# What is no call, and so has no role of its own in the table of calls.
VIEWERS, CREATORS = {Role.VIEWER}, {Role.PRODUCER, Role.WORKER}
OTHER_ROUTES = {
    ("GET", "/v1/events"): VIEWERS,
    ("GET", "/metrics"): VIEWERS,
    ("GET", "/v1/objects/{name:path}"): VIEWERS,
    ("PUT", "/v1/objects/{name:path}"): CREATORS,
}
STREAMS = {"ReadObject": VIEWERS, "CreateObject": CREATORS}
CLAIM = pb.Claim(job_id="1", token="t")
NEW_JOB = pb.NewJob(entrypoint="x", id="1", created_at_us=1)
# Kinds of tokens with which nobody comes in.
STRANGERS = ("none", "wrong", "expired")


@pytest.fixture
async def broker(tmp_path):
    async with guarded(tmp_path) as broker:
        yield broker


def new_rpc():
    return Rpc(Service(Broker(LocalFileSystemStorage("queue.json"))))


def http_table():
    """Every route with its method, as a path that can be asked for, and who may; None is everybody."""
    broker = Broker(LocalFileSystemStorage("queue.json"))
    service = Service(broker)
    rpc = Rpc(service)
    calls = {(call.method, call.path): {call.role} for call in CALLS.values()}
    for route in HttpShell(service, rpc, Door(), Allowance(), Metrics(broker)).app.routes:
        if isinstance(route, WebSocketRoute):
            assert route.path == "/v1/ws", "who may come in there?"
            continue
        assert isinstance(route.endpoint, Place), f"who may do what at {route.path}?"
        for method in route.endpoint.endpoints:
            key = method, route.path
            if route.path == "/v1/rpc/{method}":
                for name, one in rpc.methods.items():
                    yield method, f"/v1/rpc/{name}", {one.role}, asked(one.request.DESCRIPTOR)
                continue
            allowed = None if key in OPEN_ROUTES else calls.get(key) or OTHER_ROUTES.get(key)
            assert allowed or key in OPEN_ROUTES, f"who may {method} {route.path}? List it here"
            path = route.path.replace("{name:path}", "payloads/000000000001-00000000000000aa")
            yield method, re.sub(r"{\w+}", "some", path), allowed, b""


def asked(descriptor):
    """A message of a kind; a worker speaks of a claim by its token."""
    has_claim = "claim" in descriptor.fields_by_name
    message = getattr(pb, descriptor.name)(**{"claim": CLAIM} if has_claim else {})
    return message.SerializeToString()


# What was decided. Of those that are a viewer's, batches and transactions look at what is inside.
CALL_ROLES = {
    Role.VIEWER: "listJobs getJob getPayload getResult getStats getState getLimits getBatch listSchedules"
    " transact getThrottleStats",
    Role.PRODUCER: "submitJob submitBatch cancelJob putSchedule removeSchedule",
    Role.WORKER: "claimJob claimJobs heartbeat heartbeatMany completeJob completeMany failJob releaseJob"
    " releaseMany",
    Role.ADMIN: "pause resume setLimit redriveJob redriveMany discardJob discardMany requeueStale"
    " collectGarbage",
}
METHOD_ROLES = {
    Role.VIEWER: "Transaction Batch Stats ListJobs FindArchived WaitReady ListObjects Spending Leader",
    Role.PRODUCER: "Enqueue Cancel",
    Role.WORKER: "Dequeue Heartbeat Ack Nack",
    Role.ADMIN: "Redrive Discard CollectGarbage",
}


def test_every_call_and_method_has_the_role_that_was_decided():
    for table, decided in ((CALLS, CALL_ROLES), (new_rpc().methods, METHOD_ROLES)):
        roles = {name: role for role, names in decided.items() for name in names.split()}
        assert {name: one.role for name, one in table.items()} == roles, "decide who may do what is new"


def may(role, allowed):
    return allowed == VIEWERS or role is Role.ADMIN or role in allowed


async def test_every_route_wants_a_good_token_of_the_right_role(broker):
    table = list(http_table())
    assert len(table) > len(CALLS) + len(new_rpc().methods)
    async with httpx.AsyncClient(base_url=broker.http, timeout=20) as client:

        async def status_of(method, path, kind, content=b""):
            headers = bearer(broker.secrets[kind])
            request = client.build_request(method, path, content=content, headers=headers)
            # Some answers are streams that do not end.
            answer = await client.send(request, stream=True)
            await answer.aclose()
            assert (answer.status_code == 401) == (answer.headers.get("www-authenticate") == "Bearer")
            return answer.status_code

        for method, path, allowed, content in table:
            for kind in (*STRANGERS, *Role):
                status = await status_of(method, path, kind, content)
                if allowed is None:
                    assert status not in (401, 403), (method, path, kind)
                elif kind in STRANGERS:
                    assert status == 401, (method, path, kind)
                else:
                    assert (status == 403) != may(kind, allowed), (method, path, kind, status)
                    assert status != 401, (method, path, kind)
        # By whatever name the broker is reached: who asks is known by the token.
        headers = {**bearer(broker.secrets[Role.VIEWER]), "host": "queue.example"}
        assert (await client.get("/v1/stats", headers=headers)).status_code == 200
        # What is not there is no secret, but whoever asks has to say who they are wherever something is.
        assert await status_of("GET", "/v1/nothing", "none") == 404


async def test_every_method_of_grpc_wants_a_good_token_of_the_right_role(broker):
    methods = new_rpc().methods
    async with grpc.aio.insecure_channel(broker.grpc) as channel:
        for method in SERVICE.methods:
            allowed = STREAMS.get(method.name) or {methods[method.name].role}
            for kind in (*STRANGERS, *Role):
                code = await code_of(channel, method, tuple(bearer(broker.secrets[kind]).items()))
                if kind in STRANGERS:
                    assert code is grpc.StatusCode.UNAUTHENTICATED, (method.name, kind)
                else:
                    is_refused = code is grpc.StatusCode.PERMISSION_DENIED
                    assert is_refused != may(kind, allowed), (method.name, kind, code)
                    assert code is not grpc.StatusCode.UNAUTHENTICATED, (method.name, kind)


async def code_of(channel, method, metadata):
    streams = method.client_streaming, method.server_streaming
    kind = "_".join("stream" if is_stream else "unary" for is_stream in streams)
    call = getattr(channel, kind)(f"/{SERVICE.full_name}/{method.name}")
    content = asked(method.input_type)
    try:
        if method.client_streaming:
            await call(iter([content]), metadata=metadata, timeout=20)
        elif method.server_streaming:
            [_ async for _ in call(content, metadata=metadata, timeout=20)]
        else:
            await call(content, metadata=metadata, timeout=20)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_every_call_and_method_by_websocket_wants_a_good_token_of_the_right_role(broker):
    methods = new_rpc().methods
    for kind in (*STRANGERS, *Role):
        async with talking(broker, bearer(broker.secrets[kind])) as (ask, ask_frame):
            for call in CALLS.values():
                check_tag((await ask(call.name)).get("error", {}).get("_tag"), kind, {call.role}, call.name)
            for name, method in methods.items():
                refusal = await ask_frame(name, asked(method.request.DESCRIPTOR))
                check_tag(refusal, kind, {method.role}, name)


def check_tag(tag, kind, allowed, name):
    if kind in STRANGERS:
        assert tag == "UnauthenticatedError", (name, kind)
    else:
        assert (tag == "ForbiddenError") != may(kind, allowed), (name, kind, tag)
        assert tag != "UnauthenticatedError", (name, kind)


@pytest.mark.parametrize("scheme", ["grpc", "http", "ws"])
async def test_a_client_without_a_token_learns_where_to_put_it(broker, scheme):
    address = broker.grpc if scheme == "grpc" else broker.http.removeprefix("http://")
    async with bucketq.connect(f"{scheme}://{address}") as q:
        with pytest.raises(UnauthenticatedError, match="Set BUCKETQ_TOKEN or BUCKETQ_TOKEN_FILE"):
            await q.stats()


async def test_browsers_show_their_token_by_the_first_call(broker):
    async with talking(broker, {}) as (ask, _):
        assert (await ask("getStats"))["error"]["_tag"] == "UnauthenticatedError"
        for kind in ("wrong", "expired"):
            refused = await ask(AUTHENTICATE, {"token": broker.secrets[kind]})
            assert refused["error"]["_tag"] == "UnauthenticatedError"
        assert (await ask(AUTHENTICATE, {"token": broker.secrets[Role.VIEWER]}))["ok"]
        assert (await ask("getStats"))["ok"]
        assert (await ask("submitJob", {"payload": 1}))["error"]["_tag"] == "ForbiddenError"
        # A token that is not good takes nothing away.
        assert not (await ask(AUTHENTICATE, {"token": "bq_wrong"}))["ok"]
        assert (await ask("getStats"))["ok"]


@asynccontextmanager
async def talking(broker, headers):
    """Asks on one WebSocket, in JSON or by Frames, one thing after the other."""
    url = broker.http.replace("http", "ws") + "/v1/ws"
    async with websockets.connect(url, additional_headers=headers) as socket:

        async def ask(method, params=None):
            await socket.send(json.dumps({"id": 1, "method": method, "params": params or {}}))
            return json.loads(await socket.recv())

        async def ask_frame(method, content):
            await socket.send(pb.Frame(id=1, method=method, body=content).SerializeToString())
            return pb.Frame.FromString(await socket.recv()).refusal.error

        yield ask, ask_frame


async def test_only_the_health_is_open_beside_the_queue(broker):
    everything = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()

    def look():
        with grpc.insecure_channel(broker.grpc) as channel:
            reflect = channel.stream_stream(f"/{REFLECTION}/ServerReflectionInfo")
            with pytest.raises(grpc.RpcError) as refused:
                list(reflect(iter([everything]), timeout=20))
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
            metadata = tuple(bearer(broker.secrets[Role.VIEWER]).items())
            [answer] = reflect(iter([everything]), metadata=metadata, timeout=20)
            told = reflection_pb2.ServerReflectionResponse.FromString(answer).list_services_response
            assert {one.name for one in told.service} == {SERVICE.full_name, HEALTH, REFLECTION}
            check = channel.unary_unary(
                f"/{HEALTH}/Check",
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            assert check(health_pb2.HealthCheckRequest(), timeout=20).status == 1

    await asyncio.to_thread(look)


def operation_of(field):
    """An operation of a kind, as well-formed as need be to come as far as the question who may."""
    operation = pb.Operation()
    message = getattr(operation, field.name)
    message.SetInParent()
    single = {
        "dequeue": {"token": "t"},
        "dequeue_segment": {"token": "t"},
        "redrive": {"job_id": "1", "new_id": "2"},
        "put_schedule": {"name": "s", "every_s": 1, "job": NEW_JOB},
        "enqueue_batch": {
            "then": NEW_JOB,
            "jobs": pb.EnqueueRequest(),
        },
        "set_limit": {"entrypoint": "x", "limit": pb.Limit(max_running=1)},
    }
    given = single.get(field.name) or (
        {"claim": CLAIM} if "claim" in field.message_type.fields_by_name else {}
    )
    for name, value in given.items():
        if isinstance(value, str | int):
            setattr(message, name, value)
        else:
            getattr(message, name).CopyFrom(value)
    return operation


# What each operation within a Batch needs. A new one is an admin's until somebody decides.
OPERATIONS = {
    Role.VIEWER: {
        "find",
        "stats",
        "version",
        "find_batch",
        "look_up",
        "list_schedules",
        "limits",
        "transaction",
    },
    Role.PRODUCER: {
        *("enqueue", "enqueue_segments", "enqueue_batch", "cancel", "put_schedule", "remove_schedule"),
    },
    Role.WORKER: {
        *("dequeue", "ack", "ack_many", "nack", "heartbeat", "heartbeat_many", "release", "bury", "crash"),
        *("dequeue_segment", "heartbeat_segment", "release_segment", "settle_segment"),
    },
}


@pytest.mark.parametrize("way", ["grpc", "http"])
async def test_every_operation_of_a_batch_needs_its_role(broker, way):
    fields = pb.Operation.DESCRIPTOR.fields
    async with asking(broker, way) as ask:
        for number, field in enumerate(fields):
            [role] = [role for role, names in OPERATIONS.items() if field.name in names] or [Role.ADMIN]
            for kind in Role:
                batch = pb.BatchRequest(
                    session=f"{kind}-{number}", number=1, operations=[operation_of(field)]
                )
                [answer] = (await ask("Batch", batch, pb.BatchResponse, kind)).answers
                is_refused = answer.refusal.error == "ForbiddenError"
                assert is_refused != may(kind, {role}), (field.name, kind, answer)


@pytest.mark.parametrize("scheme", ["grpc", "http", "ws"])
async def test_a_worker_makes_the_schedules_of_its_handlers_and_no_others(broker, scheme):
    address = broker.grpc if scheme == "grpc" else broker.http.removeprefix("http://")
    url = f"{scheme}://{address}"
    async with (
        bucketq.connect(url, token=broker.secrets[Role.WORKER]) as worker,
        bucketq.connect(url, token=broker.secrets[Role.VIEWER]) as viewer,
    ):
        await worker.schedule("report", "report", every=60)
        await worker.schedule("report", "report", {}, cron="0 9 * * *", priority=3)
        for name, payload in (("report", {"to": "mallory"}), ("nightly", {}), ("report", [])):
            with pytest.raises(ForbiddenError, match="needs the role producer"):
                await worker.schedule(name, "report", payload, every=1)
        with pytest.raises(ForbiddenError, match="needs the role producer"):
            await worker.unschedule("report")
        with pytest.raises(ForbiddenError, match="needs the role producer"):
            await viewer.schedule("report", "report", every=60)
        [made] = await viewer.schedules()
        assert (made.cron, made.job.priority) == ("0 9 * * *", 3)


async def test_a_job_whose_worker_may_not_enqueue_what_follows_is_dead_and_has_the_reason(broker):
    async with (
        bucketq.connect(f"grpc://{broker.grpc}", token=broker.secrets[Role.ADMIN]) as admin,
        bucketq.connect(f"grpc://{broker.grpc}", token=broker.secrets[Role.WORKER]) as worker,
    ):
        await admin.enqueue("parent")
        [job] = await worker.dequeue("parent")
        settled = asyncio.Event()
        settling = Settling(worker, lambda: None if len(settling) else settled.set())
        settling.add(job, Completed(calls=(Call("child", b"{}", 0, {}),)))
        task = asyncio.create_task(settling.run())
        async with asyncio.timeout(60):
            await settled.wait()
        task.cancel()
        [dead] = [one async for one in admin.dead()]
        assert "what it enqueues was refused: this needs the role producer" in dead.error


@pytest.mark.parametrize("way", ["grpc", "http"])
async def test_what_is_inside_a_transaction_needs_its_role(broker, way):
    enqueue = pb.Operation(enqueue=pb.EnqueueRequest(jobs=[NEW_JOB]))
    ack = pb.Operation(ack=pb.AckRequest(claim=CLAIM))
    nobodys = pb.Operation(ack=pb.AckRequest(claim=pb.Claim(job_id="1")))
    wanted = {Role.VIEWER: enqueue, Role.PRODUCER: ack, "other worker": enqueue, Role.WORKER: nobodys}
    async with asking(broker, way) as ask:
        for kind, operation in wanted.items():
            transaction = pb.TransactionRequest(operations=[operation])
            batch = pb.BatchRequest(
                session=kind, number=1, operations=[pb.Operation(transaction=transaction)]
            )
            [answer] = (await ask("Batch", batch, pb.BatchResponse, kind)).answers
            assert answer.refusal.error == "ForbiddenError", kind
            with pytest.raises((grpc.aio.AioRpcError, AssertionError), match=r"this needs|worker settles"):
                await ask("Transaction", transaction, pb.Done, kind)
        assert (await ask("Stats", pb.StatsRequest(), pb.StatsResponse, Role.VIEWER)).enqueued_total == 0
