"""The image: what is in it, whom it runs as, and that its lock file is the project's."""

import asyncio
import re
import sys
import tomllib

import pytest

from bucketq.app.worker.health import told_health
from bucketq.url import GRPC_PORT, HTTP_PORT
from tests.deploy.conftest import ROOT
from tests.deploy.files import DEPLOY, deployed, pods

PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)", re.MULTILINE)
# What a secret looks like: a token, keys of AWS, of a certificate, of a storage account.
SECRETS = re.compile(
    r"\bbq_[\w-]{20,}|\bAKIA[0-9A-Z]{16}\b|PRIVATE KEY-----|\baws_secret_access_key\s*[=:]\s*\w"
    r"|AccountKey=\w",
    re.IGNORECASE,
)


def instructions(name):
    """What the Dockerfile says by an instruction, each time."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.removeprefix(name).strip() for line in text.splitlines() if line.startswith(f"{name} ")]


def test_it_runs_as_somebody_who_is_not_root_and_kubernetes_knows_the_number():
    user, group = instructions("USER")[-1].split(":")
    assert int(user) > 0
    for spec in pods().values():
        asked = spec["securityContext"]
        assert (asked["runAsUser"], asked["runAsGroup"], asked["runAsNonRoot"]) == (
            int(user),
            int(group),
            True,
        )


def test_it_has_the_ports_of_brokers():
    assert instructions("EXPOSE") == [f"{GRPC_PORT} {HTTP_PORT}"]
    assert f'"http://localhost:{HTTP_PORT}/healthz"' in instructions("HEALTHCHECK")[0]


def test_what_goes_in_is_there_and_not_ignored():
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    let_in = [line[1:] for line in lines if line.startswith("!")]
    copied = [part for line in instructions("COPY") if "--from" not in line for part in line.split()[:-1]]
    assert sorted(copied) == sorted(let_in)
    assert all((ROOT / one).exists() for one in copied)
    assert "*" in lines


def test_its_packages_are_those_of_the_project_with_hashes_and_without_spark():
    ours, image = (
        dict(PIN.findall(path.read_text()))
        for path in (ROOT / "requirements.lock", DEPLOY / "requirements.lock")
    )
    assert image.items() <= ours.items(), "make lock"
    assert {"grpcio", "obstore", "uvicorn", "hatchling"} <= image.keys()
    assert image.keys().isdisjoint({"pyspark", "pandas", "pyarrow"})
    text = (DEPLOY / "requirements.lock").read_text()
    assert len(PIN.findall(text)) == len(re.findall(r"^\S+==.* \\\n    --hash=sha256:", text, re.MULTILINE))


def test_what_the_guide_puts_on_top_goes_where_its_packages_are_and_leaves_its_user():
    [into] = {python for line in instructions("RUN") for python in re.findall(r"pip --python (\S+)", line)}
    images = re.findall(r"^```dockerfile\n(.*?)^```", (ROOT / "docs/deploy.md").read_text(), re.M | re.S)
    assert len(images) == 2
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for image in images:
        assert re.findall(r"pip --python (\S+)", image) == [into]
        assert re.findall(r"^USER (.*)$", image, re.M)[-1] == instructions("USER")[-1]
        assert set(re.findall(r"bucketq\[(\w+)\]", image)) <= extras.keys()
    assert "bucketq[dashboard]" in images[1]


@pytest.mark.parametrize("trouble", [None, "no storage"])
async def test_its_health_check_tells_by_its_exit_code(trouble):
    async with told_health("127.0.0.1", 0, lambda: trouble) as port:
        url = f"http://127.0.0.1:{port}/readyz"
        process = await asyncio.create_subprocess_exec(sys.executable, str(DEPLOY / "healthcheck.py"), url)
        assert await process.wait() == (0 if trouble is None else 1)


def test_nothing_that_is_there_to_be_deployed_holds_a_secret():
    files = deployed()
    assert len(files) > 30
    for path in [*files, ROOT / "docs/deploy.md", *(ROOT / "docs/howto").glob("*.md")]:
        assert not SECRETS.search(path.read_text()), path
    assert "/deploy/secrets/" in (ROOT / ".gitignore").read_text().splitlines()
