"""pytest's plugin for apps: a fixture, and nothing else.

    async def test_register(bucketq_testing):
        jobs = bucketq_testing(app)
        await register("alice@example.com")
        jobs.assert_enqueued(send_email, to="alice@example.com")

A package of its own: pytest loads it in every run, also in those that have nothing to do with bucketq or
measure the coverage of its import, so that comes only with the fixture.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from bucketq.app import App
    from bucketq.testing import Jobs


@pytest.fixture
def bucketq_testing() -> "Iterator[Callable[..., Jobs]]":
    """`bucketq.testing.testing`, begun at once and ended with the test: `jobs = bucketq_testing(app)`."""
    from bucketq.testing import testing

    with ExitStack() as stack:

        def begin(app: "App", **options: Any) -> "Jobs":
            return stack.enter_context(testing(app, **options))

        yield begin
