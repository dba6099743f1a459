"""Lets tests find each other's helpers as `tests.…`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
