"""`bucketq doctor` as a user runs it, and what it says of brokers."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from bucketq.broker.tokens import Tokens, new_token
from bucketq.cli.__main__ import main
from bucketq.doctor import examine
from bucketq.sync import connect
from tests.acceptance.hosted import hosted
from tests.acceptance.served import WAYS, served, url_of

BEAT_WITHIN_S = 2.0


def doctor(*arguments, **variables):
    command = [sys.executable, "-m", "bucketq", "doctor", *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=90, env={**os.environ, **variables}
    )


@pytest.fixture
def findings(capsys, monkeypatch):
    """Runs it in this process; gives the exit code, and the findings by what they are about."""
    monkeypatch.setattr("bucketq.doctor.brokers._BEAT_WITHIN_S", BEAT_WITHIN_S)
    # The name of this module is also that of its function.
    monkeypatch.setattr(sys.modules[examine.__module__], "_BROKER_WAIT_S", 0.2)
    at_sigterm = signal.getsignal(signal.SIGTERM)

    def findings(*arguments):
        code = main(["doctor", *arguments, "--json"])
        out, err = capsys.readouterr()
        assert err == ""
        told = {}
        for line in out.splitlines():
            finding = json.loads(line)
            told.setdefault(finding["about"], []).append(finding)
        return code, told

    yield findings
    signal.signal(signal.SIGTERM, at_sigterm)


@pytest.fixture
def queue_url(tmp_path):
    url = f"file://{tmp_path}/queue.json"
    with connect(url) as queue:
        # No terminal obeys a name.
        queue.enqueue("send_email\x1b[2J")
    return url


@contextmanager
def others_at_work(queue_url):
    over = threading.Event()

    def work():
        with connect(queue_url) as queue:
            while not over.wait(0.5):
                queue.enqueue("send_email")

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        over.set()
        worker.join()


def test_a_sound_queue_ends_well(queue_url, tmp_path):
    ended = doctor(BUCKETQ_URL=queue_url)
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    assert all(line.startswith(("ok ", "note ")) for line in lines), ended.stdout
    assert "\x1b" not in ended.stdout
    assert any("1 waiting" in line for line in lines)
    assert r"(send_email\x1b[2J)" in ended.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["queue.json", "queue.json.lock"]


def test_a_problem_is_told_by_the_exit_code(findings, tmp_path):
    (tmp_path / "queue.json").write_text("[]")
    code, told = findings(f"file://{tmp_path}/queue.json")
    assert code == 1
    assert [finding["level"] for finding in told["queue"]] == ["problem"]
    assert "Restore" in told["queue"][0]["advice"]


def test_what_cannot_be_looked_at_is_told_by_the_exit_code(findings, tmp_path):
    (tmp_path / "file").write_text("")
    assert findings(f"file://{tmp_path}/file/queue.json")[0] == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_is_stopped_leaves_nothing(tmp_path, number):
    command = [sys.executable, "-m", "bucketq", "doctor", f"file://{tmp_path}/queue.json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            while "deleted meanwhile" not in running.stdout.readline():
                assert running.poll() is None
            # Now its processes count.
            assert list(tmp_path.iterdir())
            running.send_signal(number)
            assert running.wait(60) == 130
        finally:
            running.kill()
    assert list(tmp_path.iterdir()) == []


def test_a_url_that_is_none_is_refused(capsys):
    assert main(["doctor", "ftp://somewhere/queue.json"]) == 2
    assert capsys.readouterr().err.startswith("bucketq: no storage has the scheme 'ftp'")


def test_a_leader_is_well_until_it_is_killed(findings, queue_url):
    with served(queue_url, "--heartbeat-interval-s", "0.2") as broker:
        broker.wait_for("leading")
        code, told = findings(queue_url)
        assert code == 0
        assert "leads, and its heart beats" in told["brokers"][0]["found"]
        broker.signal(signal.SIGKILL)
        broker.wait()
        # That others write to the file is no sign of life of the broker's.
        with others_at_work(queue_url):
            code, told = findings(queue_url)
    assert code == 1
    assert told["brokers"][0]["level"] == "problem"
    assert f"its heart has not beaten for {BEAT_WITHIN_S:g} s or more" in told["brokers"][0]["found"]
    assert "bucketq serve" in told["brokers"][0]["advice"]


@pytest.mark.parametrize("way", WAYS)
def test_brokers_are_asked_each_by_itself(findings, queue_url, way):
    with hosted(queue_url) as leader, hosted(queue_url, leads=False) as standby:
        code, told = findings(url_of(way, leader, standby))
    assert code == 0
    leads, waits = told["brokers"]
    assert "leads, and answers within" in leads["found"]
    assert "answers and waits: another broker leads" in waits["found"]
    assert "1 waiting" in told["queue"][0]["found"]
    assert "a broker does not show it" in told["storage"][0]["found"]


def test_brokers_that_are_gone_are_told(findings, queue_url):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"127.0.0.1:{taken.getsockname()[1]}"
    with hosted(queue_url) as broker:
        url = f"{url_of('grpc', broker)},{closed}"
        code, told = findings(url)
        assert (code, told["brokers"][1]["level"]) == (0, "warning")
        assert f"{closed} does not answer" in told["brokers"][1]["found"]
    code, told = findings(url)
    assert code == 2
    assert [finding["level"] for finding in told["queue"]] == ["failed"]
    assert "Is one running (`bucketq serve`)?" in told["queue"][0]["found"]


def test_a_broker_that_wants_a_token_is_told(findings, queue_url, monkeypatch):
    secret, token = new_token("ops", ["viewer"])
    with hosted(queue_url, tokens=Tokens([token])) as broker:
        code, told = findings(url_of("grpc", broker))
        assert code == 2
        assert "BUCKETQ_TOKEN" in told["brokers"][0]["found"]
        monkeypatch.setenv("BUCKETQ_TOKEN", secret)
        code, told = findings(url_of("grpc", broker))
        assert code == 0, told
