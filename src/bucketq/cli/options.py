"""Options: what commands have in common, and those that settings become.

A command takes a settings dataclass as a parameter, and has an option for each of its fields. The
field, the flag, the environment variable and the name in bucketq.toml are the same words:

    stale_after_s    --stale-after-s    BUCKETQ_STALE_AFTER_S    stale_after_s = 60
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

T = TypeVar("T")

_URL = re.compile(r"\s*[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_PATH = re.compile(r"\s*(file:|\.{0,2}/|~/|\S+\.json\s*$)", re.IGNORECASE)


def not_empty(context: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
    """Reject an empty value, such as an unset shell variable: without a value a command acts on more."""
    assert parameter.name is not None
    source = context.get_parameter_source(parameter.name)
    if value == "" and source is not None and source.name == "COMMANDLINE":
        raise typer.BadParameter("must not be empty")
    return value


def _no_url(
    context: typer.Context, parameter: typer.CallbackParam, value: str | list[str] | None
) -> str | list[str] | None:
    """Reject a URL: some commands take the queue as their argument, and others by --url only."""
    from bucketq.cli.configuration import refuse_secret

    if isinstance(value, str):
        not_empty(context, parameter, value)
    for one in [value] if isinstance(value, str) else value or ():
        if not isinstance(value, str) and not one:
            raise typer.BadParameter("must not be empty")
        if _URL.match(one):
            refuse_secret(one, "the URL")
            url = one.strip()
            raise typer.BadParameter(f"must not be a URL, got {one}. To choose the queue, pass --url {url}")
    return value


def _no_path(context: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
    """Reject a URL, and a path, which no entrypoint is called like."""
    _no_url(context, parameter, value)
    if _PATH.match(value):
        url = Path(value.strip().removeprefix("file:")).expanduser().absolute().as_uri()
        raise typer.BadParameter(
            f"must not be a URL, or a path, got {value}. To choose the queue, pass --url {url}"
        )
    return value


def argument(metavar: str, text: str) -> Any:
    """An argument that is not the queue; a URL is rejected."""
    return typer.Argument(metavar=metavar, help=text, callback=_no_url)


def entrypoint_argument(text: str) -> Any:
    """An entrypoint as an argument; a URL and a path are rejected."""
    return typer.Argument(metavar="ENTRYPOINT", help=text, callback=_no_path)


def text_option(metavar: str, text: str) -> Any:
    """An option that must not be empty if it is given."""
    return typer.Option(metavar=metavar, help=text, callback=not_empty)


# The queue, for a command that has no other argument; `Url` is for all.
At = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="The queue, by its storage or a broker.",
        show_default=False,
        callback=not_empty,
    ),
]
Url = Annotated[
    str,
    typer.Option(
        "--url",
        "-u",
        metavar="URL",
        help="The queue. Default: BUCKETQ_URL, or that of bucketq.toml.",
        callback=not_empty,
    ),
]
Entrypoint = Annotated[
    str,
    typer.Option(
        "--entrypoint", "-e", metavar="TEXT", help="Only those of this entrypoint.", callback=not_empty
    ),
]
Limit = Annotated[int, typer.Option(metavar="N", min=0, help="So many at most; 0 is all of them.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Go on, and show what changes.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def one_of(*words: str) -> Callable[[str], list[str]]:
    """What a shell completes a value to."""

    def completed(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return completed


def flag_of(name: str) -> str:
    """The flag of a setting.

    >>> flag_of("grpc_port")
    '--grpc-port'
    """
    return "--" + name.replace("_", "-")


def variable_of(name: str) -> str:
    """The environment variable of a setting.

    >>> variable_of("grpc_port")
    'BUCKETQ_GRPC_PORT'
    """
    return f"BUCKETQ_{name.upper()}"


def with_settings(command: Callable[..., T]) -> Callable[..., T]:
    """A command whose parameters that are dataclasses are taken apart, into an option for each field."""
    signature = inspect.signature(command, eval_str=True)
    taken: dict[str, Any] = {
        one.name: one.annotation for one in signature.parameters.values() if is_dataclass(one.annotation)
    }
    asked = [one for one in signature.parameters.values() if one.name not in taken]
    options = [option for kind in taken.values() for option in _options_of(kind)]

    @wraps(command)
    def run(**given: Any) -> T:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in fields(kind)})
            for name, kind in taken.items()
        }
        return command(**given, **made)

    del run.__wrapped__
    run.settings = tuple(taken.values())  # type: ignore[attr-defined]
    run.__signature__ = inspect.Signature([*asked, *options])  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in (*asked, *options)}
    return run


def check_settings(command: Any, values: Mapping[str, Any]) -> None:
    """Raise ConfigurationError if a command could not run with these values of its settings."""
    for kind in getattr(command.callback, "settings", ()):
        kind(**{field.name: values[field.name] for field in fields(kind)})


_METAVARS = {int: "N", float: "N", float | None: "N", str: "TEXT", list[str] | None: "TEXT"}


def _options_of(kind: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    panel = (inspect.getdoc(kind) or "").partition(".")[0]
    for field in fields(kind):
        value, text = hints[field.name].__origin__, hints[field.name].__metadata__[0]
        flag = flag_of(field.name)
        option = typer.Option(
            f"{flag}/--no-{flag[2:]}" if value is bool and field.default else flag,
            envvar=variable_of(field.name),
            metavar=_METAVARS.get(value),
            show_envvar=False,
            # A field's text is a part of a sentence.
            help=f"{text[0].upper()}{text[1:]}.",
            rich_help_panel=panel,
        )
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=Annotated[value, option],
        )
