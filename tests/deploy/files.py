"""The files of deploy/, as the tests read them."""

import os
import re
import shlex
import shutil
import subprocess
import sysconfig
from functools import cache

import pytest
import yaml

from tests.deploy.conftest import ROOT

DEPLOY = ROOT / "deploy"
CLOUDS = ("aws", "gcp", "azure")


def tool(name, remedy="make setup"):
    """Where a program is. What needs one that is missing is skipped; but not in CI, where green means all."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    if found is None:
        reason = f"{name} is not installed: {remedy}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def deployed():
    """The files of deploy/ as they are in the repository."""
    made = {"secrets", "__pycache__"}
    return [path for path in DEPLOY.rglob("*") if path.is_file() and made.isdisjoint(path.parts)]


def said(*command, **options):
    """What a program says, which has to be content."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def told_to_cli():
    """What the guide says to the service cli of compose.yaml: the arguments of each command."""
    lines = re.findall(r"run --rm cli (.*)$", (ROOT / "docs/deploy.md").read_text(), re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


@cache
def rendered(name):
    """The objects that `kubectl apply --kustomize deploy/kubernetes/NAME` would make.

    Neither Debian, PyPI nor npm has a kubectl that could, so `make setup` cannot bring one: where it is
    missing this is skipped, in CI as well. What does not need it is tested everywhere.
    """
    kubectl = shutil.which("kubectl") or pytest.skip("kubectl is not installed: 1.27 or newer renders these")
    text = said(kubectl, "kustomize", DEPLOY / "kubernetes" / name)
    return [one for one in yaml.safe_load_all(text) if one is not None]


def base():
    """The objects of the base, which are the same in every cloud but for names and annotations."""
    folder = DEPLOY / "kubernetes/base"
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return [one for name in listed for one in yaml.safe_load_all((folder / name).read_text())]


def pods():
    """The pods of the base, each by the name of its component."""
    found = {one["metadata"]["name"]: one for one in base() if one["kind"] in ("Deployment", "StatefulSet")}
    return {name.removeprefix("bucketq-"): one["spec"]["template"]["spec"] for name, one in found.items()}


def unit(name):
    """The lines of a systemd unit, by their names."""
    text = (DEPLOY / "systemd" / name).read_text().replace("\\\n", " ")
    lines = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
    return {key: value for key, _, value in lines}


def units():
    return sorted(path.name for path in (DEPLOY / "systemd").iterdir())
