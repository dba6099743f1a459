"""Arguments: the parameters of a handler, as a payload and back.

A payload is a JSON object with the arguments by name, `{"to": "alice@example.com"}`, so that a person
can read it and any other program can enqueue it. msgspec checks it against the annotations twice: when
the job is enqueued and when it runs. What is left out keeps the function's own default.
"""

import inspect
from collections.abc import Callable, Collection
from typing import Any, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from bucketq.app.models import to_model, to_plain
from bucketq.app.resources import PROVIDED
from bucketq.errors import ConfigurationError, PayloadError
from bucketq.transaction import result_json

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class UnfitResultError(PayloadError):
    """A handler returned what cannot be stored: running it again would not help."""


class Arguments:
    """The parameters of one function: those that a payload brings, and those that are injected.

    `injectable` are types that a worker brings by itself; a parameter of such a type, or with the
    default `provided()`, is not in the payload. Raises ConfigurationError if no payload could fit.
    """

    def __init__(self, function: Callable[..., Any], injectable: Collection[Any]) -> None:
        self._name = function.__qualname__
        hints = _hints(function)
        self.injected: dict[str, Any] = {}
        self._by_place: list[str] = []
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind not in _BY_NAME:
                raise ConfigurationError(
                    f"{self._name}() takes {parameter}; a job's arguments are given by name, one by one"
                )
            type_ = hints.get(name, Any)
            if parameter.default is PROVIDED or _is_one_of(type_, injectable):
                self.injected[name] = type_
            elif parameter.default is inspect.Parameter.empty:
                fields.append((name, type_))
            else:
                fields.append((name, type_ | UnsetType, UNSET))
            if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and name not in self.injected:
                self._by_place.append(name)
        self._names = tuple(field[0] for field in fields)
        self._decoder = _decoder(self._name, fields)
        self.result_type = hints.get("return", Any)

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The payload for a call with these arguments. Raises PayloadError if they do not fit."""
        if args:
            kwargs = self._by_name(args, kwargs)
        try:
            payload = msgspec.json.encode(kwargs, enc_hook=to_plain)
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise PayloadError(f"the arguments of {self._name}() cannot be JSON: {error}") from error
        self.decode(payload)
        return payload

    def decode(self, payload: bytes) -> dict[str, Any]:
        """The arguments that a payload holds, by name. Raises PayloadError if they do not fit."""
        try:
            found = self._decoder.decode(payload or b"{}")
        except (ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise PayloadError(f"{self._misfit}: {error}") from error
        return {name: value for name in self._names if (value := getattr(found, name)) is not UNSET}

    @property
    def _misfit(self) -> str:
        return f"the arguments do not fit {self._name}({', '.join(self._names)})"

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if len(args) > len(self._by_place):
            raise PayloadError(f"{self._misfit}: {len(args)} are too many without their names")
        given = dict(zip(self._by_place, args, strict=False))
        if twice := given.keys() & kwargs.keys():
            raise PayloadError(f"{self._misfit}: `{'`, `'.join(twice)}` is given twice")
        return given | kwargs


def result_decoder(type_: Any) -> Callable[[Any], Any]:
    """Turns what JSON made of a result into the type that the handler returned."""
    return lambda value: msgspec.convert(value, type_, str_keys=True, dec_hook=to_model)


def encode_result(result: Any) -> bytes:
    """What a handler returned, as JSON; nothing for None. Raises UnfitResultError."""
    try:
        return result_json(result, to_plain)
    except PayloadError as error:
        raise UnfitResultError(f"it ran, but {error}") from error


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"the annotations of {function.__qualname__}() cannot be read: {error}. Import what they name"
            " where the function is defined, at the top of its module."
        ) from error


def _decoder(name: str, fields: list[Any]) -> "msgspec.json.Decoder[Any]":
    try:
        arguments = msgspec.defstruct(
            name.replace(".<locals>.", "_").replace(".", "_"),
            fields,
            forbid_unknown_fields=True,
            kw_only=True,
        )
        return msgspec.json.Decoder(arguments, dec_hook=to_model)
    except TypeError as error:
        raise ConfigurationError(f"the parameters of {name}() cannot be checked: {error}") from error


def _is_one_of(type_: Any, injectable: Collection[Any]) -> bool:
    try:
        return type_ in injectable
    except TypeError:
        return False  # what an Annotated type brings along need not be hashable
