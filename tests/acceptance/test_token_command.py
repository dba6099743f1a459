"""Tokens as their users meet them: `bucketq token`, brokers that follow the file, and docs/security.md."""

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest
import websockets

import bucketq.sync
from bucketq import LocalFileSystemStorage, UnauthenticatedError
from bucketq.broker.serving import serving
from bucketq.broker.token_file import TokenFile
from bucketq.broker.tokens import new_token
from bucketq.cli.__main__ import main
from tests.acceptance.served import served, url_of
from tests.deploy.files import tool
from tests.docs.blocks import blocks


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs bucketq with some arguments; gives its exit code, and what it printed on either stream."""
    log = logging.getLogger("bucketq")
    handlers, level = log.handlers[:], log.level

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["bucketq", *arguments])
        code = main()
        return code, *capsys.readouterr()

    yield run
    log.handlers[:] = handlers
    log.setLevel(level)


def test_tokens_are_made_listed_and_revoked(tmp_path, command):
    path = tmp_path / "tokens"

    def token(*arguments, code=0):
        done, out, told = command("token", *arguments)
        assert done == code, told
        return out, told

    given = ["--file", str(path)]
    out, told = token("new", "web", "--role", "producer", "--role", "worker", "--expires-in", "90d", *given)
    [secret] = out.split()
    assert secret not in path.read_text()
    assert "shown this once" in told
    token("new", "ops", "--role", "admin", *given)
    lines = token("list", *given)[0].splitlines()[1:]
    assert [line.split()[:3] for line in lines] == [
        ["web", "producer,worker", "expires"],
        ["ops", "admin", "expires"],
    ]
    assert "already" in token("new", "ops", "--role", "admin", *given, code=2)[1]
    token("revoke", "web", *given)
    assert token("list", *given)[0].splitlines()[1].split()[0] == "ops"
    assert "no token 'web'" in token("revoke", "web", *given, code=2)[1]
    secret, line = token("new", "web", "--role", "viewer")[0].splitlines()
    path.write_text(line)
    assert TokenFile(str(path)).read().caller_of(secret, None).name == "web"
    assert "12h" in token("new", "x", "--role", "viewer", "--expires-in", "soon", code=2)[1]


async def test_a_revoked_token_is_good_for_nothing_within_about_a_second(tmp_path):
    file = TokenFile(str(tmp_path / "tokens"))
    secrets = {}
    for name in ("bad", "good"):
        secrets[name], token = new_token(name, ["worker", "producer"])
        file.add(token)
    storage = LocalFileSystemStorage(tmp_path / "queue.json")
    async with serving(storage, tokens=TokenFile(str(tmp_path / "tokens"))) as broker:
        while not broker.is_leading:
            await asyncio.sleep(0.01)
        headers = {"authorization": f"Bearer {secrets['bad']}"}
        client = httpx.AsyncClient(base_url=f"http://{broker.http}", headers=headers, timeout=60)
        socket = websockets.connect(f"ws://{broker.http}/v1/ws", additional_headers=headers)
        good = bucketq.connect(f"grpc://{broker.address}", token=secrets["good"])
        ways = [f"grpc://{broker.address}", f"http://{broker.http}", f"ws://{broker.http}"]
        async with client, socket as talking, good, AsyncExitStack() as stack:
            waiting = []
            for way in ways:
                bad = await stack.enter_async_context(bucketq.connect(way, token=secrets["bad"]))
                waiting.append(asyncio.create_task(bad.dequeue("mail", wait=60)))
                # Until it is in.
                await bad.stats()
            polling = asyncio.create_task(client.post("/v1/jobs/claim", json={"workerId": "w", "wait": 60}))
            watching = asyncio.create_task(client.get("/v1/events"))
            working = asyncio.create_task(good.dequeue("mail", wait=60))
            for number, call in enumerate(("claimJob", "getStats")):
                params = {"workerId": "w", "wait": 60} if call == "claimJob" else {}
                await talking.send(json.dumps({"id": number, "method": call, "params": params}))
            assert json.loads(await talking.recv())["ok"], "the statistics; the other one waits"
            await client.get("/v1/stats")
            file.revoke("bad")
            began_s = time.monotonic()
            for task in waiting:
                with pytest.raises(UnauthenticatedError):
                    await task
            assert (await polling).status_code == 401
            assert "event: " in (await watching).text, "it was open, and has ended"
            assert json.loads(await talking.recv())["error"]["_tag"] == "UnauthenticatedError"
            assert time.monotonic() - began_s < 10, "long before they would have been done"
            assert (await client.get("/v1/stats")).status_code == 401
            await talking.send(json.dumps({"id": 3, "method": "getStats"}))
            assert json.loads(await talking.recv())["error"]["_tag"] == "UnauthenticatedError"
            # Nothing is given to those who were sent away.
            await good.enqueue("mail", {"n": 1})
            [job] = await working
            await good.ack(job)


@pytest.mark.parametrize(
    ("options", "lines", "says"),
    [
        (["--host", "0.0.0.0"], None, "--tokens-file"),
        (["--host", "0.0.0.0", "--tls-cert", "a", "--tls-key", "b"], None, "--tokens-file"),
        (["--host", "::"], None, "--insecure"),
        (["--tokens-file", "nothing"], None, "cannot be read"),
        (["--tokens-file", "empty"], None, "bucketq token new"),
        (["--tokens-file", "plain"], None, "line 2"),
        ([], "", "bucketq token new"),
        ([], "web worker hunter2", "BUCKETQ_TOKENS, line 1"),
        (["--tokens-file", "plain"], "web worker hunter2", "not from both"),
        (["--tls-cert", "a"], None, "goes with --tls-key"),
        (["--tls-key", "a"], None, "goes with --tls-key"),
        (["--tls-client-ca", "a"], None, "--tls-cert"),
    ],
)
def test_a_broker_does_not_start_with_an_open_door_or_half_a_lock(
    tmp_path, command, monkeypatch, options, lines, says
):
    monkeypatch.chdir(tmp_path)
    Path("empty").write_text("# nobody yet\n")
    Path("plain").write_text("# callers\nweb worker hunter2\n")
    if lines is not None:
        monkeypatch.setenv("BUCKETQ_TOKENS", lines)
    ports = ("--grpc-port", "0", "--http-port", "0")
    code, _, told = command("serve", f"file://{tmp_path}/queue.json", *ports, *options)
    assert code == 2
    [line] = told.splitlines()
    assert line.startswith("bucketq: ")
    assert says in line
    assert "hunter2" not in line


APP = """
from bucketq import App
app = App("memory://")

@app.job
def send_email(to: str) -> str:
    return f"sent to {to}"
"""


def test_the_guide_works_as_it_is_written(tmp_path):
    """Its commands, one after the other, with a folder for the bucket and this machine for another."""
    tool("curl")
    (tmp_path / "myapp").mkdir()
    (tmp_path / "myapp" / "jobs.py").write_text(APP)
    tokens, certificates, serve, work, curl = (block.text for block in blocks("docs/security.md", "bash"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "BUCKETQ_GRPC_PORT": "0", "BUCKETQ_HTTP_PORT": "0"}

    def run(script, **options):
        command = ["bash", "-euc", script]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, check=True, capture_output=True, **options
        )

    listed = run(tokens).stdout.decode()
    assert [line.split()[1] for line in listed.splitlines()[1:]] == ["producer", "worker", "admin"]
    run(certificates)
    here = serve.replace("s3://my-bucket/jobs.json", f"file://{tmp_path}/queue.json")
    here = here.replace("--host 0.0.0.0 --advertise queue1.example.com", "--host localhost")
    assert "localhost" in here
    with subprocess.Popen(
        ["bash", "-euc", f"exec {here}"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as broker:
        try:
            serving_line = next(line for line in broker.stderr if "serving " in line)
            grpc_port, http_port = re.search(
                r"localhost:(\d+), and at https://localhost:(\d+)", serving_line
            ).groups()
            next(line for line in broker.stderr if "leading" in line)

            def local(script):
                script = script.replace("queue1.example.com:7420", f"localhost:{grpc_port}")
                return script.replace("queue1.example.com:8420", f"localhost:{http_port}")

            job = json.loads(run(local(curl)).stdout)
            with subprocess.Popen(
                ["bash", "-euc", local(work).replace("BUCKETQ_TOKEN=", "exec env BUCKETQ_TOKEN=")],
                cwd=tmp_path,
                env=environment,
            ) as worker:
                try:
                    stats = f'curl -fs --cacert ca.pem -H "Authorization: Bearer $(cat ops.secret)" https://localhost:{http_port}'
                    result = run(f"{stats}/v1/jobs/{job['jobId']}/result?wait=60").stdout
                    assert json.loads(result)["result"] == "sent to alice@example.com"
                finally:
                    worker.terminate()
        finally:
            broker.terminate()


def test_a_worker_token_is_enough_for_an_app_with_schedules(tmp_path, command):
    """Each process is a real one: a broker with a file of tokens, and `bucketq work` with a worker's."""
    app = """import bucketq

app = bucketq.App("memory://")


@app.job(every=1)
def tick() -> None:
    pass
"""
    (tmp_path / "clock_jobs.py").write_text(app)
    tokens = str(tmp_path / "tokens")
    secrets = {
        role: command("token", "new", role, "--role", role, "--file", tokens)[1].strip()
        for role in ("worker", "viewer")
    }
    with served(f"file://{tmp_path}/queue.json", "--tokens-file", tokens) as broker:
        url = url_of("grpc", broker)
        worker = subprocess.Popen(
            [sys.executable, "-m", "bucketq", "work", "clock_jobs:app", "--url", url],
            cwd=tmp_path,
            env={**os.environ, "BUCKETQ_TOKEN": secrets["worker"]},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            with bucketq.sync.connect(url, token=secrets["viewer"]) as q:
                while not q.stats().completed_total:
                    assert worker.poll() is None, worker.communicate()
                    time.sleep(0.05)
                assert [one.name for one in q.schedules()] == ["tick"]
        finally:
            worker.terminate()
            worker.communicate(timeout=40)
    assert worker.returncode == 0
