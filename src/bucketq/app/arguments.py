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

    def __init__(self, function: Callable[..., Any], injectable: Collection[type]) -> None:
        self._name = function.__qualname__
        hints = _hints(function)
        self.injected: dict[str, Any] = {}
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
        self._names = tuple(field[0] for field in fields)
        self._decoder = _decoder(self._name, fields)
        self.result_type = hints.get("return", Any)

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The payload for a call with these arguments. Raises PayloadError if they do not fit."""
        if args:
            kwargs = self._by_name(args, kwargs)
        try:
            payload = msgspec.json.encode(kwargs, enc_hook=_plain)
        except (TypeError, ValueError, NotImplementedError, RecursionError, msgspec.MsgspecError) as error:
            raise PayloadError(f"the arguments of {self._name}() cannot be JSON: {error}") from error
        self.decode(payload)
        return payload

    def decode(self, payload: bytes) -> dict[str, Any]:
        """The arguments that a payload holds, by name. Raises PayloadError if they do not fit."""
        try:
            found = self._decoder.decode(payload or b"{}")
        except (ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise PayloadError(f"{self._misfit}: {error}") from error
        values = ((name, getattr(found, name)) for name in self._names)
        return {name: value for name, value in values if value is not UNSET}

    @property
    def _misfit(self) -> str:
        return f"the arguments do not fit {self._name}({', '.join(self._names)})"

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        given = self._names[: len(args)]
        if len(given) < len(args) or kwargs.keys() & set(given):
            raise PayloadError(f"{self._misfit}: there are too many")
        return dict(zip(given, args, strict=True)) | kwargs


def result_decoder(type_: Any) -> Callable[[Any], Any]:
    """Turns what JSON made of a result into the type that the handler returned."""
    return lambda value: msgspec.convert(value, type_, dec_hook=_model)


def encode_result(result: Any) -> bytes:
    """What a handler returned, as JSON; nothing for None. Raises UnfitResultError."""
    try:
        if _is_model(result):
            result = msgspec.to_builtins(result, enc_hook=_plain, str_keys=True)
        return result_json(result)
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
        return msgspec.json.Decoder(arguments, dec_hook=_model)
    except TypeError as error:
        raise ConfigurationError(f"the parameters of {name}() cannot be checked: {error}") from error


def _is_one_of(type_: Any, injectable: Collection[type]) -> bool:
    return isinstance(type_, type) and type_ in injectable


def _is_model(value: Any) -> bool:
    # pydantic is not needed to know its models.
    return hasattr(type(value), "model_dump")


def _plain(value: Any) -> Any:
    if _is_model(value):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"a {type(value).__name__} is nothing that JSON can hold")


def _model(type_: type, value: Any) -> Any:
    if hasattr(type_, "model_validate"):
        return type_.model_validate(value)
    if isinstance(value, type_):
        return value
    raise NotImplementedError(f"{type_.__name__} cannot be made of JSON")
