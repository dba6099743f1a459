"""Resources: what handlers share, such as a database pool; opened once a worker, injected by type.

    @app.resource
    async def database() -> AsyncIterator[Database]:
        async with Database.connect() as database:
            yield database

    @app.job
    async def charge(order: int, database: Database = provided()): ...

A provider is a function, or a generator that yields once and cleans up after; async or not. It may
ask for other resources by the types of its own parameters.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Final, Self, get_args, get_origin, get_type_hints

from bucketq.errors import ConfigurationError

# Any, so that type checkers take it as a default for every type.
PROVIDED: Final[Any] = object()


def provided() -> Any:
    """The default of a parameter that the worker brings: callers, and type checkers, leave it out."""
    return PROVIDED


class Providers:
    """Which function provides which type."""

    def __init__(self) -> None:
        # A type, or a generic one such as Pool[Connection].
        self._by_type: dict[Any, Callable[..., Any]] = {}

    def add(self, provider: Callable[..., Any]) -> None:
        """Let a function provide the type that it returns or yields. Raises ConfigurationError."""
        provided_type = _provided_type(provider)
        if provided_type in self._by_type:
            raise ConfigurationError(f"{provided_type.__name__} is provided twice")
        self._by_type[provided_type] = provider

    @property
    def types(self) -> set[Any]:
        """The types that can be injected."""
        return set(self._by_type)

    def of(self, type_: Any) -> Callable[..., Any]:
        """The function that provides a type. Raises ConfigurationError."""
        try:
            return self._by_type[type_]
        except (KeyError, TypeError):
            name = getattr(type_, "__name__", type_)
            raise ConfigurationError(
                f"nothing provides {name}; write a function that returns it, with that annotation, and"
                " decorate it with @app.resource"
            ) from None

    @contextmanager
    def replaced_by(self, resources: Mapping[Any, Any]) -> Iterator[None]:
        """Let these objects, by their types, be provided inside the block, as tests do."""
        before = self._by_type
        self._by_type = before | {type_: _always(one) for type_, one in resources.items()}
        try:
            yield
        finally:
            self._by_type = before


class Resources:
    """The open resources of one worker; `async with` closes them, the last one first."""

    def __init__(self, providers: Providers) -> None:
        self._providers = providers
        self._open: dict[Any, Any] = {}
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._open.clear()
        await self._stack.aclose()

    async def open(self, types: Iterable[Any]) -> None:
        """Open those that are not open yet, and what they need themselves."""
        for type_ in types:
            await self._get(type_, ())

    def get(self, type_: Any) -> Any:
        """An open resource."""
        return self._open[type_]

    async def _get(self, type_: Any, asking: tuple[Any, ...]) -> Any:
        if type_ in asking:
            circle = " -> ".join(one.__name__ for one in (*asking, type_))
            raise ConfigurationError(f"resources need each other in a circle: {circle}")
        if type_ not in self._open:
            provider = self._providers.of(type_)
            needed = {name: hint for name, hint in _hints(provider).items() if name != "return"}
            given = {name: await self._get(hint, (*asking, type_)) for name, hint in needed.items()}
            self._open[type_] = await self._enter(provider, given)
        return self._open[type_]

    async def _enter(self, provider: Callable[..., Any], given: dict[str, Any]) -> Any:
        if inspect.isasyncgenfunction(provider):
            return await self._stack.enter_async_context(asynccontextmanager(provider)(**given))
        if inspect.isgeneratorfunction(provider):
            return self._stack.enter_context(contextmanager(provider)(**given))
        made = provider(**given)
        return await made if inspect.isawaitable(made) else made


def _always(resource: Any) -> Callable[[], Any]:
    return lambda: resource


def _hints(provider: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(provider)


def _provided_type(provider: Callable[..., Any]) -> Any:
    hint = _hints(provider).get("return")
    if inspect.isasyncgenfunction(provider) or inspect.isgeneratorfunction(provider):
        hint = next(iter(get_args(hint)), None)
    type_ = get_origin(hint) or hint
    if not isinstance(type_, type) or type_ is type(None):
        raise ConfigurationError(
            f"{provider.__qualname__}() is a resource; let its annotation tell the type that it returns or"
            " yields, such as -> AsyncIterator[Database]"
        )
    return hint
