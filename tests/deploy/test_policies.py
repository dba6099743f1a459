"""The policies for buckets: they allow what a queue asks for, and nothing else.

Every request of a whole life of a queue passes a proxy, and is held against the policy. On S3 the server
itself enforces it too; that is SeaweedFS, and no server for tests does so for GCS and Azure.
"""

import fnmatch
import json
import os
import sys
from contextlib import ExitStack
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
import yaml

from bucketq import AzureStorage, BrokerQueue, GCSStorage, S3Storage, Settings, StorageError
from bucketq.verify import verify
from tests.contract.fault_proxy import fault_proxy
from tests.contract.gcs_fake import fake_gcs
from tests.contract.servers import BUCKET, azurite, seaweedfs
from tests.deploy.conftest import ROOT
from tests.deploy.files import said

SMALL = Settings(hot_jobs_max=20, segment_jobs_max=10, payload_inline_max=100, archive_jobs_max=5)
BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"


def policy(name):
    text = (ROOT / "deploy/aws" / f"{name}-policy.json").read_text()
    return json.loads(text.replace("my-bucket", BUCKET))


async def live(storage):
    """Everything that a queue asks of its storage: commits, segments, payloads, archive, garbage, proof."""
    async with BrokerQueue(storage, settings=SMALL) as q:
        await q.enqueue("large", bytes(1000))
        await q.enqueue_many("mail", range(60))
        while jobs := await q.dequeue(batch_size=10):
            await q.ack_many(jobs)
        await q.collect_garbage()
    async with BrokerQueue(storage) as q:
        assert (await q.stats()).completed_total == 61
    await look(storage)


async def look(storage):
    verdict = await verify(storage)
    assert verdict.is_sound
    assert verdict.archived == 61


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    users = {name: policy(name) for name in ("broker", "reader")}
    with seaweedfs(tmp_path_factory.mktemp("seaweedfs"), users) as server:
        yield server


def s3_storage(server, user, key="jobs.json", **options):
    options = {**server.options, "access_key_id": user, "secret_access_key": user, **options}
    return S3Storage(BUCKET, key, **options)


def s3_grants(request):
    """The actions, each on what, that S3 wants to be allowed for a request."""
    path = urlsplit(request.path)
    arn = f"arn:aws:s3:::{path.path.strip('/')}"
    match request.method, parse_qs(path.query):
        case "GET", {"list-type": ["2"]}:
            return {("s3:ListBucket", arn)}
        case "GET" | "HEAD", {**rest} if not rest:
            # Without the right to list, S3 says 403 of an object that is not there.
            return {("s3:GetObject", arn), ("s3:ListBucket", f"arn:aws:s3:::{BUCKET}")}
        case "PUT", {**rest} if not rest:
            return {("s3:PutObject", arn)}
        case "DELETE", {**rest} if not rest:
            return {("s3:DeleteObject", arn)}
    raise AssertionError(f"nobody has thought of {request.method} {request.path}")


def allowed(document):
    """What a policy allows: each action on each pattern."""
    for statement in document["Statement"]:
        actions, resources = (
            [one] if isinstance(one, str) else one for one in (statement["Action"], statement["Resource"])
        )
        yield from ((action, resource) for action in actions for resource in resources)


def check_s3(requests, document):
    needed = set().union(*map(s3_grants, requests))
    grants = set(allowed(document))
    used = {
        (action, pattern)
        for action, pattern in grants
        for asked, arn in needed
        if asked == action and fnmatch.fnmatchcase(arn, pattern)
    }
    assert used == grants, "more is allowed than is ever asked for"
    for action, arn in needed:
        assert any(action == one and fnmatch.fnmatchcase(arn, pattern) for one, pattern in grants), (
            action,
            arn,
        )


async def test_s3_allows_brokers_and_readers_what_they_ask_for_and_no_more(s3):
    for act, user in ((live, "broker"), (look, "reader")):
        with fault_proxy(s3.endpoint_url) as proxy:
            await act(s3_storage(s3, user, endpoint_url=proxy.endpoint_url))
            check_s3(proxy.requests, policy(user))


async def test_every_write_has_a_condition_as_the_bucket_may_insist(s3):
    insists = policy("bucket")["Statement"][0]
    assert (insists["Effect"], insists["Action"]) == ("Deny", "s3:PutObject")
    headers = {key.removeprefix("s3:") for key in insists["Condition"]["Null"]}
    with fault_proxy(s3.endpoint_url) as proxy:
        await live(s3_storage(s3, "testing", "insisting.json", endpoint_url=proxy.endpoint_url))
    writes = [request for request in proxy.requests if request.method == "PUT"]
    assert {name for request in writes for name in headers & request.headers.keys()} == headers
    assert all(headers & request.headers.keys() for request in writes)


async def test_s3_lets_a_broker_near_its_own_queue_only(s3):
    for key in ("other.json", "other/jobs.json", "jobs.json.copy"):
        with pytest.raises(StorageError, match="403 AccessDenied"):
            await s3_storage(s3, "broker", key).write(b"{}")
    with pytest.raises(StorageError, match="403 AccessDenied"):
        await s3_storage(s3, "reader").write(b"{}")
    client = boto3.client("s3", endpoint_url=s3.endpoint_url, region_name="us-east-1", **keys("broker"))
    for forbidden in (
        lambda: client.delete_object(Bucket=BUCKET, Key="jobs.json"),
        lambda: client.delete_bucket(Bucket=BUCKET),
        lambda: client.list_objects_v2(Bucket="another"),
    ):
        with pytest.raises(client.exceptions.ClientError, match="AccessDenied"):
            forbidden()


def test_the_doctor_is_content_with_what_a_broker_may_do(s3):
    url = f"s3://{BUCKET}/jobs.json?region_name=us-east-1&endpoint_url={s3.endpoint_url}"
    variables = {"AWS_ACCESS_KEY_ID": "broker", "AWS_SECRET_ACCESS_KEY": "broker"}
    told = said(sys.executable, "-m", "bucketq", "doctor", "--json", url, env={**os.environ, **variables})
    levels = {finding["about"]: finding["level"] for finding in map(json.loads, told.splitlines())}
    assert (levels["access"], levels["conditional writes"]) == ("ok", "ok")


def keys(user):
    return {"aws_access_key_id": user, "aws_secret_access_key": user}


async def test_gcs_and_azure_allow_brokers_what_they_ask_for_and_no_more(tmp_path):
    with ExitStack() as stack:
        gcs, azure = stack.enter_context(fake_gcs()), stack.enter_context(azurite(tmp_path))
        for server, storage, needs, allows in (
            (gcs, GCSStorage, gcs_permissions, gcs_role()),
            (azure, AzureStorage, azure_actions, azure_role()),
        ):
            proxy = stack.enter_context(fault_proxy(server.endpoint_url))
            await live(storage(BUCKET, "jobs.json", **{**server.options, "endpoint_url": proxy.endpoint_url}))
            assert set().union(*map(needs, proxy.requests)) == allows


def gcs_role():
    return set(yaml.safe_load((ROOT / "deploy/gcp/broker-role.yaml").read_text())["includedPermissions"])


def gcs_permissions(request):
    match request.method, parse_qs(urlsplit(request.path).query):
        case "GET", {"list-type": _}:
            return {"storage.objects.list"}
        case "GET" | "HEAD", {**rest} if not rest:
            return {"storage.objects.get"}
        case "PUT", {**rest} if not rest:
            replaces = request.headers["x-goog-if-generation-match"] != "0"
            return (
                {"storage.objects.create", "storage.objects.delete"}
                if replaces
                else {"storage.objects.create"}
            )
        case "DELETE", {**rest} if not rest:
            return {"storage.objects.delete"}
    raise AssertionError(f"nobody has thought of {request.method} {request.path}")


def azure_role():
    return set(json.loads((ROOT / "deploy/azure/broker-role.json").read_text())["DataActions"])


def azure_actions(request):
    match request.method, parse_qs(urlsplit(request.path).query):
        case "GET", {"comp": ["list"]}:
            return {f"{BLOBS}/read"}
        case "GET" | "HEAD", {**rest} if not rest:
            return {f"{BLOBS}/read"}
        case "PUT", {**rest} if not rest:
            return {f"{BLOBS}/write"}
        case "POST", {"comp": ["batch"]}:
            # obstore deletes by batches, of deletions only.
            return {f"{BLOBS}/delete"}
    raise AssertionError(f"nobody has thought of {request.method} {request.path}")
