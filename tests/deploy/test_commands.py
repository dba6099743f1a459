"""Every command and variable of bucketq in deploy/ and its guides is one that bucketq itself understands."""

import json
import re
import shlex

import pytest
import yaml
from typer.main import get_command

from bucketq.cli.app import app
from bucketq.cli.configuration import CLIENT_VARIABLES, settings_of
from bucketq.cli.options import variable_of
from tests.deploy.conftest import ROOT
from tests.deploy.files import CLOUDS, DEPLOY, compose, deployed, pods, told_to_cli, unit, units
from tests.docs.blocks import prose
from tests.docs.commands import understood

GUIDES = [ROOT / "docs/deploy.md", *sorted((ROOT / "docs/howto").glob("*.md"))]


def commands():
    """Where a command stands, its arguments, and the variables that it finds."""
    docker = (DEPLOY / "Dockerfile").read_text()
    yield "Dockerfile", json.loads(re.search(r"^CMD (.*)$", docker, re.MULTILINE)[1]), {}
    for name, service in compose()["services"].items():
        if name != "store" and "command" in service:
            yield f"compose.yaml: {name}", service["command"], service["environment"]
    for name, spec in pods().items():
        [one] = spec["containers"]
        told = {variable["name"]: variable.get("value", "") for variable in one["env"]}
        for cloud in CLOUDS:
            yield f"kubernetes/{cloud}: {name}", one["args"], told | literals(cloud, name)
    for name in (one for one in units() if one.endswith(".service")):
        arguments = shlex.split(unit(name)["ExecStart"].replace("${APP}", "jobs:app"))[1:]
        yield (
            f"systemd/{name}",
            arguments,
            dict([unit(name).get("Environment", "BUCKETQ_URL=").split("=", 1)]),
        )
    for arguments in told_to_cli():
        yield "docs/deploy.md: cli", arguments, compose()["services"]["cli"]["environment"]
    for line in re.findall(r"^CMD (\[.*)$", (ROOT / "docs/deploy.md").read_text(), re.MULTILINE):
        yield "docs/deploy.md: CMD", json.loads(line), {}


def literals(cloud, component):
    """The variables that a pod has of its config map."""
    folder, name = {"broker": (cloud, "bucketq-storage"), "worker": ("base", "bucketq-clients")}[component]
    text = (DEPLOY / "kubernetes" / folder / "kustomization.yaml").read_text()
    [found] = [one for one in yaml.safe_load(text)["configMapGenerator"] if one["name"] == name]
    return dict(literal.split("=", 1) for literal in found["literals"])


@pytest.mark.parametrize(("arguments", "variables"), [pytest.param(*rest, id=at) for at, *rest in commands()])
def test_it_is_understood(arguments, variables, monkeypatch):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    context = understood(arguments)
    for name in variables:
        setting = name.removeprefix("BUCKETQ_").lower()
        if setting in context.params and name != "BUCKETQ_URL":
            assert context.get_parameter_source(setting).name == "ENVIRONMENT"


def test_no_variable_is_named_that_does_not_exist():
    known = {variable_of(one.name) for one in settings_of(get_command(app))}
    known |= {"BUCKETQ_URL", *CLIENT_VARIABLES}
    for path in [*deployed(), *GUIDES]:
        assert set(re.findall(r"\bBUCKETQ_[A-Z_]+", path.read_text())) <= known, path


def flags_of(command):
    """The flags of a command, and of those below it."""
    for option in command.params:
        yield from option.opts + option.secondary_opts
    for below in getattr(command, "commands", {}).values():
        yield from flags_of(below)


def test_no_flag_is_named_in_the_guides_that_does_not_exist():
    known = {"--help", *flags_of(get_command(app))}
    for path in GUIDES:
        told = prose(str(path.relative_to(ROOT)))
        assert set(re.findall(r"`(?:bucketq [^`\n]* )?(--[a-z-]+)", told)) <= known, path
