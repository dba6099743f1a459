"""deploy/ by the linters of those who read such files: nothing that they complain about."""

import re
import sys

import kubernetes_validate
import pytest
import yaml

from tests.deploy.files import CLOUDS, DEPLOY, base, rendered, said, tool, unit, units

YAML_RULES = """
extends: default
rules:
  line-length: {max: 120}
  document-start: disable
  braces: {max-spaces-inside: 0}
"""
# Of Kubernetes that are still looked after.
VERSIONS = ("1.35", "1.37")
POLICIES = sorted(path.name for path in (DEPLOY / "aws").glob("*-policy.json"))
# Of systemd-analyze: 10 is all that there is to fear.
EXPOSURE_MAX = 2.0


def test_the_dockerfile():
    assert said(tool("hadolint"), DEPLOY / "Dockerfile") == ""


def test_all_yaml():
    said(sys.executable, "-m", "yamllint", "--strict", "--config-data", YAML_RULES, DEPLOY)


def test_the_compose_file():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    said(*command, DEPLOY / "compose.yaml")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_objects_of_kubernetes(version):
    for one in [*base(), *yaml.safe_load_all((DEPLOY / "kubernetes/hpa/autoscaler.yaml").read_text())]:
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_objects_of_each_cloud(cloud):
    objects = rendered(cloud)
    for one in objects:
        kubernetes_validate.validate(one, VERSIONS[-1], strict=True)
    assert {one["kind"] for one in base()} < {one["kind"] for one in objects}


@pytest.mark.parametrize(("name", "scaler"), [("keda", "ScaledObject"), ("hpa", "HorizontalPodAutoscaler")])
def test_the_objects_that_scale(name, scaler):
    assert {one["kind"] for one in rendered(name)} == {"ServiceMonitor", scaler}


@pytest.mark.parametrize("name", POLICIES)
def test_the_policies_of_aws(name):
    parliament = "import sys, parliament; print(parliament.analyze_policy_string(sys.argv[1]).findings)"
    text = (DEPLOY / "aws" / name).read_text()
    # In a process of its own, since it warns when it is imported.
    assert said(sys.executable, "-W", "ignore", "-c", parliament, text).strip() == "[]"


def test_the_script():
    said("sh", "-n", DEPLOY / "make-secrets")


@pytest.mark.parametrize("name", units())
def test_the_units_of_systemd(name, tmp_path):
    analyze = tool("systemd-analyze", "install systemd 252 or newer")
    for path in (DEPLOY / "systemd").iterdir():
        # It wants the program to be there, and the service of a timer.
        (tmp_path / path.name).write_text(re.sub(r"/opt/\S+/bin/bucketq", sys.executable, path.read_text()))
    assert said(analyze, "verify", "--man=no", tmp_path / name) == ""
    if name.endswith(".service"):
        told = said(analyze, "security", "--offline=yes", "--no-pager", tmp_path / name)
        assert float(re.search(r"exposure level for \S+: ([\d.]+)", told)[1]) <= EXPOSURE_MAX


@pytest.mark.parametrize("name", [name for name in units() if name.endswith(".service")])
def test_each_instance_has_a_folder_of_its_own(name):
    """Each is a user of its own: systemd would give a shared one to whoever starts last."""
    said_of = unit(name)
    assert said_of["DynamicUser"] == "yes"
    assert "%i" in said_of["StateDirectory"]
    assert said_of["WorkingDirectory"] == f"%S/{said_of['StateDirectory']}"
