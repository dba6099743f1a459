"""No test of the command line uses the settings or the folder of the person who runs it."""

import os

import pytest


@pytest.fixture(autouse=True)
def _nobodys_settings(tmp_path, monkeypatch):
    for name in os.environ:
        if name.startswith("BUCKETQ_") and name != "BUCKETQ_TOOLS":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
