"""Side: one of the two libraries that are compared, at work in a process of its own."""

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Self

from bench.workloads import Workload

ROOT = Path(__file__).resolve().parent.parent


class Side:
    """A player process; use it with `with`."""

    def __init__(self, library: str, python: str) -> None:
        self.library = library
        self._process = subprocess.Popen(
            [python, "-m", "bench.player", library],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def play(self, workload: Workload, storage: str, path: Path) -> float:
        """Have the workload played; return the seconds.

        On a "file", in "memory", or in memory through the bare "port", in one piece.
        """
        request = {"workload": asdict(workload), "storage": storage, "path": str(path)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.library} failed at {workload.name!r}; its error is printed above")
        seconds: float = json.loads(answer)["seconds"]
        return seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.communicate()
