"""Whatever goes wrong is told in one shape, with a fitting status, and nothing of what is inside."""

import asyncio
import logging

import httpx
import msgspec
import pytest

from bucketq import InMemoryStorage
from bucketq.broker.allowance import Allowance
from bucketq.broker.broker import Beats
from bucketq.broker.calls import CALLS
from bucketq.broker.problem import Problem
from bucketq.broker.serving import serving
from bucketq.errors import AccessDeniedError, NotLeaderError
from bucketq.v1 import queue_pb2 as pb
from tests.rest.conftest import leading


def refused(answer, status, tag):
    assert answer.status_code == status, answer.text
    told = answer.json()
    assert told["_tag"] == tag
    assert told["message"]
    return told


async def test_a_path_that_is_none(http):
    assert "/v1/nothing" in refused(await http.get("/v1/nothing"), 404, "NotFoundError")["message"]
    refused(await http.get("/v1/jobs/"), 404, "NotFoundError")


async def test_a_method_that_is_none(http):
    answer = await http.delete("/v1/jobs")
    refused(answer, 405, "MethodNotAllowedError")
    assert set(answer.headers["allow"].split(", ")) == {"GET", "POST"}
    refused(await http.get("/v1/jobs/claim"), 405, "MethodNotAllowedError")


async def test_a_path_as_it_stands_in_the_description(http):
    assert refused(await http.post("/v1/jobs/{jobId}/cancel"), 404, "JobNotFoundError")["jobId"] == "{jobId}"
    answer = await http.post("/v1/rpc/{method}")
    assert answer.status_code == 400
    assert b"{method}" in answer.content


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"payload": NaN}',
        b'{"payload": 1e999}',
        b'{"payload": "\\ud800"}',
        b'{"payload": "\xff"}',
        b'{"payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"payload": 1} trailing',
        b'{"type": ""}',
        b'{"type": 7}',
        b'{"type": "\\ud800"}',
        b'{"priority": 1e400}',
        b'{"priority": 99999999999999999999999}',
        b'{"priority": 1.5}',
        b'{"maxAttempts": 0}',
        b'{"delay": -1}',
        b'{"delay": 1, "runAt": "2030-01-01T00:00:00Z"}',
        b'{"runAt": "2030-01-01T00:00:00"}',
        b'{"runAt": "9999-12-31T23:59:59-05:00"}',
        b'{"keyFor": 1}',
        b'{"payload": "no base64!", "payloadEncoding": "base64"}',
        b'{"payload": 7, "payloadEncoding": "base64"}',
        b'{"unheardOf": 1}',
        b"payload=1",
    ],
    ids=lambda body: body[:30].decode(errors="replace"),
)
async def test_what_makes_no_sense_is_refused(http, body):
    answer = await http.post("/v1/jobs", content=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["_tag"] in ("BrokerProtocolError", "ConfigurationError", "PayloadError")
    assert (await http.get("/v1/stats")).json()["total"] == 0


async def test_a_malformed_message_has_the_tag_that_clients_of_osqueue_know(http):
    for body in (b"{", b"[]", b"", b'{"unheardOf": 1}', b'{"type": 7}', b'{"maxAttempts": 0}'):
        refused(await http.post("/v1/jobs", content=body), 400, "BrokerProtocolError")
    contradiction = {"delay": 1, "runAt": "2030-01-01T00:00:00Z"}
    refused(await http.post("/v1/jobs", json=contradiction), 400, "ConfigurationError")


@pytest.mark.parametrize("payload", [b"1" * 400, b'{"a":1,"a":2}', b"[" * 200 + b"]" * 200, b'"\\u0000"'])
async def test_what_is_odd_but_json_is_kept_as_it_came(http, payload):
    job_id = (await http.post("/v1/jobs", content=b'{"payload": ' + payload + b"}")).json()["jobId"]
    assert (await http.get(f"/v1/jobs/{job_id}/payload")).content == payload


@pytest.mark.parametrize(
    "query", ["status=unheard-of", "pageSize=0", "pageSize=x", "pageToken=1.2", "pageToken=a.b.c.d", "what=1"]
)
async def test_a_query_that_makes_no_sense_is_refused(http, query):
    refused(await http.get(f"/v1/jobs?{query}"), 400, "BrokerProtocolError")


async def test_the_id_is_in_the_path_alone(http):
    answer = await http.post("/v1/jobs/1/complete", json={"jobId": "2", "workerId": "w"})
    assert "path" in refused(answer, 400, "BrokerProtocolError")["message"]


async def test_unknown_jobs(http):
    for path in ("", "/payload", "/result"):
        assert refused(await http.get(f"/v1/jobs/none{path}"), 404, "JobNotFoundError")["jobId"] == "none"
    for path in ("heartbeat", "complete", "fail", "release", "cancel", "redrive", "discard"):
        body = {} if path in ("cancel", "redrive", "discard") else {"workerId": "w"}
        refused(await http.post(f"/v1/jobs/none/{path}", json=body), 404, "JobNotFoundError")


async def test_a_message_that_is_too_large():
    async with serving(InMemoryStorage(), allowance=Allowance(message_bytes_max=1000)) as broker:
        await leading(broker)
        async with httpx.AsyncClient(base_url=f"http://{broker.http}") as http:
            refused(await http.post("/v1/jobs", json={"payload": "x" * 1000}), 413, "TooLargeError")
            assert (await http.post("/v1/jobs", json={"payload": "x" * 100})).status_code == 200


async def test_a_failure_inside_is_logged_and_not_told(http, monkeypatch, caplog):
    async def fail(visit, asked):
        raise RuntimeError("the secret of the house")

    monkeypatch.setitem(CALLS["getStats"].__dict__, "perform", fail)
    with caplog.at_level(logging.ERROR, "bucketq"):
        answer = await http.get("/v1/stats")
    assert "secret" not in str(refused(answer, 500, "InternalError"))
    [record] = [record for record in caplog.records if record.name == "bucketq"]
    assert "the secret of the house" in str(record.exc_info)


class Failing(InMemoryStorage):
    """Refuses to write while it is down."""

    is_down = False

    async def write(self, content, if_match=None):
        if self.is_down:
            raise AccessDeniedError("no permission to write")
        return await super().write(content, if_match)


async def test_a_storage_that_fails():
    storage = Failing()
    async with (
        serving(storage) as broker,
        httpx.AsyncClient(base_url=f"http://{(await leading(broker)).http}") as http,
    ):
        storage.is_down = True
        answer = await http.post("/v1/jobs", json={})
        refused(answer, 503, "AccessDeniedError")
        assert answer.headers["retry-after"] == "1"
        storage.is_down = False


async def test_a_standby_tells_who_leads():
    storage = InMemoryStorage()
    async with serving(storage) as first:
        await leading(first)
        async with (
            serving(storage) as second,
            httpx.AsyncClient(base_url=f"http://{second.http}") as http,
        ):
            while second.leader is None:
                await asyncio.sleep(0.005)
            for answer in (await http.post("/v1/jobs", json={}), await http.get("/v1/events")):
                assert refused(answer, 503, "NotLeaderError")["leader"] == first.http
                assert answer.headers["retry-after"] == "1"
            assert (await http.get("/healthz")).json() == {"status": "ok"}
            assert (await http.get("/readyz")).status_code == 503


async def test_a_leader_that_is_deposed_at_work_says_that_it_may_be_done():
    class Hanging(InMemoryStorage):
        hangs = False

        async def write(self, content, if_match=None):
            if self.hangs:
                await asyncio.Event().wait()
            return await super().write(content, if_match)

    storage = Hanging()
    async with serving(storage, beats=Beats(interval_s=0.1, timeout_s=0.5)) as broker:
        await leading(broker)
        storage.hangs = True
        async with httpx.AsyncClient(base_url=f"http://{broker.http}", timeout=30) as client:
            told = refused(await client.post("/v1/jobs", json={"payload": 1}), 503, "NotLeaderError")
            assert told["mayBeDone"] is True
            assert "look before repeating it" in told["message"]
        storage.hangs = False


def test_one_that_did_not_lead_has_done_nothing():
    told = msgspec.to_builtins(Problem.of(NotLeaderError("a:1", http="a:2")))
    assert told == {"_tag": "NotLeaderError", "message": "another broker leads: a:2", "leader": "a:2"}


async def test_no_worker_has_a_name_that_every_commit_would_carry(http):
    await http.post("/v1/jobs", json={"payload": 1})
    for length, status in ((251, 400), (250, 200)):
        asked = pb.DequeueRequest(worker="w" * length).SerializeToString()
        assert (await http.post("/v1/rpc/Dequeue", content=asked)).status_code == status
    assert (await http.get("/v1/stats")).json()["inProgress"] == 1
