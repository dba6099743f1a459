"""A client of a few lines, written for these paths and shapes alone, works: it knows nothing of bucketq."""

import json
import time
import urllib.error
import urllib.request
from datetime import datetime

import pytest

from tests.acceptance.hosted import hosted


class Client:
    """Six calls and three looks, as any language has them in its library."""

    def __init__(self, url):
        self._url = url

    def _request(self, method, path, body=None):
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, content, headers, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            content = answer.read()
            return answer.status, json.loads(content) if content else None

    def submit(self, payload, **more):
        return self._request("POST", "/v1/jobs", {"payload": payload, **more})

    def claim(self, worker_id, **more):
        return self._request("POST", "/v1/jobs/claim", {"workerId": worker_id, **more})

    def heartbeat(self, job_id, worker_id):
        return self._request("POST", f"/v1/jobs/{job_id}/heartbeat", {"workerId": worker_id})

    def complete(self, job_id, worker_id):
        return self._request("POST", f"/v1/jobs/{job_id}/complete", {"workerId": worker_id})

    def get(self, path):
        return self._request("GET", path)


@pytest.fixture
def client(tmp_path):
    with hosted(f"file://{tmp_path}/queue.json") as broker:
        yield Client(f"http://{broker.http}")


def refusal_of(call, *arguments):
    with pytest.raises(urllib.error.HTTPError) as caught:
        call(*arguments)
    with caught.value as answer:
        told = json.loads(answer.read())
    assert told.keys() >= {"_tag", "message"}
    return answer.status, told["_tag"]


def is_now(milliseconds):
    """Whether this is a time of the last minute, in milliseconds."""
    return 0 <= time.time() * 1000 - milliseconds < 60_000


def test_a_job_from_its_submission_to_its_end(client):
    status, submitted = client.submit({"to": "alice"}, type="mail", maxAttempts=5)
    assert (status, submitted.keys()) == (200, {"jobId"})
    job_id = submitted["jobId"]
    status, jobs = client.get("/v1/jobs")
    assert jobs.keys() == {"jobs", "total", "unclaimed", "inProgress", "completedTotal", "brokerAddress"}
    assert (jobs["total"], jobs["unclaimed"], jobs["inProgress"], jobs["completedTotal"]) == (1, 1, 0, 0)
    [job] = jobs["jobs"]
    assert (job["id"], job["type"], job["status"], job["payload"]) == (
        job_id,
        "mail",
        "unclaimed",
        {"to": "alice"},
    )
    assert (job["attempts"], job["maxAttempts"], job["heartbeat"]) == (0, 5, 0)
    assert is_now(job["createdAt"])
    assert (job["state"], is_now(datetime.fromisoformat(job["enqueuedAt"]).timestamp() * 1000)) == (
        "queued",
        True,
    )
    assert client.claim("w-1", types=["other"]) == (200, {})
    status, claimed = client.claim("w-1", types=["mail", "other"])
    assert (claimed["jobId"], claimed["payload"], claimed["type"]) == (job_id, {"to": "alice"}, "mail")
    [job] = client.get("/v1/jobs")[1]["jobs"]
    assert (job["status"], job["workerId"], job["attempts"]) == ("in_progress", "w-1", 1)
    assert is_now(job["heartbeat"])
    assert client.heartbeat(job_id, "w-1") == (204, None)
    assert refusal_of(client.complete, job_id, "w-2") == (409, "ClaimLostError")
    assert client.complete(job_id, "w-1") == (204, None)
    assert refusal_of(client.complete, job_id, "w-1") == (404, "JobNotFoundError")
    assert client.claim("w-1") == (200, {})
    stats = client.get("/v1/stats")[1]
    assert (stats["total"], stats["completedTotal"]) == (0, 1)
    assert stats["brokerAddress"] in client._url


def test_a_payload_alone_is_enough(client):
    client.submit("anything")
    assert client.claim("w")[1]["payload"] == "anything"


def test_health_and_state(client):
    assert client.get("/healthz") == (200, {"status": "ok"})
    _, submitted = client.submit(1, type="mail")
    client.claim("w-1")
    state = client.get("/state")[1]
    assert f"http://{state['broker']}" == client._url
    assert is_now(state["brokerHeartbeat"])
    assert state["completedTotal"] == 0
    [job] = state["jobs"]
    assert (job["id"], job["status"], job["payload"], job["type"]) == (
        submitted["jobId"],
        "in_progress",
        1,
        "mail",
    )
    assert (job["workerId"], job["attempts"], job["maxAttempts"]) == ("w-1", 1, 3)
    assert is_now(job["createdAt"])
    assert is_now(job["heartbeat"])
    assert (state["enqueued_total"], job["json"]) == (1, 1), "queue.json itself is there, too"
    assert client.get("/v1/throttle-stats")[1]["throttling"] is False
