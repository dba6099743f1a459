"""Resources: opened once, in the order in which they need each other, and closed the other way round."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from bucketq import App, ConfigurationError, Running, provided
from bucketq.app import Completed, Outcome
from bucketq.app.attempt import Attempts


class Config:
    name = "test"


class Pool:
    def __init__(self, config: Config) -> None:
        self.config = config


class Session:
    def __init__(self, pool: Pool) -> None:
        self.pool = pool


async def attempt(app: App, attempts: Attempts, entrypoint: str) -> Outcome:
    [job] = await (await app.opened()).dequeue(entrypoint)
    return await attempts.attempt(job)


async def test_each_kind_of_provider_and_what_needs_what() -> None:
    app, seen = App("memory://"), []

    @app.resource
    def config() -> Config:
        seen.append("config")
        return Config()

    @app.resource
    async def pool(config: Config) -> AsyncIterator[Pool]:
        seen.append("open pool")
        yield Pool(config)
        seen.append("close pool")

    @app.resource
    def session(pool: Pool) -> Iterator[Session]:
        seen.append("open session")
        yield Session(pool)
        seen.append("close session")

    @app.job
    async def first(session: Session = provided(), config: Config = provided()) -> bool:
        return session.pool.config is config

    @app.job
    def second(session: Session, running: Running) -> str:
        return running.job.entrypoint

    async with app:
        async with Attempts(app) as attempts:
            assert seen == ["config", "open pool", "open session"]
            await first.enqueue()
            await second.using().enqueue()
            assert await attempt(app, attempts, "first") == Completed(b"true")
            assert await attempt(app, attempts, "second") == Completed(b'"second"')
        assert seen[3:] == ["close session", "close pool"]


async def test_only_what_is_needed_is_opened() -> None:
    app = App("memory://")

    @app.resource
    def pool() -> Pool:
        raise AssertionError("nobody needs it")

    @app.job
    async def plain() -> None: ...

    @app.job
    async def greedy(pool: Pool = provided()) -> None: ...

    async with Attempts(app, ["plain"]):
        pass
    with pytest.raises(AssertionError, match="nobody needs it"):
        await Attempts(app).__aenter__()


async def test_what_was_opened_is_closed_when_another_one_cannot_be() -> None:
    app, seen = App("memory://"), []

    @app.resource
    async def config() -> AsyncIterator[Config]:
        yield Config()
        seen.append("closed")

    @app.resource
    async def pool(config: Config) -> Pool:
        raise ConnectionError("no database")

    @app.job
    async def charge(pool: Pool = provided()) -> None: ...

    with pytest.raises(ConnectionError, match="no database"):
        await Attempts(app).__aenter__()
    assert seen == ["closed"]


async def test_a_circle_is_told() -> None:
    app = App("memory://")

    @app.resource
    def pool(session: Session) -> Pool: ...

    @app.resource
    def session(pool: Pool) -> Session: ...

    @app.job
    async def charge(pool: Pool = provided()) -> None: ...

    with pytest.raises(ConfigurationError, match="in a circle: Pool -> Session -> Pool"):
        await Attempts(app).__aenter__()


async def test_what_nobody_provides_is_told() -> None:
    app = App("memory://")

    @app.job
    async def charge(pool: Pool = provided()) -> None: ...

    with pytest.raises(ConfigurationError, match=r"nothing provides Pool.*@app\.resource"):
        await Attempts(app).__aenter__()


def test_providers_that_make_no_sense() -> None:
    app = App("memory://")

    def nothing(): ...

    def first() -> Pool: ...

    def second() -> Iterator[Pool]:
        yield Pool(Config())

    def none() -> None: ...

    app.resource(first)
    for provider, reason in (
        (nothing, r"nothing\(\) is a resource"),
        (none, "is a resource"),
        (second, "Pool is provided twice"),
    ):
        with pytest.raises(ConfigurationError, match=reason):
            app.resource(provider)


async def test_a_generic_type_may_be_provided() -> None:
    app = App("memory://")

    @app.resource
    def names() -> dict[str, int]:
        return {"a": 1}

    @app.job
    async def look(names: dict[str, int] = provided()) -> Any:
        return names

    async with app, Attempts(app) as attempts:
        await look.enqueue()
        assert await attempt(app, attempts, "look") == Completed(b'{"a":1}')
