"""Encrypted connections to brokers, by every way, with and without certificates of clients."""

import asyncio
import os
import signal
import ssl
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives import serialization

import bucketq
import bucketq.sync
from bucketq import BrokerUnavailableError, ConfigurationError, ForbiddenError, Settings, Tls, open_storage
from bucketq.broker.serving import serving
from bucketq.broker.tokens import Tokens, new_token
from tests.acceptance.certificates import Authority
from tests.acceptance.hosted import hosted
from tests.acceptance.served import WAYS, served, url_of

QUICK = ("--heartbeat-interval-s", "0.2", "--heartbeat-timeout-s", "1")
SHORT = Settings(retry_for_s=0.3)


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/queue.json"


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def pair(authority):
    return authority.issue("localhost", "127.0.0.1")


@pytest.fixture
def options(pair):
    cert, key = pair
    return ["--host", "localhost", "--tls-cert", cert, "--tls-key", key, *QUICK]


@asynccontextmanager
async def running(url, pair, client_ca=None):
    """A broker in this process."""
    tls = Tls(ca=client_ca, cert=pair[0], key=pair[1])
    async with serving(open_storage(url), tls=tls) as broker:
        while not broker.is_leading:
            await asyncio.sleep(0.01)
        yield broker


@pytest.fixture
def tokens():
    """The environment of a broker with two tokens, and their secrets."""
    (worker, one), (viewer, two) = new_token("w", ["worker", "producer"]), new_token("v", ["viewer"])
    return {"BUCKETQ_TOKENS": f"{one.line};{two.line}"}, worker, viewer


def addresses(way, *brokers):
    return f"{way}s://" + ",".join(broker.address if way == "grpc" else broker.http for broker in brokers)


async def work(q):
    job = await q.enqueue("mail", {"n": 1})
    [claimed] = await q.dequeue("mail", wait=10)
    await q.ack(claimed)
    # Objects go by other ways than calls.
    await q.enqueue("video", b"x" * 3_000_000)
    [large] = await q.dequeue("video", wait=10)
    assert len(large.payload) == 3_000_000
    await q.ack(large)
    return job


async def test_work_goes_on_encrypted_and_with_tokens_while_leaders_come_and_go(
    url, options, authority, tokens
):
    variables, worker, viewer = tokens
    with served(url, *options, **variables) as first:
        first.wait_for("leading")
        with served(url, *options, **variables) as second:
            second.wait_for("another broker leads")
            where = addresses("grpc", second, first)
            async with bucketq.connect(where, token=worker, tls=authority.client()) as q:
                await work(q)
                first.signal(signal.SIGKILL)
                await work(q)
            async with bucketq.connect(where, token=viewer, tls=authority.client()) as q:
                assert (await q.stats()).completed_total == 4
                with pytest.raises(ForbiddenError):
                    await q.enqueue("mail")


@pytest.mark.parametrize("way", WAYS)
async def test_a_broker_that_is_not_trusted_is_not_spoken_to(url, pair, authority, tmp_path, way):
    async with running(url, pair) as broker:
        (tmp_path / "other").mkdir()
        stranger = Authority(tmp_path / "other")
        for tls in (stranger.client(), Tls()):
            async with bucketq.connect(addresses(way, broker), tls=tls, settings=SHORT) as q:
                with pytest.raises(BrokerUnavailableError, match=r"certificate"):
                    await q.stats()
        async with bucketq.connect(addresses(way, broker), tls=authority.client()) as q:
            await q.stats()


@pytest.mark.parametrize("way", WAYS)
async def test_a_certificate_is_for_a_host(url, authority, way):
    async with (
        running(url, authority.issue("queue.example")) as broker,
        bucketq.connect(addresses(way, broker), tls=authority.client(), settings=SHORT) as q,
    ):
        with pytest.raises(BrokerUnavailableError, match=r"certificate"):
            await q.stats()


@pytest.mark.parametrize("way", WAYS)
async def test_with_a_client_ca_only_those_with_a_certificate_come_in(url, pair, authority, tmp_path, way):
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other")
    wrong = Tls(ca=authority.path, **dict(zip(("cert", "key"), stranger.issue("worker"), strict=True)))
    async with running(url, pair, authority.path) as broker:
        where = addresses(way, broker)
        for tls in (authority.client(), wrong):
            async with bucketq.connect(where, tls=tls, settings=SHORT) as q:
                with pytest.raises((BrokerUnavailableError, bucketq.OutcomeUnknownError)):
                    await q.stats()
        async with bucketq.connect(where, tls=authority.client("worker"), settings=SHORT) as q:
            await work(q)


async def test_rest_is_encrypted_and_asks_for_certificates_of_clients_too(url, pair, authority):
    async with running(url, pair, authority.path) as broker:
        health = f"https://{broker.http}/healthz"
        async with httpx.AsyncClient(verify=authority.client("worker").client_context()) as client:
            assert (await client.get(health)).json() == {"status": "ok"}
        async with httpx.AsyncClient(verify=authority.client().client_context()) as client:
            with pytest.raises(httpx.HTTPError):
                await client.get(health)
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.HTTPError):
                await client.get(health.replace("https", "http"))


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_old_versions_of_tls_are_refused(url, pair, authority):
    old = authority.client().client_context()
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    async with running(url, pair) as broker:
        for address in (broker.address, broker.http):
            host, port = address.split(":")
            # OpenSSL sends an alert, gRPC just hangs up.
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection(host, port, ssl=old)


async def test_certificates_that_cannot_be_used_are_told_at_the_start(url, pair, authority, tmp_path):
    cert, key = pair
    _, other = authority.issue("other")
    nothing, empty, encrypted = (str(tmp_path / name) for name in ("nothing", "empty", "encrypted"))
    (tmp_path / "empty").write_text("")
    content = (tmp_path / Path(key).name).read_bytes()
    locked = serialization.BestAvailableEncryption(b"password")
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = serialization.load_pem_private_key(content, None).private_bytes(pem, pkcs8, locked)
    (tmp_path / "encrypted").write_bytes(private)
    for wrong in ((cert, other), (nothing, key), (empty, key), (cert, encrypted)):
        with pytest.raises(ConfigurationError, match="cannot be used"):
            async with running(url, wrong):
                pass
        with pytest.raises(ConfigurationError, match="cannot be used"):
            Tls(cert=wrong[0], key=wrong[1]).client_context()
    for ca in (nothing, empty):
        with pytest.raises(ConfigurationError, match="cannot be used"):
            async with running(url, pair, ca):
                pass


@pytest.mark.parametrize("way", WAYS)
def test_a_token_never_travels_in_the_open_beyond_this_machine(way, monkeypatch):
    for host in ("queue.example", "10.0.0.7", "[fd00::7]:7420"):
        with pytest.raises(ConfigurationError, match="unencrypted"):
            bucketq.connect(f"{way}://{host}", token="bq_secret")
    monkeypatch.setenv("BUCKETQ_TOKEN", "bq_secret")
    with pytest.raises(ConfigurationError, match="unencrypted") as refused:
        bucketq.connect(f"{way}://localhost,queue.example")
    assert "bq_secret" not in str(refused.value)
    for safe in (
        f"{way}://localhost",
        f"{way}://127.0.0.1:7421",
        f"{way}://[::1]:7420",
        f"{way}s://queue.example",
    ):
        bucketq.connect(safe)
    with pytest.raises(ConfigurationError, match=f"{way}s://"):
        bucketq.connect(f"{way}://localhost", tls=Tls())


def test_a_token_may_be_in_a_file_and_its_variable_names_one(tmp_path, monkeypatch):
    (tmp_path / "token").write_text("bq_secret\n")
    monkeypatch.setenv("BUCKETQ_TOKEN_FILE", str(tmp_path / "token"))
    with pytest.raises(ConfigurationError, match="unencrypted"):
        bucketq.connect("grpc://queue.example")
    bucketq.connect("grpcs://queue.example")
    monkeypatch.setenv("BUCKETQ_TOKEN", "bq_other")
    with pytest.raises(ConfigurationError, match="not in both"):
        bucketq.connect("grpcs://queue.example")
    monkeypatch.delenv("BUCKETQ_TOKEN")
    monkeypatch.setenv("BUCKETQ_TOKEN_FILE", str(tmp_path / "nothing"))
    with pytest.raises(ConfigurationError, match="nothing cannot be read"):
        bucketq.connect("grpcs://queue.example")


@pytest.mark.parametrize("way", WAYS)
async def test_a_token_is_not_taken_along_to_a_leader_elsewhere(url, way):
    secret, token = new_token("w", ["producer"])
    tokens = Tokens([token])
    # What a standby says of the leader's address is followed, but not with a token in the open.
    with (
        hosted(url, advertise="queue.example", tokens=tokens),
        hosted(url, leads=False, tokens=tokens) as standby,
    ):
        async with bucketq.connect(url_of(way, standby), token=secret, settings=SHORT) as q:
            with pytest.raises(ConfigurationError, match=r"queue\.example.*unencrypted"):
                await q.enqueue("mail")


APP = """
from bucketq import App
app = App("memory://")

@app.job
def greet(name: str) -> str:
    return f"hello {name}"
"""


def test_token_and_certificates_come_from_the_environment_where_none_are_given(
    url, options, authority, tokens, tmp_path
):
    variables, worker, _ = tokens
    (tmp_path / "greeting.py").write_text(APP)
    tls = authority.client("worker")
    given = {"BUCKETQ_TOKEN": worker, "BUCKETQ_CA": tls.ca, "BUCKETQ_CERT": tls.cert, "BUCKETQ_KEY": tls.key}
    with served(url, *options, "--tls-client-ca", authority.path, **variables) as broker:
        broker.wait_for("leading")
        where = f"grpcs://{broker.address}"
        command = [sys.executable, "-m", "bucketq", "work", "greeting:app", "--url", where]
        process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, **given})
        try:
            with bucketq.sync.connect(where, token=worker, tls=tls) as q:
                job = q.enqueue("greet", {"name": "Ada"})
                assert q.result(job, timeout=30) == "hello Ada"
        finally:
            process.terminate()
            assert process.wait(30) == 0
