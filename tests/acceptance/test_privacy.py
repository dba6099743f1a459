"""What is somebody else's: the tokens of claims, jobs that another worker holds, files that are none."""

import asyncio
import json

import grpc
import grpc.aio
import httpx
import pytest

import bucketq
from bucketq import Settings
from bucketq.broker.access import Role
from bucketq.broker.calls import CALLS
from bucketq.v1 import queue_pb2 as pb
from tests.acceptance.guarded import asking, bearer, guarded


@pytest.fixture
async def broker(tmp_path):
    async with guarded(tmp_path) as broker:
        yield broker


@pytest.mark.parametrize("kind", [Role.VIEWER, Role.PRODUCER, "other worker"])
async def test_nobody_but_its_worker_and_admins_sees_the_token_of_a_claim(broker, kind):
    small = Settings(hot_jobs_max=10, segment_jobs_max=10)
    worker = bucketq.connect(f"grpc://{broker.grpc}", token=broker.secrets[Role.WORKER])
    admin = bucketq.connect(f"grpc://{broker.grpc}", token=broker.secrets[Role.ADMIN], settings=small)
    async with worker, admin:
        await admin.enqueue("mail", {"n": 1}, key="k")
        await admin.enqueue_many("many", range(30))
        [job] = await worker.dequeue("mail")
        held = await worker.dequeue_segment("many")
        claims = {job.token.encode(), held.hold.token.encode()}
        sessions = [name.encode() for name in json.loads(await state_for(broker, Role.ADMIN))["sessions"]]
        assert sessions, "there are some to be hidden"
        in_segment = (await jobs_for(broker, Role.ADMIN))[-1].id
        seen = await everything_seen(broker, kind, job.id, in_segment)
        for secret in (*claims, *sessions):
            assert secret not in seen
        seen = await everything_seen(broker, Role.ADMIN, job.id, in_segment)
        for secret in (*claims, *sessions):
            assert secret in seen, "and it would have been found"


async def state_for(broker, kind):
    async with httpx.AsyncClient(base_url=broker.http) as client:
        return (await client.get("/v1/objects/", headers=bearer(broker.secrets[kind]))).content


async def jobs_for(broker, kind):
    async with asking(broker, "grpc") as ask:
        request = pb.ListJobsRequest(page_size=1000)
        return (await ask("ListJobs", request, pb.ListJobsResponse, kind)).jobs


async def everything_seen(broker, kind, *job_ids):
    """All bytes that a caller gets to see by looking, by all ways."""
    seen = []
    secret = broker.secrets[kind]
    operations = [pb.Operation(find=pb.FindRequest(job_id=one)) for one in job_ids]
    operations += [pb.Operation(look_up=pb.LookUpRequest(job_id=one)) for one in job_ids]
    if kind in (Role.PRODUCER, Role.ADMIN):
        # Also what is there already is told to those who want to add it, and where a job may be.
        again = pb.NewJob(
            entrypoint="mail", id=f"again-{kind}", created_at_us=1, options=pb.JobOptions(key="k")
        )
        operations.append(pb.Operation(enqueue=pb.EnqueueRequest(jobs=[again])))
        operations.append(pb.Operation(cancel=pb.CancelRequest(job_id=job_ids[1])))
    for way in ("grpc", "http"):
        async with asking(broker, way) as ask:
            jobs = await ask("ListJobs", pb.ListJobsRequest(page_size=1000), pb.ListJobsResponse, kind)
            batch = pb.BatchRequest(session=f"{kind} {way}", number=1, operations=operations)
            answers = await ask("Batch", batch, pb.BatchResponse, kind)
            assert "refusal" not in {answer.WhichOneof("answer") for answer in answers.answers}
            seen += [jobs.SerializeToString(), answers.SerializeToString()]
    async with httpx.AsyncClient(base_url=broker.http, timeout=20) as client:
        for call in CALLS.values():
            if call.role is Role.VIEWER and call.method == "GET" and "{jobId}" in call.path:
                for job_id in job_ids:
                    seen.append(await got(client, call.path.replace("{jobId}", job_id), secret))
            elif call.role is Role.VIEWER and call.method == "GET" and "{" not in call.path:
                seen.append(await got(client, call.path, secret))
        seen.append(await got(client, "/v1/objects/", secret))
    async with bucketq.connect(f"grpc://{broker.grpc}", token=secret) as q:
        state = await q.read_state()
        seen += [repr(state.jobs).encode(), repr(list(state.backlog)).encode()]
        seen += [repr(await q.find(job_id)).encode() for job_id in job_ids]
    return b"\n".join(seen)


async def got(client, path, secret):
    async with client.stream("GET", path, headers=bearer(secret)) as answer:
        assert answer.status_code < 500, (path, await answer.aread())
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            return await anext(answer.aiter_raw())
        return await answer.aread()


async def test_a_worker_settles_only_what_it_holds(broker):
    async with httpx.AsyncClient(base_url=broker.http, timeout=20) as client:

        async def post(path, content, kind):
            return await client.post(path, json=content, headers=bearer(broker.secrets[kind]))

        jobs = []
        for _ in range(3):
            await post("/v1/jobs", {"payload": 1}, Role.PRODUCER)
            jobs.append((await post("/v1/jobs/claim", {"workerId": "w"}, Role.WORKER)).json())
        job, other, _ = jobs
        for content in (
            {"workerId": "w"},
            {"workerId": "w@a-worker"},
            {"workerId": "w", "token": "guess"},
        ):
            for end in ("complete", "heartbeat", "fail"):
                refused = await post(f"/v1/jobs/{job['jobId']}/{end}", content, "other worker")
                assert (refused.status_code, refused.json()["_tag"]) == (409, "ClaimLostError")
        refused = await post(f"/v1/jobs/{job['jobId']}/complete", {}, Role.ADMIN)
        assert (refused.status_code, refused.json()["_tag"]) == (400, "ConfigurationError")
        refused = await post(f"/v1/jobs/{job['jobId']}/release", {"workerId": "w"}, "other worker")
        assert refused.status_code == 409
        assert (
            await post(f"/v1/jobs/{job['jobId']}/heartbeat", {"workerId": "w"}, Role.WORKER)
        ).status_code == 204
        assert (
            await post(f"/v1/jobs/{job['jobId']}/complete", {"workerId": "w"}, Role.WORKER)
        ).status_code == 204
        # A claim's token is proof enough, whoever shows it.
        settled = await post(f"/v1/jobs/{other['jobId']}/complete", {"token": other["token"]}, "other worker")
        assert settled.status_code == 204
    async with asking(broker, "grpc") as ask:
        claim = pb.Claim(job_id=jobs[2]["jobId"])
        for method in ("Ack", "Nack", "Heartbeat"):
            request = getattr(pb, f"{method}Request")(claim=claim)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ask(method, request, pb.Done, Role.WORKER)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        await ask("Ack", pb.AckRequest(claim=claim), pb.Done, Role.ADMIN)


OUTSIDE = [
    *(
        "../queue.json",
        "..%2fqueue.json",
        "%2e%2e/queue.json",
        "%2e%2e%2fqueue.json",
        "backlog/../../queue.json",
    ),
    *("backlog/..%2f..%2fqueue.json", "%2fetc/passwd", "/etc/passwd", "..%5cqueue.json", "..%252fqueue.json"),
    *(
        "%00",
        "backlog/%00",
        "queue.json%00",
        ".lock",
        "a%0ab",
        "a" * 5000,
        "backlog//x",
        "backlog/",
        "%ff%fe",
    ),
]


@pytest.mark.parametrize("name", OUTSIDE)
async def test_no_name_of_an_object_leads_outside(broker, tmp_path, name):
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    host, _, port = broker.http.removeprefix("http://").rpartition(":")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    for method in ("GET", "PUT"):
        # By hand: clients would tidy the path up.
        reader, writer = await asyncio.open_connection(host, port)
        token = broker.secrets[Role.WORKER]
        head = f"host: x\r\nauthorization: Bearer {token}\r\ncontent-length: 1\r\nconnection: close\r\n"
        writer.write(f"{method} /v1/objects/{name} HTTP/1.1\r\n{head}\r\nx".encode())
        answer = await reader.read()
        writer.close()
        assert answer.split()[1] in (b"400", b"404"), answer
        assert b"Traceback" not in answer
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
