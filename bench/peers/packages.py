"""Packages: what the peers need, in a virtual environment of their own, and Debian's servers."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from bench.peer import install_peer
from bench.side import ROOT

_LOCKS = Path(__file__).parent


class MissingError(Exception):
    """Something cannot be had on this machine."""


def python_with(name: str) -> str:
    """A Python that has a contestant's packages, which are installed where they are missing.

    "peers" is for most of them and "taskiq" for taskiq, whose Redis client is newer than the others allow:
    both are of the version that runs bucketq, "own". "jqueue" is newer.
    """
    if name == "own":
        return sys.executable
    if name == "jqueue":
        return _jqueue_python()
    lock, venv = _LOCKS / f"{name}.lock", ROOT / ".tools" / f"{name}-venv"
    python, stamp = venv / "bin" / "python", venv / lock.name
    if not stamp.exists() or stamp.read_text() != lock.read_text():
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        install = [str(python), "-m", "pip", "--quiet", "--quiet", "--disable-pip-version-check", "install"]
        if subprocess.run([*install, "--require-hashes", "-r", str(lock)]).returncode:
            raise MissingError(f"the packages of {lock.name} cannot be installed: is an index in reach?")
        # Last: an installation that was cut short is not taken for a whole one.
        shutil.copy(lock, stamp)
    return str(python)


def _jqueue_python() -> str:
    python = install_peer()
    if python is None:
        raise MissingError("jqueue needs Python 3.12 or newer, and none was found")
    return python


def need_server(name: str) -> None:
    """Make sure that there is a "redis" or a "postgres", from Debian's packages if need be."""
    if name == "redis" and not shutil.which("redis-server"):
        _install("redis-server")
        if not shutil.which("redis-server"):
            raise MissingError("redis-server is not installed: apt-get install redis-server")
    if name == "postgres":
        try:
            postgres_bin()
        except MissingError:
            _install("postgresql")
            postgres_bin()


def postgres_bin() -> Path:
    """Where the programs of PostgreSQL are; Debian keeps them off the PATH."""
    if found := sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        return found[-1].parent
    if found_there := shutil.which("initdb"):
        return Path(found_there).parent
    raise MissingError("PostgreSQL is not installed: apt-get install postgresql")


def versions(python: str) -> dict[str, str]:
    """The version of each package that a Python has."""
    code = (
        "import json, importlib.metadata as m;"
        "print(json.dumps({d.name.lower(): d.version for d in m.distributions()}))"
    )
    done = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def program_version(program: str) -> str:
    """The version that a program tells."""
    done = subprocess.run([program, "--version"], check=True, capture_output=True, text=True)
    found = re.search(r"\d+(\.\d+)+", done.stdout)
    return found[0] if found else "?"


def _install(package: str) -> None:
    if not shutil.which("apt-get") or os.getuid() != 0:
        return
    # At this runlevel the package does not start its own server.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", package]):
        subprocess.run(["apt-get", "-qq", *command], env=environment, stdout=subprocess.DEVNULL)
