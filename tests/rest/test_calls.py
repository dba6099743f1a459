"""Everything that a queue can do, over REST; and that nothing is left out."""

import asyncio
import base64
import inspect
from datetime import UTC, datetime, timedelta, timezone

from bucketq import InMemoryStorage
from bucketq.broker.allowance import Allowance
from bucketq.broker.broker import Broker
from bucketq.broker.calls import CALLS
from bucketq.broker.door import Door
from bucketq.broker.http_shell import HttpShell
from bucketq.broker.metrics import Metrics
from bucketq.broker.openapi import openapi
from bucketq.broker.rpc import Rpc
from bucketq.broker.service import Service
from bucketq.queue import Queue

# Which call does what a method of the queue does; or why none has to.
COVERED = {
    "enqueue": "submitJob",
    "enqueue_many": "submitBatch",
    "enqueue_batch": "submitBatch",
    "transaction": "transact",
    "dequeue": "claimJobs",
    "ack": "completeJob",
    "ack_many": "completeMany",
    "nack": "failJob",
    "release": "releaseMany",
    "heartbeat": "heartbeat",
    "heartbeat_many": "heartbeatMany",
    "requeue_stale": "requeueStale",
    "result": "getResult",
    "stats": "getStats",
    "find": "getJob",
    "batch": "getBatch",
    "fetch_payload": "getPayload",
    "read_state": "getState",
    "read_file": "getState",
    "read_job": "getJob",
    "cancel": "cancelJob",
    "jobs": "listJobs",
    "page": "listJobs",
    "dead": "listJobs",
    "redrive": "redriveJob",
    "redrive_many": "redriveMany",
    "discard": "discardJob",
    "discard_many": "discardMany",
    "schedule": "putSchedule",
    "unschedule": "removeSchedule",
    "schedules": "listSchedules",
    "pause": "pause",
    "resume": "resume",
    "limit": "setLimit",
    "limits": "getLimits",
    "collect_garbage": "collectGarbage",
}
NOT_COVERED = {
    "apply": "takes operations, which are Python",
    "worker": "each claim says who claims",
    "dequeue_segment": "the jobs of a segment are read and written beside the queue, in its own format",
    "heartbeat_segment": "as above",
    "settle_segment": "as above",
    "release_segment": "as above",
    "read_segment": "as above",
}
ONLY_JSON = {"claimJob", "releaseJob", "getThrottleStats"}


def test_no_method_of_the_queue_is_left_out():
    methods = {name for name, _ in inspect.getmembers(Queue) if not name.startswith("_")}
    assert methods == COVERED.keys() | NOT_COVERED.keys()
    assert CALLS.keys() == {*COVERED.values(), *ONLY_JSON}


# What bucketq's own clients use, and the description itself.
NOT_DESCRIBED = {"POST /v1/rpc/{method}", "GET /v1/objects/{name:path}", "PUT /v1/objects/{name:path}"}
NOT_DESCRIBED |= {"GET /openapi.json"}


async def test_every_place_is_described():
    broker = Broker(InMemoryStorage())
    service = Service(broker)
    shell = HttpShell(service, Rpc(service), Door(), Allowance(), Metrics(broker))
    there = {f"{method} {path}" for path, place in shell.places.items() for method in place.endpoints}
    paths = openapi()["paths"]
    described = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert there - NOT_DESCRIBED == described


def told(answer, status=200):
    assert answer.status_code == status, answer.text
    return answer.json() if answer.content else None


async def submit(http, **job):
    return told(await http.post("/v1/jobs", json=job))["jobId"]


async def claim(http, **asked):
    return told(await http.post("/v1/jobs/claim", json={"workerId": "w", **asked}))


async def test_a_job_with_all_its_options(http):
    first = await submit(http, type="first")
    soon = (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0)
    later = soon + timedelta(hours=1)
    job_id = await submit(
        http,
        type="mail",
        payload={"to": "ä"},
        priority=-3,
        maxAttempts=7,
        maxCrashes=2,
        runAt=soon.astimezone(timezone(timedelta(hours=5, minutes=45))).isoformat(),
        expiresAt=later.isoformat(),
        timeout=30,
        key="k",
        keyFor=60,
        ifExists="raise",
        tenant="acme",
        limitKey="api",
        after=[first],
        ifDead="run",
    )
    job = told(await http.get(f"/v1/jobs/{job_id}"))
    created_at = job.pop("createdAt")
    assert datetime.fromisoformat(created_at) <= datetime.now(UTC)
    assert job == {
        "id": job_id,
        "type": "mail",
        "status": "blocked",
        "payload": {"to": "ä"},
        "priority": -3,
        "attempts": 0,
        "maxAttempts": 7,
        "maxCrashes": 2,
        "runAt": soon.isoformat().replace("+00:00", "Z"),
        "expiresAt": later.isoformat().replace("+00:00", "Z"),
        "timeout": 30.0,
        "key": "k",
        "keyFor": 60.0,
        "tenant": "acme",
        "limitKey": "api",
        "after": [first],
        "ifDead": "run",
    }


async def test_durations_count_from_now(http):
    job_id = await submit(http, delay=3600, expiresIn=7200)
    job = told(await http.get(f"/v1/jobs/{job_id}"))
    created, run, expires = (
        datetime.fromisoformat(job[name]) for name in ("createdAt", "runAt", "expiresAt")
    )
    assert (run - created, expires - created) == (timedelta(hours=1), timedelta(hours=2))
    assert job["status"] == "scheduled"


async def test_payloads_are_kept_to_the_byte(http):
    spelt = b'{"b": 1.50,  "a": [1e2, "\\u00e4"], "a": 2}'
    answer = await http.post("/v1/jobs", content=b'{"payload": ' + spelt + b"}")
    assert (await http.get(f"/v1/jobs/{told(answer)['jobId']}/payload")).content == spelt
    content = bytes(range(256))
    await submit(http, payload=base64.b64encode(content).decode(), payloadEncoding="base64", priority=-1)
    got = await claim(http)
    assert got["payloadEncoding"] == "base64"
    assert base64.b64decode(got["payload"]) == content


async def test_a_large_payload_is_named_in_lists_and_comes_when_asked_for(http):
    large = "x" * 100_000
    job_id = await submit(http, payload=large)
    [job] = told(await http.get("/v1/jobs"))["jobs"]
    assert "payload" not in job
    assert job["payloadSize"] == len(large) + 2
    assert (await http.get(f"/v1/jobs/{job_id}/payload")).json() == large
    assert (await claim(http))["payload"] == large
    told(await http.post(f"/v1/jobs/{job_id}/complete", json={"workerId": "w"}), 204)
    gone = told(await http.get(f"/v1/jobs/{job_id}/payload"), 404)
    assert gone["_tag"] == "ObjectNotFoundError", "archives keep large payloads only if told to"


async def test_a_submission_with_a_key_can_be_sent_again(http):
    job = {"type": "invoice", "key": "invoice-17", "keyFor": 3600}
    job_id = await submit(http, **job)
    assert await submit(http, **job) == job_id
    await claim(http)
    assert await submit(http, **job) == job_id
    told(await http.post(f"/v1/jobs/{job_id}/complete", json={"workerId": "w"}), 204)
    refused = told(await http.post("/v1/jobs", json=job), 409)
    assert (refused["_tag"], refused["jobId"]) == ("KeyTakenError", job_id)
    assert told(await http.get("/v1/stats"))["enqueuedTotal"] == 1


async def test_a_finished_job_tells_its_attempts_and_its_result(http):
    job_id = await submit(http, payload=1)
    await claim(http)
    failed = {"workerId": "w", "error": "no such host", "trace": "mail.py:7", "retryIn": 0}
    assert told(await http.post(f"/v1/jobs/{job_id}/fail", json=failed)) == {"status": "queued"}
    token = (await claim(http, workerId="v"))["token"]
    done = {"token": token, "result": {"sent": True}}
    told(await http.post(f"/v1/jobs/{job_id}/complete", json=done), 204)
    job = told(await http.get(f"/v1/jobs/{job_id}"))
    assert (job["status"], job["attempts"], job["result"]) == ("completed", 2, {"sent": True})
    assert [(one["outcome"], one["workerId"]) for one in job["history"]] == [
        ("failed", "w"),
        ("completed", "v"),
    ]
    assert (job["history"][0]["error"], job["history"][0]["trace"]) == ("no such host", "mail.py:7")
    assert told(await http.get(f"/v1/jobs/{job_id}/result")) == {
        "status": "completed",
        "result": {"sent": True},
    }


async def test_a_result_is_waited_for(http):
    job_id = await submit(http)
    assert told(await http.get(f"/v1/jobs/{job_id}/result", params={"wait": 0.05})) == {"status": "queued"}
    waiting = asyncio.create_task(http.get(f"/v1/jobs/{job_id}/result", params={"wait": 20}))
    await claim(http)
    told(await http.post(f"/v1/jobs/{job_id}/complete", json={"workerId": "w", "result": 42}), 204)
    assert told(await waiting) == {"status": "completed", "result": 42}


async def test_a_job_is_waited_for(http):
    waiting = asyncio.create_task(claim(http, wait=20, types=["b", "c"]))
    await submit(http, type="a")
    job_id = await submit(http, type="b", payload=[])
    got = await waiting
    assert (got["jobId"], got["type"], got["payload"], got["attempts"]) == (job_id, "b", [], 1)
    assert await claim(http, types=["b", "c"]) == {}


async def test_a_job_that_can_never_succeed_is_buried_and_can_be_redriven_or_discarded(http):
    job_id = await submit(http, type="mail")
    other_id = await submit(http, type="mail")
    for one in (job_id, other_id):
        await claim(http)
        buried = await http.post(f"/v1/jobs/{one}/fail", json={"workerId": "w", "error": "E", "bury": True})
        assert told(buried) == {"status": "dead"}
    dead = told(await http.get("/v1/jobs", params={"status": "dead", "type": "mail"}))["jobs"]
    assert [(job["id"], job["error"]) for job in dead] == [(job_id, "E"), (other_id, "E")]
    assert told(await http.get(f"/v1/jobs/{job_id}/result")) == {"status": "dead", "error": "E"}
    again = told(await http.post(f"/v1/jobs/{job_id}/redrive"))["jobId"]
    assert told(await http.get(f"/v1/jobs/{again}"))["redriveOf"] == job_id
    told(await http.post(f"/v1/jobs/{other_id}/discard"), 204)
    told(await http.post(f"/v1/jobs/{other_id}/discard"), 404)
    assert told(await http.get("/v1/stats"))["dead"] == 0


async def test_dead_jobs_are_chosen_by_type_and_error(http):
    for kind, error in (("a", "refused"), ("a", "timeout"), ("b", "refused"), ("a", "refused by peer")):
        job_id = await submit(http, type=kind)
        await claim(http)
        await http.post(f"/v1/jobs/{job_id}/fail", json={"workerId": "w", "error": error, "bury": True})
    chosen = {"type": "a", "error": "refused", "limit": 1}
    assert told(await http.post("/v1/dead/redrive", json=chosen)) == {"count": 1}
    assert told(await http.post("/v1/dead/discard", json={"error": "refused"})) == {"count": 2}
    for deed in ("redrive", "discard"):
        told(await http.post(f"/v1/dead/{deed}", json={"error": ""}), 400)
        told(await http.post(f"/v1/dead/{deed}", json={"type": ""}), 400)
    [left] = told(await http.get("/v1/jobs?status=dead"))["jobs"]
    assert left["error"] == "timeout"


async def test_many_claims_at_once(http):
    ids = told(await http.post("/v1/jobs/batch", json={"type": "t", "payloads": [0, 1, 2, 3]}))["jobIds"]
    claimed = told(await http.post("/v1/claims", json={"workerId": "w", "batchSize": 10}))["jobs"]
    assert [(job["jobId"], job["payload"]) for job in claimed] == list(zip(ids, range(4), strict=True))
    refs = [{"jobId": job["jobId"], "token": job["token"]} for job in claimed]
    beats = [refs[0] | {"progress": 0.5, "note": "half"}, refs[1] | {"token": "not-mine"}]
    [refused] = told(await http.post("/v1/claims/heartbeat", json={"claims": beats}))["refused"]
    assert (refused["_tag"], refused["jobId"]) == ("ClaimLostError", ids[1])
    done = [refs[0] | {"result": "r"}, refs[1], {"jobId": "never", "token": "x"}]
    [refused] = told(await http.post("/v1/claims/complete", json={"claims": done}))["refused"]
    assert refused["_tag"] == "JobNotFoundError"
    assert told(await http.get(f"/v1/jobs/{ids[0]}/result"))["result"] == "r"
    told(await http.post("/v1/claims/release", json={"claims": refs[2:3]}), 204)
    told(await http.post(f"/v1/jobs/{ids[3]}/release", json={"workerId": "w"}), 204)
    stats = told(await http.get("/v1/stats"))
    assert (stats["queued"], stats["completedTotal"]) == (2, 2)
    assert told(await http.get(f"/v1/jobs/{ids[2]}"))["attempts"] == 0, "it cost no attempt"


async def test_progress_is_told(http):
    job_id = await submit(http)
    await claim(http)
    beat = {"workerId": "w", "progress": 0.25, "note": "page 1 of 4"}
    told(await http.post(f"/v1/jobs/{job_id}/heartbeat", json=beat), 204)
    await submit(http, type="another")  # the heartbeat rides along with its commit
    job = told(await http.get(f"/v1/jobs/{job_id}"))
    assert (job["progress"], job["note"], job["workerId"]) == (0.25, "page 1 of 4", "w")


async def test_only_the_worker_itself_settles(http):
    job_id = await submit(http)
    await claim(http, workerId="mine")
    for path in ("heartbeat", "complete", "fail", "release"):
        refused = told(await http.post(f"/v1/jobs/{job_id}/{path}", json={"workerId": "yours"}), 409)
        assert refused["_tag"] == "ClaimLostError"
        refused = told(await http.post(f"/v1/jobs/{job_id}/{path}", json={}), 400)
        assert "workerId" in refused["message"]
    told(await http.post(f"/v1/jobs/{job_id}/complete", json={"workerId": "mine"}), 204)


async def test_a_batch_and_the_job_that_follows(http):
    asked = {"type": "resize", "payloads": [1, 2], "then": {"type": "publish", "payload": {"album": 7}}}
    batch = told(await http.post("/v1/jobs/batch", json=asked))
    path = f"/v1/batches/{batch['batchId']}"
    assert told(await http.get(path)) == {"total": 2, "left": 2, "failed": 0}
    for _ in range(2):
        job_id = (await claim(http))["jobId"]
        told(await http.post(f"/v1/jobs/{job_id}/complete", json={"workerId": "w"}), 204)
    assert told(await http.get(path)) == {"total": 2, "left": 0, "failed": 0}
    got = await claim(http)
    assert (got["jobId"], got["type"], got["payload"]) == (batch["batchId"], "publish", {"album": 7})
    told(await http.post(f"/v1/jobs/{got['jobId']}/complete", json={"workerId": "w"}), 204)
    assert told(await http.get(path), 404)["_tag"] == "JobNotFoundError"


async def test_a_transaction_lands_whole_or_not_at_all(http):
    await submit(http, type="charge")
    got = await claim(http)
    ref = {"jobId": got["jobId"], "token": got["token"]}
    operations = [{"do": "submit", "type": "ship", "payload": 1}, {"do": "complete", **ref, "result": 5}]
    lost = {"do": "fail", "jobId": got["jobId"], "token": "another's", "error": "E"}
    refused = await http.post("/v1/transactions", json={"operations": [*operations, lost]})
    assert told(refused, 404)["_tag"] in ("ClaimLostError", "JobNotFoundError")
    assert told(await http.get("/v1/stats"))["enqueuedTotal"] == 1
    [ship] = told(await http.post("/v1/transactions", json={"operations": operations}))["jobIds"]
    assert told(await http.get(f"/v1/jobs/{ship}"))["type"] == "ship"
    assert told(await http.get(f"/v1/jobs/{got['jobId']}/result"))["result"] == 5


async def test_cancelling(http):
    waits, runs = await submit(http, type="waits"), await submit(http, type="runs")
    assert told(await http.post(f"/v1/jobs/{waits}/cancel"))["id"] == waits
    assert told(await http.get(f"/v1/jobs/{waits}"))["status"] == "cancelled"
    await claim(http, types=["runs"])
    assert told(await http.post(f"/v1/jobs/{runs}/cancel"))["isCancelled"]
    told_off = told(await http.post(f"/v1/jobs/{runs}/heartbeat", json={"workerId": "w"}), 409)
    assert told_off["_tag"] == "JobCancelledError"


async def test_pages_and_filters(http):
    ids = [await submit(http, type="odd" if n % 2 else "even", payload=n) for n in range(7)]
    await claim(http, types=["odd"])
    found, token = [], ""
    while True:
        page = told(await http.get("/v1/jobs", params={"pageSize": 3, "pageToken": token}))
        assert (page["total"], page["unclaimed"], page["inProgress"]) == (7, 6, 1), "of the whole queue"
        found += [job["id"] for job in page["jobs"]]
        if not (token := page.get("nextPageToken", "")):
            break
    assert sorted(found) == sorted(ids)
    odd = told(await http.get("/v1/jobs", params={"type": "odd", "status": "queued"}))
    assert [job["payload"] for job in odd["jobs"]] == [3, 5]
    assert odd["total"] == 7


async def test_schedules(http):
    asked = {"type": "report", "payload": {"n": 1}, "cron": "30 9 * * MON-FRI", "tz": "Europe/Vienna"}
    made = told(await http.put("/v1/schedules/daily", json=asked))
    assert (made["name"], made["cron"], made["job"]["payload"]) == ("daily", "30 9 * * MON-FRI", {"n": 1})
    assert datetime.fromisoformat(made["nextAt"]) > datetime.now(UTC)
    told(await http.put("/v1/schedules/poll", json={"every": 60, "key": "poll", "expiresIn": 50}))
    schedules = told(await http.get("/v1/schedules"))["schedules"]
    assert [one["name"] for one in schedules] == ["daily", "poll"]
    told(await http.delete("/v1/schedules/daily"), 204)
    assert told(await http.delete("/v1/schedules/daily"), 404)["_tag"] == "ScheduleNotFoundError"


async def test_pauses_and_limits(http):
    await submit(http, type="mail")
    told(await http.post("/v1/pause", json={"type": "mail"}), 204)
    assert await claim(http) == {}
    told(await http.put("/v1/limits", json={"type": "mail", "maxRunning": 1}), 204)
    told(await http.put("/v1/limits", json={"limitKey": "api-*", "rate": 2.5, "burst": 5}), 204)
    assert told(await http.get("/v1/limits")) == {
        "isPaused": False,
        "paused": ["mail"],
        "types": {"mail": {"maxRunning": 1}},
        "limitKeys": {"api-*": {"rate": 2.5, "burst": 5}},
    }
    told(await http.post("/v1/resume", json={"type": "mail"}), 204)
    assert (await claim(http))["type"] == "mail"
    assert "{}" in told(await http.post("/v1/pause"), 400)["message"], "a body that was lost pauses nothing"
    told(await http.post("/v1/pause", json={}), 204)
    assert told(await http.get("/v1/limits"))["isPaused"]


async def test_tidying_up(http):
    await submit(http)
    await claim(http)
    assert told(await http.post("/v1/requeue-stale", json={"timeout": 3600})) == {"count": 0}
    assert told(await http.post("/v1/requeue-stale", json={"timeout": 0})) == {"count": 1}
    assert told(await http.post("/v1/collect-garbage", json={"dryRun": True})) == {"removed": []}


async def test_the_state_is_queue_json_itself(http, broker):
    job_id = await submit(http, payload={"n": 1})
    state = told(await http.get("/state"))
    assert state["enqueued_total"] == 1
    assert [(job["id"], job["json"]) for job in state["jobs"]] == [(job_id, {"n": 1})]


async def test_lists_have_a_status_that_clients_of_osqueue_know(http):
    running = await submit(http)
    for options in ({}, {"delay": 3600}, {"after": [running]}):
        await submit(http, **options)
    buried = await submit(http, type="buried")
    await claim(http, types=["buried"])
    told(await http.post(f"/v1/jobs/{buried}/fail", json={"workerId": "w", "error": "E", "bury": True}))
    assert (await claim(http))["jobId"] == running
    for path in ("/v1/jobs", "/state"):
        assert {(job["status"], job["state"]) for job in told(await http.get(path))["jobs"]} == {
            ("unclaimed", "queued"),
            ("unclaimed", "scheduled"),
            ("unclaimed", "blocked"),
            ("in_progress", "in_progress"),
            ("dead", "dead"),
        }, path
