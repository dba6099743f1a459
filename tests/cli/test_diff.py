"""`bucketq diff`: files, queues, brokers, and versions of an object."""

import json
import shutil

import boto3
import pytest

import bucketq.sync
from tests.cli.typed import queue_url, typed
from tests.contract.servers import BUCKET, seaweedfs


@pytest.fixture
def run(capsys):
    return lambda *arguments: typed(capsys, *arguments)


def changes(told):
    return {(one["what"], one["name"]): one.get("how", "") for one in told.json["changes"]}


def work(q):
    """Leave one job of each fate; return them."""
    q.worker = "web-3"
    done, fails, waits = (q.enqueue("mail", {"n": number}).id for number in range(3))
    q.ack(q.dequeue("mail")[0])
    q.nack(q.dequeue("mail")[0], error="refused\nfar away")
    q.pause("sms")
    q.schedule("report", "mail", every=3600)
    return done, fails, waits


@pytest.mark.parametrize("way", ["file", "grpc"])
def test_what_happened_since_a_copy_was_made(tmp_path, run, way):
    with queue_url(way, tmp_path) as url, bucketq.sync.connect(url) as q:
        claimed = q.enqueue("mail", priority=9)
        copy = tmp_path / "copy.json"
        shutil.copy(tmp_path / "queue.json", copy)
        done, fails, waits = work(q)
        q.dequeue("mail", batch_size=9)
        told = changes(run("diff", str(copy), "--url", url, "--json"))
        same = run("diff", url, url)
    assert told["completed", done] == "by web-3"
    assert told["enqueued", fails].startswith("claimed by web-3")
    assert told["enqueued", waits].startswith("claimed by web-3")
    assert told["claimed", claimed.id] == "by web-3, attempt 1"
    assert ("paused", "sms") in told
    assert told["schedule", "report"].startswith("added, next ")
    assert told["counter", "enqueued_total"] == "1 -> 4"
    assert told["counter", "completed_total"] == "0 -> 1"
    assert same.out.endswith("nothing happened\n")


def test_a_failed_attempt_and_a_death_are_told_with_their_errors(tmp_path, run):
    url, copy = f"file://{tmp_path}/queue.json", tmp_path / "copy.json"
    with bucketq.sync.connect(url) as q:
        q.worker = "web-3"
        fails, dies = q.enqueue("mail").id, q.enqueue("sms", max_attempts=1).id
        shutil.copy(tmp_path / "queue.json", copy)
        q.nack(q.dequeue("mail")[0], error="refused\nfar away", retry_in=600)
        q.nack(q.dequeue("sms")[0], error="no such number")
    told = run("diff", str(copy), str(tmp_path / "queue.json"), "--json").json["changes"]
    by_job = {name: [one["what"] for one in told if one["name"] == name] for name in (fails, dies)}
    assert by_job == {fails: ["failed", "scheduled"], dies: ["failed", "dead"]}
    assert {one["how"] for one in told if one["what"] == "failed"} == {
        "by web-3: refused",
        "by web-3: no such number",
    }


def test_jobs_that_moved_to_segments_are_told(tmp_path, run, monkeypatch):
    monkeypatch.setenv("BUCKETQ_HOT_JOBS_MAX", "10")
    copy = tmp_path / "copy.json"
    with bucketq.sync.connect(
        f"file://{tmp_path}/queue.json", settings=bucketq.Settings(hot_jobs_max=1000)
    ) as q:
        q.enqueue_many("mail", range(400))
        shutil.copy(tmp_path / "queue.json", copy)
    run("enqueue", "mail", "--url", f"file://{tmp_path}/queue.json")
    told = run("diff", str(copy), str(tmp_path / "queue.json"), "--json").json["changes"]
    kinds = [one["what"] for one in told]
    assert kinds.count("spilled") >= 300
    assert kinds.count("segment") >= 1


def test_a_bucket_is_looked_at_and_the_versions_that_it_keeps_are_compared(tmp_path, run, monkeypatch):
    with seaweedfs(tmp_path) as server:
        options = server.options
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", options["access_key_id"])
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", options["secret_access_key"])
        client = boto3.client(
            "s3",
            endpoint_url=server.endpoint_url,
            region_name="us-east-1",
            aws_access_key_id=options["access_key_id"],
            aws_secret_access_key=options["secret_access_key"],
        )
        url = f"s3://{BUCKET}/jobs.json?endpoint_url={server.endpoint_url}&region_name=us-east-1"
        with bucketq.sync.connect(url.replace("jobs.json", "other.json")) as q:
            q.enqueue("mail")
        unkept = run("diff", url.replace("jobs.json", "other.json"), "--from", "0" * 32)
        assert (unkept.code, unkept.out) == (2, ""), "not the object as it is now"
        assert "has no version" in unkept.err
        client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        with bucketq.sync.connect(url) as q:
            first = q.enqueue("mail").id
            second = q.enqueue("mail").id
            q.ack(q.dequeue("mail")[0])
        listed = client.list_object_versions(Bucket=BUCKET, Prefix="jobs.json")["Versions"]
        newest, *_, oldest = [one["VersionId"] for one in listed if one["Key"] == "jobs.json"]
        told = run("diff", url, "--from", oldest, "--to", newest)
        assert told.code == 0, told.err
        assert first in told.out
        assert second in told.out
        to_now = changes(run("diff", url, "--from", oldest, "--json"))
        assert ("completed", first) in to_now
        assert to_now["enqueued", second] == "queued"
        assert [json.loads(line)["id"] for line in run("jobs", url, "--json").out.splitlines()] == [second]
        assert run("stats", url, "--json").json["completedTotal"] == 1
        assert first in run("archive", url).out
        missing = run("diff", url, "--from", "0" * 32)
        assert (missing.code, missing.out) == (2, "")
        assert missing.err.count("\n") == 1
        client.close()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ((), "name a queue.json"),
        (("a.json", "b.json", "--from", "1"), "not for two queues"),
        (("file:///tmp/queue.json", "--from", "1"), "keeps no versions"),
        (("missing.json", "missing.json"), "cannot be read"),
        (("file:///nowhere/queue.json", "file:///nowhere/queue.json"), "there is no queue"),
    ],
)
def test_what_cannot_be_compared_is_a_sentence(run, arguments, hint):
    told = run("diff", *arguments)
    assert (told.code, told.out) == (2, "")
    assert hint in told.err
    assert told.err.count("\n") == 1


def test_states_in_the_wrong_order_are_told(tmp_path, run):
    url, copy = f"file://{tmp_path}/queue.json", tmp_path / "before.json"
    with bucketq.sync.connect(url) as q:
        q.enqueue("mail")
        copy.write_bytes((tmp_path / "queue.json").read_bytes())
        q.enqueue("mail")
    assert not run("diff", str(copy), url).err
    told = run("diff", url, str(copy))
    assert told.code == 0
    assert "the first state is the later one, or that of another queue" in told.err
