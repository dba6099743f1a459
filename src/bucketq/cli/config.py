"""`bucketq config`: every setting, its value, and where that comes from."""

import os
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from bucketq.cli.configuration import CLIENT_VARIABLES, CURRENT, settings_of
from bucketq.cli.options import AsJson, variable_of
from bucketq.cli.told import tell_json, tell_table
from bucketq.errors import ConfigurationError

Row = dict[str, Any]


def config(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND", help="Only what this command would run with."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Show every setting, its value, and where that comes from.

    \b
      bucketq config
      bucketq config serve --grpc-port 7421

    A flag wins over its variable, that over bucketq.toml, and that over the default. For each setting the
    flag is --its-name, the variable BUCKETQ_ITS_NAME, and its place in bucketq.toml is shown.
    """
    rows = [*_general(), *_of_commands(context.parent, [*(command or []), *context.args])]
    if as_json:
        tell_json(rows)
    else:
        tell_table(
            ("setting", "value", "from"), [(row["setting"], row["value"], row["from"]) for row in rows]
        )
    return 0


def _general() -> Iterator[Row]:
    url = CURRENT.get().url()
    yield _row("url", url.value if url else "", url.origin if url else "default")
    for name in CLIENT_VARIABLES:
        if os.environ.get(name):
            shown = "(set)" if name.startswith("BUCKETQ_TOKEN") else os.environ[name]
            yield _row(name, shown, name)


def _of_commands(root: Any, asked: list[str]) -> Iterator[Row]:
    contexts: dict[tuple[str, ...], Any] = {}
    if asked:
        only = root.command.commands.get(asked[0])
        if only is None:
            raise ConfigurationError(f"there is no command {asked[0]!r}; see `bucketq --help`")
        contexts[asked[0],] = only.make_context(asked[0], asked[1:], parent=root, resilient_parsing=False)
    seen = set()
    for one in settings_of(root.command):
        if asked and one.path[0] != asked[0]:
            continue
        if one.path not in contexts:
            contexts[one.path] = _context(root, one.path)
        if (one.section, one.name) in seen:
            continue
        seen.add((one.section, one.name))
        context = contexts[one.path]
        origin = {
            "COMMANDLINE": "flag",
            "ENVIRONMENT": variable_of(one.name),
            "DEFAULT_MAP": str(CURRENT.get().path),
        }.get(context.get_parameter_source(one.name).name, "default")
        yield _row(f"{one.section}.{one.name}", context.params[one.name], origin)


def _context(root: Any, path: tuple[str, ...]) -> Any:
    command, context = root.command, root
    for name in path:
        command = command.commands[name]
        context = command.make_context(name, [], parent=context, resilient_parsing=True)
    return context


def _row(setting: str, value: Any, origin: str) -> Row:
    return {"setting": setting, "value": value, "from": origin}
