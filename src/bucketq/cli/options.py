"""Options: each can also be set by an environment variable, `--grpc-port` by BUCKETQ_GRPC_PORT."""

import argparse
import os
from collections.abc import Iterable

# Its name, its default, which also tells its type, and what it means.
Option = tuple[str, object, str]


def add_options(command: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """Add options to a command."""
    for name, default, text in options:
        # A default that is a string goes through `type` as well, so a bad variable is told like an option.
        value = os.environ.get(variable_of(name), default)
        command.add_argument(name, type=type(default), default=value, help=text)


def add_flag(command: argparse.ArgumentParser, name: str, text: str) -> None:
    """Add an option that is there or not."""
    is_set = os.environ.get(variable_of(name), "").lower() in ("1", "true", "yes")
    command.add_argument(name, action="store_true", default=is_set, help=text)


def add_list(command: argparse.ArgumentParser, name: str, text: str) -> None:
    """Add an option that may be given again; its variable has all values, with spaces between them."""
    values = os.environ.get(variable_of(name), "").split()
    command.add_argument(name, action="append", default=values, help=text)


def variable_of(name: str) -> str:
    """The environment variable of an option.

    >>> variable_of("--grpc-port")
    'BUCKETQ_GRPC_PORT'
    """
    return "BUCKETQ_" + name.removeprefix("--").replace("-", "_").upper()
