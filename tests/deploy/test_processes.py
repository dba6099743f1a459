"""The commands of compose.yaml as real processes on this machine, with a leader that is killed.

No container engine is needed: other containers become ports of localhost, and the folders of containers those
of the test. All else is as compose.yaml has it: commands, variables, secrets, health checks.
"""

import os
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import httpx
import pytest

from tests.contract.servers import free_ports, remove_sockets
from tests.deploy.files import DEPLOY, compose, said, told_to_cli, tool

WITHIN_S = 60
WEED_PORTS = [
    f"{part}.port{kind}" for part in ("master", "volume", "filer", "admin") for kind in ("", ".grpc")
]
WEED_PORTS += ["s3.port.grpc"]
WEED_NOT_HERE = ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.port.iceberg=0", "-s3.port.lance=0"]


class Container:
    """A service of compose.yaml as a process."""

    def __init__(self, service, places, folder, more):
        self._service = compose()["services"][service]
        self._places = places
        told = self._service.get("environment", {})
        self.variables = {name: self._here(value) for name, value in told.items()}
        if file := self._service.get("env_file"):
            lines = (places["/run/secrets"] / Path(file).name).read_text().split()
            self.variables |= dict(line.split("=", 1) for line in lines)
        program = [tool("weed")] if service == "store" else [sys.executable, "-m", "bucketq"]
        self.log = Path(tempfile.mkdtemp(dir=folder)) / f"{service}.log"
        self._command = [*program, *map(self._here, self._service.get("command", ())), *more]
        self._cwd = DEPLOY / "try" if service == "worker" else folder
        self._environment = {**os.environ, "TMPDIR": str(folder), **self.variables}
        self._run()

    def _run(self):
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._cwd,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _here(self, text):
        """What a text of compose.yaml means on this machine."""
        for there, here in self._places.items():
            text = text.replace(there, str(here))
        return text

    def is_well(self):
        """What its health check says."""
        check = " ".join(map(self._here, self._service["healthcheck"]["test"][1:]))
        if self._process.poll() is not None:
            # The store is well a moment before its bucket is there; a broker that came too soon comes again.
            assert self._service["restart"] == "unless-stopped"
            assert self.said("there is no bucket"), self.log.read_text()
            self._run()
        if "healthcheck.py" in check:
            command = check.replace("python", sys.executable, 1).split()
            done = subprocess.run(command, env={**os.environ, **self.variables}, stderr=subprocess.DEVNULL)
            return done.returncode == 0
        try:
            # The image of the store has wget; this machine need not.
            return httpx.get(re.search(r"http://\S+", check)[0], trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def said(self, text):
        return text in self.log.read_text()

    def told(self):
        """All that it has to say, when it has ended well."""
        assert self._process.wait(WITHIN_S) == 0, self.log.read_text()
        return self.log.read_text()

    def end(self, number=signal.SIGTERM):
        """Signal it, and wait for its exit code, as long as compose.yaml lets it take."""
        self._process.send_signal(number)
        return self._process.wait(int(self._service["stop_grace_period"].removesuffix("s")))

    def remove(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secrets") / "made"
    scripts = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    hosts = [name for name in compose()["services"] if name.startswith("broker")]
    said(DEPLOY / "make-secrets", folder, *hosts, env={**os.environ, "PATH": scripts})
    return folder


@pytest.fixture
def start(tmp_path, secrets):
    """Start a service, and wait until it is well."""
    s3, *ports = free_ports(6 + len(WEED_PORTS) + 1)
    grpc, http = {"broker-1": ports[0], "broker-2": ports[1]}, {"broker-1": ports[2], "broker-2": ports[3]}
    (tmp_path / "data").mkdir()
    everywhere = {
        "/run/secrets": secrets,
        "/opt/bucketq/healthcheck.py": DEPLOY / "healthcheck.py",
        "/data": tmp_path / "data",
        "0.0.0.0": "localhost",
        "store:8333": f"localhost:{s3}",
        "localhost:8333": f"localhost:{s3}",
        "s3.port=8333": f"s3.port={s3}",
        **{name: f"localhost:{port}" for name, port in grpc.items()},
    }
    weed = [f"-{name}={port}" for name, port in zip(WEED_PORTS, ports[6:], strict=True)]
    running = []

    def start(service, number=0, arguments=()):
        own, more = {}, arguments
        if service == "store":
            more = [*WEED_NOT_HERE, *weed]
        elif service in grpc:
            own = {"localhost:8420": f"localhost:{http[service]}"}
            more = [f"--grpc-port={grpc[service]}", f"--http-port={http[service]}"]
        elif service == "worker":
            own = {"=8080": f"={ports[4 + number]}", "localhost:8080": f"localhost:{ports[4 + number]}"}
        container = Container(service, {**own, **everywhere}, tmp_path, more)
        running.append(container)
        if service != "cli":
            until(container.is_well)
        return container

    yield start
    for container in running:
        container.remove()
    remove_sockets([s3, *ports])


def until(condition):
    end_s = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < end_s, "it did not come to that"
        time.sleep(0.1)


@pytest.mark.timeout(300)
def test_two_brokers_and_two_workers_go_on_when_the_leader_is_killed(start):
    start("store")
    first = start("broker-1")
    until(lambda: first.said("leading"))
    second = start("broker-2")
    replicas = compose()["services"]["worker"]["deploy"]["replicas"]
    workers = [start("worker", number) for number in range(replicas)]
    for_alice, for_bob = told_to_cli()
    assert start("cli", arguments=for_alice).told() == '"hello, Alice"\n'
    first.end(signal.SIGKILL)
    # While nobody leads it may say before that it waits.
    assert start("cli", arguments=for_bob).told().splitlines()[-1] == '"hello, Bob"'
    assert second.said("leading")
    assert [container.end() for container in (*workers, second)] == [0, 0, 0]


def test_secrets_are_their_owners_alone_and_never_overwritten(secrets):
    assert secrets.stat().st_mode & 0o777 == 0o700
    assert (secrets / "ca.key").stat().st_mode & 0o777 == 0o600
    before = (secrets / "tokens").read_text()
    done = subprocess.run([DEPLOY / "make-secrets", secrets, "broker"], capture_output=True, text=True)
    assert done.returncode != 0
    assert (secrets / "tokens").read_text() == before
    for name, secret in compose()["secrets"].items():
        assert (DEPLOY / secret["file"]).name == name
        assert (secrets / name).exists()
