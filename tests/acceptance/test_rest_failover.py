"""A submission with a key is one job, however often it is sent and whoever is asked; and pages are let in."""

import json
import signal
import urllib.error
import urllib.request

import pytest

from tests.acceptance.served import served

QUICK = ("--heartbeat-interval-s", "0.2", "--heartbeat-timeout-s", "1")


def post(url, body, headers=None):
    request = urllib.request.Request(url, json.dumps(body).encode(), headers or {})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer), answer.headers


def test_a_submission_is_sent_again_after_a_failover(tmp_path):
    url = f"file://{tmp_path}/queue.json"
    job = {"type": "invoice", "key": "invoice-17", "keyFor": 3600}
    with served(url, *QUICK) as first:
        first.wait_for("leading")
        with served(url, *QUICK) as second:
            second.wait_for("another broker leads")
            with pytest.raises(urllib.error.HTTPError) as caught:
                post(f"http://{second.http}/v1/jobs", job)
            with caught.value as refusal:
                assert refusal.status == 503
                leader = json.load(refusal)["leader"]
            submitted, _ = post(f"http://{leader}/v1/jobs", job)
            first.signal(signal.SIGKILL)
            second.wait_for("leading, at")
            again, _ = post(f"http://{second.http}/v1/jobs", job)
    assert again == submitted
    assert json.loads((tmp_path / "queue.json").read_bytes())["enqueued_total"] == 1


def test_pages_are_let_in_by_name(tmp_path):
    origins = ("https://a.example", "https://b.example")
    options = [word for origin in origins for word in ("--cors-origin", origin)]
    with served(f"file://{tmp_path}/queue.json", *options) as broker:
        broker.wait_for("leading")
        for origin in origins:
            _, headers = post(f"http://{broker.http}/v1/jobs", {}, {"Origin": origin})
            assert headers["Access-Control-Allow-Origin"] == origin


def test_what_is_no_origin_is_refused(tmp_path):
    with served(f"file://{tmp_path}/queue.json", BUCKETQ_CORS_ORIGIN="https://a.example *") as broker:
        broker.wait_for("an origin is a scheme and a host")
        assert broker.wait() != 0
