"""`bucketq config`: every setting, its value, and where that comes from."""

import os
from collections.abc import Iterator
from copy import copy
from typing import Annotated, Any

import typer

from bucketq.cli.configuration import CLIENT_VARIABLES, CURRENT, settings_of
from bucketq.cli.options import AsJson, check_settings, variable_of
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
        shown = [(row["setting"], _shown(row["value"]), row["from"]) for row in rows]
        tell_table(("setting", "value", "from"), shown)
    return 0


def _general() -> Iterator[Row]:
    url = CURRENT.get().url()
    yield _row("url", url.value if url else "", url.origin if url else "default")
    for name in CLIENT_VARIABLES:
        if os.environ.get(name):
            shown = "(set)" if name.startswith("BUCKETQ_TOKEN") else os.environ[name]
            yield _row(name, shown, name)


def _of_commands(root: Any, asked: list[str]) -> Iterator[Row]:
    path, contexts = _asked_for(root, asked) if asked else ((), {})
    seen = set()
    for one in settings_of(root.command):
        if one.path[: len(path)] != path:
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
    for context in contexts.values():
        # Each by itself makes sense; together they may contradict each other.
        check_settings(context.command, context.params)


def _asked_for(root: Any, asked: list[str]) -> tuple[tuple[str, ...], dict[tuple[str, ...], Any]]:
    """The command that somebody asks about, by its path, and its context with the options that they gave."""
    command, context = root.command, root
    path: tuple[str, ...] = ()
    while below := getattr(command, "commands", None):
        name, *asked = asked or [""]
        if name not in below:
            if path and not name:
                return path, {}
            raise ConfigurationError(f"there is no command {name!r}; see `{context.command_path} --help`")
        path, command = (*path, name), below[name]
        if hasattr(command, "commands"):
            context = command.make_context(name, [], parent=context, resilient_parsing=True)
    # What it is to work on is not asked for here.
    command = copy(command)
    command.params = [copy(one) for one in command.params if one.param_type_name == "option"]
    for one in command.params:
        one.required = False
    return path, {path: command.make_context(name, asked, parent=context, allow_extra_args=True)}


def _context(root: Any, path: tuple[str, ...]) -> Any:
    command, context = root.command, root
    for name in path:
        command = command.commands[name]
        context = command.make_context(name, [], parent=context, resilient_parsing=True)
    return context


def _shown(value: Any) -> str:
    """A value as bucketq.toml has it, but for the quotes of a text; nothing if there is none.

    >>> _shown(False), _shown(["a", "b"]), _shown(20.0), _shown(None)
    ('false', '["a","b"]', '20.0', '')
    """
    import msgspec

    if value is None or isinstance(value, str):
        return value or ""
    # JSON writes all the others as TOML does.
    return msgspec.json.encode(value).decode()


def _row(setting: str, value: Any, origin: str) -> Row:
    return {"setting": setting, "value": value, "from": origin}
