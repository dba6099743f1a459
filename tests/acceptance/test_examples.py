"""The scripts in examples/ run, as a reader would run them, and do what they say."""

import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from mailbox import Maildir
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import httpx
import pytest
from PIL import Image

import bucketq.sync
from bucketq.testing import testing

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(script: str, *arguments: str, folder: Path) -> list[str]:
    command = [sys.executable, str(EXAMPLES / script), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@contextmanager
def working(app: str, *options: str, folder: Path) -> Iterator[None]:
    """A worker, `bucketq work`, that is told to stop at the end of the block."""
    command = [sys.executable, "-m", "bucketq", "work", app, *options]
    # A reader is in the folder of the examples; the test is in one of its own.
    paths = os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    log = folder / "worker.log"
    with log.open("w") as output:
        worker = subprocess.Popen(
            command, cwd=folder, stderr=output, stdout=output, env={**os.environ, "PYTHONPATH": paths}
        )
        try:
            yield
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(40) == 0, log.read_text()
        finally:
            worker.kill()
            worker.wait()


def wait_until(condition: Callable[[], bool], limit_s: float = 40) -> None:
    until_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until_s, "it did not happen in time"
        time.sleep(0.05)


def wait_until_finished(folder: Path) -> bucketq.Stats:
    """Wait until no job is left in the queue of an example."""
    with bucketq.sync.connect(f"file://{folder}/queue.json") as queue:

        def is_finished() -> bool:
            stats = queue.stats()
            return stats.enqueued_total == stats.completed_total + stats.dead_total > 0

        wait_until(is_finished)
        return queue.stats()


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Imports an example."""
    monkeypatch.syspath_prepend(EXAMPLES)
    return import_module


def test_every_example_is_listed_and_tested() -> None:
    scripts = {path.name for path in EXAMPLES.glob("*.py")}
    listed = re.findall(
        r"^\| \[(\w+\.py)\]\((\w+\.py)\) \|", (EXAMPLES / "README.md").read_text(), re.MULTILINE
    )
    assert {name for pair in listed for name in pair} == scripts
    tests = Path(__file__).read_text() + (EXAMPLES.parent / "tests/spark/test_data_engineers.py").read_text()
    tested = re.findall(r"^def test_(\w+)|^async def test_(\w+)", tests, re.MULTILINE)
    assert {path.removesuffix(".py") for path in scripts} <= {name for pair in tested for name in pair}


def test_email_sender(tmp_path: Path) -> None:
    sent = run("email_sender.py", "alice@example.com", "bob@example.com", folder=tmp_path)
    assert sent == ["enqueued 2 mails"]
    with working("email_sender:app", folder=tmp_path):
        assert wait_until_finished(tmp_path).completed_total == 2
        run("email_sender.py", "carol@example.com", folder=tmp_path)
        assert wait_until_finished(tmp_path).completed_total == 3
    mails = sorted((mail["To"], mail["Subject"]) for mail in Maildir(tmp_path / "outbox"))
    assert mails == [(f"{name}@example.com", "Welcome") for name in ("alice", "bob", "carol")]


def test_thumbnails(tmp_path: Path) -> None:
    images = [tmp_path / f"{name}.png" for name in ("wide", "high")]
    Image.new("RGB", (800, 400)).save(images[0])
    Image.new("RGBA", (100, 1000)).save(images[1])
    broken = tmp_path / "broken.png"
    broken.write_text("no image")
    names = [image.name for image in (*images, broken)]
    assert run("thumbnails.py", *names, folder=tmp_path) == ["enqueued 3 images"]
    with working("thumbnails:app", "--concurrency", "2", folder=tmp_path):
        stats = wait_until_finished(tmp_path)
    assert (stats.completed_total, stats.dead_total) == (2, 1)
    sizes = {}
    for path in (tmp_path / "thumbnails").iterdir():
        with Image.open(path) as image:
            sizes[path.name] = image.size
    assert sizes == {"wide.200.jpg": (200, 100), "high.200.jpg": (20, 200)}


class Site:
    """Ten pages that link to each other and elsewhere, and counts of who was asked for what."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.fetched: Counter[str] = Counter()
        self.under_way: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    def answer(self, host: str, path: str) -> str:
        with self.lock:
            self.fetched[host + path] += 1
            self.under_way[host] += 1
            self.most[host] = max(self.most[host], self.under_way[host])
        # A page takes its time, so that another request would be seen beside it.
        time.sleep(0.05)
        with self.lock:
            self.under_way[host] -= 1
        links = [f'<a href="/{n}#top">{n}</a>' for n in range(10)]
        return "".join([*links, '<a href="http://elsewhere.invalid/">no</a>'])


@contextmanager
def serving(site: Site) -> Iterator[int]:
    """Serve a site, and tell the port."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(site.answer(self.headers["Host"], self.path).encode())

        def log_message(self, *about: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def test_scraper(tmp_path: Path) -> None:
    site = Site()
    with serving(site) as port:
        hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost")]
        run("scraper.py", *(f"http://{host}/0" for host in hosts), folder=tmp_path)
        with working("scraper:app", folder=tmp_path):
            stats = wait_until_finished(tmp_path)
    assert (stats.completed_total, stats.dead_total) == (20, 0)
    assert site.fetched == {f"{host}/{n}": 1 for host in hosts for n in range(10)}
    assert site.most == dict.fromkeys(hosts, 1)


def test_nightly_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Callable[[str], Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    nightly = example("nightly_report")
    with testing(nightly.app, now=datetime(2026, 2, 27, 12, tzinfo=UTC)) as jobs:
        jobs.advance_sync(days=2)
    reports = sorted(path.name for path in tmp_path.iterdir())
    assert reports == ["report-2026-02-27.txt", "report-2026-02-28.txt"]
    with working("nightly_report:app", folder=tmp_path):
        wrote = run("nightly_report.py", "2026-01-01", folder=tmp_path)
    assert wrote == ["wrote report-2026-01-01.txt"]


async def test_fastapi_app(example: Callable[[str], Any]) -> None:
    module = example("fastapi_app")
    transport = httpx.ASGITransport(module.api)
    async with (
        testing(module.jobs) as jobs,
        module.lifespan(module.api),
        httpx.AsyncClient(transport=transport, base_url="http://test") as client,
    ):
        answer = await client.post("/signups", json={"email": "alice@example.com", "name": "Alice"})
        where = f"/signups/{answer.json()['job']}"
        assert (answer.status_code, (await client.get(where)).json()) == (202, {"status": "waiting"})
        jobs.assert_enqueued(module.welcome, signup=module.Signup(email="alice@example.com", name="Alice"))
        await jobs.drain()
        result = "Welcome, Alice! We will write to alice@example.com."
        assert (await client.get(where)).json() == {"status": "completed", "result": result}
        assert (await client.get("/signups/unknown")).status_code == 404
        assert (await client.post("/signups", json={"name": "Bob"})).status_code == 422


def test_flask_style(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Callable[[str], Any]) -> None:
    monkeypatch.chdir(tmp_path)
    module = example("flask_style")
    statuses: list[str] = []
    environ: dict[str, Any] = {"wsgi.input": io.BytesIO(b"report.pdf"), "CONTENT_LENGTH": "10"}
    setup_testing_defaults(environ)
    with testing(module.jobs) as jobs:
        body = b"".join(module.application(environ, lambda status, headers: statuses.append(status)))
        job = jobs.assert_enqueued(module.convert_document, name="report.pdf")
        assert (statuses, body.decode()) == (["202 Accepted"], f"{job.id}\n")
        jobs.drain_sync()
    assert (tmp_path / "report.txt").read_text() == "the text of report.pdf\n"


def test_tenants_pipeline(tmp_path: Path) -> None:
    lines = run("tenants_pipeline.py", folder=tmp_path)
    assert lines[:5] == [
        "whale: convert page 1",
        "minnow: convert page 1",
        "whale: convert page 2",
        "minnow: convert page 2",
        "whale: convert page 3",
    ]
    for customer in ("whale", "minnow"):
        ends = [line for line in lines if line.startswith(customer) and "convert" not in line]
        assert ends == [
            f"{customer}: publish, 0 pages are missing",
            f"{customer}: notify",
            f"{customer}: tidy up",
        ]
    assert len(lines) == 13


def test_long_job(tmp_path: Path) -> None:
    assert run("long_job.py", folder=tmp_path) == [
        "steady worker: transcoded 20 chunks",
        "steady worker: done, attempt 1",
        "first worker: the job was taken away, stopped",
        "second worker: transcoded 3 chunks",
        "second worker: done, attempt 2",
        "completed 2 of 2",
    ]


def test_order_steps(tmp_path: Path) -> None:
    assert run("order_steps.py", folder=tmp_path) == [
        "charge order 1",
        "charge order 2",
        "pack order 1",
        "pack order 2",
        "ship order 1",
        "ship order 2",
        "charge order 3",
        "refused as a whole: the claim is lost, so nothing was enqueued",
        "charge order 3",
        "order 3 is in the queue 1 time(s), as 'pack'",
    ]


def test_archive_duckdb(tmp_path: Path) -> None:
    assert run("archive_duckdb.py", folder=tmp_path) == [
        "what became of them",
        "    charge completed 4 1",
        "    charge dead 1 1",
        "why jobs failed",
        "    ValueError 1 ValueError: no country",
        "what was charged",
        "    AT 400",
        "    CH 400",
        "    DE 200",
    ]
