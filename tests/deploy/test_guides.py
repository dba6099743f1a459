"""The guides: their links and files are there, their shell is shell, and their rules delete nothing live."""

import json
import re
import subprocess

import pytest

from tests.deploy.conftest import ROOT
from tests.deploy.files import DEPLOY
from tests.docs.blocks import blocks

GUIDES = [ROOT / "docs/deploy.md", *sorted((ROOT / "docs/howto").glob("*.md"))]


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_links_lead_somewhere(guide):
    for target, anchor in re.findall(r"\]\((?!https:)([^)#]*)(?:#([^)]*))?\)", guide.read_text()):
        path = (guide.parent / target).resolve() if target else guide
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", one).lower().replace(" ", "-") for one in headings}


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.name)
def test_what_is_to_be_typed_is_shell_and_names_files_that_exist(guide):
    shell = [block.text for block in blocks(str(guide.relative_to(ROOT)), "bash")]
    shell += re.findall(r"^\$ ((?:.*\\\n)*.*)$", guide.read_text(), re.MULTILINE)
    for text in shell:
        subprocess.run(["sh", "-n"], input=text, text=True, check=True)
        for name in re.findall(r"\bdeploy/[\w./*-]+", text):
            assert list(ROOT.glob(name)) or name.startswith("deploy/secrets"), name


def test_lifecycles_remove_old_versions_and_nothing_that_is_live():
    s3, gcs, azure = (
        json.loads((DEPLOY / cloud / "lifecycle.json").read_text()) for cloud in ("aws", "gcp", "azure")
    )
    for rule in s3["Rules"]:
        assert rule["NoncurrentVersionExpiration"]["NoncurrentDays"] >= 1
        assert rule["Expiration"] == {"ExpiredObjectDeleteMarker": True}
    for rule in gcs["rule"]:
        assert rule["condition"].keys() == {"daysSinceNoncurrentTime", "matchesPrefix"}
    for rule in azure["rules"]:
        assert rule["definition"]["actions"].keys() == {"version"}
