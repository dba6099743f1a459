"""Stage: an entry of the roster with its server, ready to be given deeds."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.peers.process import Process
from bench.peers.roster import Entry
from bench.peers.servers import Server
from bench.peers.tape import Tape

_WITHIN_S = 120.0


class Stage:
    """Starts the processes of one contestant; use it with `with`, and none is left."""

    def __init__(self, entry: Entry, pythons: Mapping[str, str], folder: Path) -> None:
        self.entry = entry
        self.folder = folder
        self.server: Server = entry.server(folder / "server")
        self._python = pythons[entry.python]
        self._tapes = 0
        self._started: list[Process] = []

    def __enter__(self) -> "Stage":
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()
        self.server.__exit__()

    def place(self, name: str) -> str:
        """The URL of a queue that is ready to be used."""
        url = self.server.url(name)
        if self.entry.has_tables:
            self.ask("prepare", url)
        return url

    def tape(self) -> Tape:
        """A new tape."""
        self._tapes += 1
        return Tape(self.folder / f"tape-{self._tapes}")

    def ask(self, deed: str, url: str, **told: Any) -> Any:
        """Have something done, and return what the player says of it."""
        process = self._start(deed, {"url": url, **told}, None, 0.0, subprocess.PIPE)
        return json.loads(process.answer(_WITHIN_S))

    def start(self, deed: str, url: str, tape: Tape, nap_s: float = 0.0, **told: Any) -> Process:
        """Have something begun that leaves its traces on a tape."""
        return self._start(deed, {"url": url, **told}, tape, nap_s, None)

    def _start(
        self, deed: str, told: dict[str, Any], tape: Tape | None, nap_s: float, output: int | None
    ) -> Process:
        command = [self._python, "-m", "bench.peers.play", self.entry.module, deed, json.dumps(told)]
        environment = {"PEERS_TAPE": str(tape.path if tape else os.devnull), "PEERS_NAP_S": str(nap_s)}
        if not self.entry.is_ours:
            # Nothing of bucketq's is on their way.
            environment["PYTHONPATH"] = ""
        environment |= self.server.environment
        process = Process(command, self.folder / "players.log", environment, output)
        self._started.append(process)
        return process
