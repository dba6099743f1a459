"""Lets tests find each other's helpers as `tests.…`; nobody's own settings come into them."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


@pytest.fixture(autouse=True)
def _nobodys_settings(tmp_path, monkeypatch):
    for name in os.environ:
        if name.startswith("BUCKETQ_") and name != "BUCKETQ_TOOLS":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
