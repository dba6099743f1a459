"""Targets: what is wanted of each entrypoint, from a small TOML file.

[default]
wait_s = 60          # from enqueueing to the first claim
run_s = 300          # the last attempt
success = 0.99       # the share of jobs that end well, and within these times

[entrypoint.invoice]
wait_s = 5
"""

import tomllib
from pathlib import Path

import msgspec

from bucketq.errors import ConfigurationError


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is wanted of an entrypoint."""

    wait_s: float = 60.0
    run_s: float = 300.0
    success: float = 0.99


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    default: Target = Target()
    entrypoint: dict[str, dict[str, float]] = {}


class Targets(msgspec.Struct, frozen=True):
    """What is wanted, by default and of some entrypoints."""

    default: Target = Target()
    of: dict[str, Target] = {}


def read_targets(path: Path) -> Targets:
    """The targets in a file. Raises ConfigurationError."""
    try:
        found = msgspec.convert(tomllib.loads(path.read_text()), _File, strict=False)
        default = msgspec.structs.asdict(found.default)
        of = {name: msgspec.convert(default | own, Target) for name, own in found.entrypoint.items()}
        return Targets(found.default, of)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"the targets in {path} cannot be read: {error}") from error
