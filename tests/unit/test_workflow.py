"""What runs the tests elsewhere runs the make targets that run them here: the workflow and the hooks."""

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github/workflows/test.yml"
JOBS = yaml.safe_load(WORKFLOW.read_text())["jobs"]
STEPS = [step for job in JOBS.values() for step in job["steps"]]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
# GitHub's own actions may move within a major version.
ZIZMOR_RULES = {"rules": {"unpinned-uses": {"config": {"policies": {"actions/*": "ref-pin"}}}}}


def linted(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_is_one():
    linted(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", WORKFLOW)


def test_the_workflow_is_safe(tmp_path):
    zizmor = shutil.which("zizmor", path=sysconfig.get_path("scripts"))
    assert zizmor, "zizmor is not installed: make setup"
    rules = tmp_path / "zizmor.yml"
    rules.write_text(yaml.safe_dump(ZIZMOR_RULES))
    linted(zizmor, "--offline", "--config", rules, WORKFLOW)


def test_the_workflow_runs_make_and_nothing_else():
    commands = [step["run"] for step in STEPS if "run" in step]
    assert commands
    for command in commands:
        target = re.fullmatch(r"make ([a-z-]+) PYTHON=python", command)
        assert target, command
        assert target[1] in TARGETS


def test_actions_are_githubs_own_in_a_major_version():
    for step in STEPS:
        assert "run" in step or re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]), step


def test_every_python_that_is_promised_is_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    told = re.findall(r"Programming Language :: Python :: ([\d.]+)", "\n".join(project["classifiers"]))
    assert JOBS["linux"]["strategy"]["matrix"]["python"] == told
    assert project["requires-python"] == f">={told[0]}"


def test_a_push_is_checked():
    [repo] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["entry"] for hook in repo["hooks"] if hook.get("stages") == ["pre-push"]] == ["make check"]
