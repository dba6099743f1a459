"""QueueSuite: what every part of the contract needs: a queue, and to see what is refused."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

from bucketq.job import Job
from bucketq.new_job import JobOptions
from bucketq.queue import Queue


class QueueSuite:
    """Tests of a queue. Every call of `open` gives a new, empty one."""

    # Without an archive nobody can tell how a job ended that is in the queue no more.
    keeps_archive = True

    def open(self) -> AbstractAsyncContextManager[Queue]:
        """A queue to be entered with `async with`."""
        raise AssertionError("a QueueContract needs an `open`")

    async def _dead_job(self, q: Queue, entrypoint: str, payload: Any, key: str | None = None) -> Job:
        options: JobOptions = {"max_attempts": 1}
        if key is not None:
            options["key"] = key
        await q.enqueue(entrypoint, payload, **options)
        [job] = await q.dequeue(entrypoint)
        return await q.nack(job, "boom")


@contextmanager
def raises(expected: type[BaseException]) -> Iterator[list[BaseException]]:
    """Fail unless the block raises `expected`; the list then holds it."""
    caught: list[BaseException] = []
    try:
        yield caught
    except expected as error:
        caught.append(error)
    else:
        raise AssertionError(f"{expected.__name__} was not raised")
