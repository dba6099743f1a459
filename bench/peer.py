"""The peer: jqueue, in a virtual environment of its own, since it needs a newer Python."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.side import ROOT

JQUEUE = "jqueue==1.0.0"
PYTHON_MIN = (3, 12)
_FOLDER = ROOT / ".tools" / "jqueue-venv"
_PYTHON = _FOLDER / "bin" / "python"
# Touched last: an installation that was cut short is not taken for a whole one.
_STAMP = _FOLDER / f".{JQUEUE}"


def installed_peer() -> str | None:
    """The Python that has jqueue, if it was installed before."""
    return str(_PYTHON) if _STAMP.exists() else None


def install_peer() -> str | None:
    """The Python that has jqueue, installing it first; None where no Python is new enough."""
    if found := installed_peer():
        return found
    python = next(filter(_is_new_enough, _pythons()), None)
    if python is None:
        return None
    shutil.rmtree(_FOLDER, ignore_errors=True)
    subprocess.run([python, "-m", "venv", str(_FOLDER)], check=True)
    subprocess.run([str(_PYTHON), "-m", "pip", "install", "--quiet", "--quiet", JQUEUE], check=True)
    _STAMP.touch()
    return str(_PYTHON)


def version_of(python: str) -> str:
    """The version of an interpreter, such as "3.13.0"."""
    code = "import platform; print(platform.python_version())"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def _pythons() -> Iterator[str]:
    yield sys.executable
    for name in ("python3.13", "python3.12"):
        if found := shutil.which(name):
            yield found
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True).stdout.strip()
        yield from (str(python) for python in sorted(Path(root).glob("versions/3.1[2-9]*/bin/python")))


def _is_new_enough(python: str) -> bool:
    # Asked, not guessed from the name: pyenv's shims exist for versions that are switched off.
    code = f"import sys; sys.exit(sys.version_info < {PYTHON_MIN})"
    return subprocess.run([python, "-c", code], stderr=subprocess.DEVNULL).returncode == 0
