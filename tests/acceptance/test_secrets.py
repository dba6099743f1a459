"""No secret comes out of a broker: not in answers, logs, the bucket, --help, or the list of processes."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import boto3
import grpc
import httpx
import pytest

import bucketq
from bucketq import BucketQError, Settings
from bucketq.broker.calls import CALLS
from bucketq.broker.token_file import TokenFile
from bucketq.broker.tokens import new_token
from bucketq.v1 import queue_pb2 as pb
from tests.acceptance.certificates import Authority
from tests.acceptance.served import Served, served
from tests.contract.servers import BUCKET, SECOND_KEY

WRONG = "bq_this-one-is-wrong-and-yet-nobody-elses-business"


@pytest.fixture
def url(seaweedfs, request):
    return f"s3://{BUCKET}/{request.node.name}.json?endpoint_url={seaweedfs.endpoint_url}"


@pytest.fixture
def variables():
    access, secret = SECOND_KEY
    return {"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": "us-east-1"}


def found_in(said, secrets):
    return [name for name, secret in secrets.items() if secret.encode() in said]


def test_nothing_that_a_broker_says_or_keeps_holds_a_secret(url, variables, seaweedfs, tmp_path, request):
    authority = Authority(tmp_path)
    cert, key = authority.issue("localhost")
    secrets = {"S3": SECOND_KEY[1], "key": Path(key).read_text().splitlines()[1], "wrong": WRONG}
    file = TokenFile(str(tmp_path / "tokens"))
    for role in ("viewer", "producer", "worker", "admin"):
        secrets[role], token = new_token(f"the-{role}", [role])
        file.add(token)
    secrets |= {f"hash of {token.name}": token.digest for token in file.read()}
    options = ["--host", "localhost", "--tokens-file", str(tmp_path / "tokens"), "--log-level", "debug"]
    options += ["--tls-cert", cert, "--tls-key", key]
    with served(url, *options, **variables) as broker:
        broker.wait_for("leading")
        said = [Path(f"/proc/{broker.pid}/cmdline").read_bytes()]
        said += asyncio.run(everything_told(broker, authority, secrets))
        (tmp_path / "tokens").write_text(f"the-viewer viewer {WRONG}")
        broker.wait_for("line 1")
        broker.stop()
        said.append(json.dumps(broker.log).encode())
    help_text = [sys.executable, "-m", "bucketq", "serve", "--help"]
    environment = {**os.environ, **variables, "BUCKETQ_TOKEN": WRONG, "BUCKETQ_TOKENS": WRONG}
    said.append(subprocess.run(help_text, env=environment, capture_output=True, check=True).stdout)
    said += kept(seaweedfs, request.node.name)
    everything = b"\n".join(said)
    assert found_in(everything, secrets) == []
    # It was looked at: the names of tokens are no secrets, and workers have them.
    assert b"w@the-worker" in everything
    assert b"the-viewer" in everything


async def everything_told(broker, authority, secrets):
    """Every answer, good or bad, that can be had of a broker."""
    told = []
    tls = authority.client()
    async with httpx.AsyncClient(
        base_url=f"https://{broker.http}", verify=tls.client_context(), timeout=20
    ) as client:

        async def ask(method, path, kind, content=b""):
            headers = {"authorization": f"Bearer {secrets[kind]}"} if kind else {}
            answer = await client.request(method, path, content=content, headers=headers)
            told.append(repr(answer.headers).encode() + answer.content)
            return answer

        for _ in range(3):
            await ask("POST", "/v1/jobs", "producer", b'{"payload": {"n": 1}, "type": "mail"}')
        claimed = (await ask("POST", "/v1/jobs/claim", "worker", b'{"workerId": "w"}')).json()
        await ask("POST", f"/v1/jobs/{claimed['jobId']}/complete", "worker", b'{"workerId": "w"}')
        for kind in ("viewer", "producer", "worker", "admin", "wrong", None):
            for call in CALLS.values():
                path = call.path.replace("{jobId}", claimed["jobId"]).replace("{", "").replace("}", "")
                for content in (b"", b"{", b'{"workerId": 7}'):
                    await ask(call.method, path, kind, content)
            for path in (
                "/v1/objects/",
                "/v1/objects/..%2fx",
                "/v1/objects/payloads/x",
                "/healthz",
                "/nothing",
            ):
                await ask("GET", path, kind)
            await ask("POST", "/v1/rpc/Batch", kind, b"nonsense")
        # A token where none belongs. Whoever put it there may see it again, but the log may not.
        headers = {"authorization": f"Bearer {secrets['viewer']}"}
        for path in (f"/v1/jobs?token={WRONG}", f"/v1/objects/{WRONG}", f"/{WRONG}", f"/v1/jobs/{WRONG}"):
            await client.get(path, headers=headers)
        await client.post(f"/v1/rpc/{WRONG}", headers=headers)
    for kind in ("viewer", "producer", "worker", "wrong"):
        queue = bucketq.connect(
            f"grpcs://{broker.address}", token=secrets[kind], tls=tls, settings=Settings(retry_for_s=1)
        )
        async with queue as q:
            for attempt in (q.enqueue("mail", 1), q.dequeue("mail"), q.pause(), q.read_state(), q.stats()):
                try:
                    told.append(repr(await attempt).encode())
                except BucketQError as error:
                    told.append(repr(error).encode() + repr(error.__cause__).encode())
            told.append(repr(q).encode())
    credentials = grpc.ssl_channel_credentials(tls.read().ca)
    async with grpc.aio.secure_channel(broker.address, credentials) as channel:
        stats = channel.unary_unary(f"/{pb.DESCRIPTOR.services_by_name['Queue'].full_name}/Stats")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stats(b"", metadata=(("authorization", f"Bearer {WRONG}"),))
        told.append(repr(refused.value).encode() + repr(refused.value.trailing_metadata()).encode())
    return told


def kept(seaweedfs, name):
    """queue.json, and everything beside it."""
    access, secret = SECOND_KEY
    client = boto3.client(
        "s3",
        endpoint_url=seaweedfs.endpoint_url,
        aws_access_key_id=access,
        aws_secret_access_key=secret,
        region_name="us-east-1",
    )
    found = client.list_objects_v2(Bucket=BUCKET, Prefix=name)["Contents"]
    assert f"{name}.json" in {one["Key"] for one in found}
    return [client.get_object(Bucket=BUCKET, Key=one["Key"])["Body"].read() for one in found]


def test_credentials_that_are_wrong_are_not_repeated(url, variables):
    secrets = {"S3": "this-secret-is-wrong-and-nobody-elses-business"}
    variables["AWS_SECRET_ACCESS_KEY"] = secrets["S3"]
    broker = Served(url, "--grpc-port", "0", "--http-port", "0", "--log-level", "debug", **variables)
    assert broker.wait() == 2
    said = json.dumps(broker.log).encode()
    assert b"bucketq: " in said
    assert found_in(said, secrets) == []
