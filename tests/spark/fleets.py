"""What the tests of fleets share."""

import asyncio
import threading
from contextlib import contextmanager
from pathlib import Path

from bucketq.verify import verify
from tests.spark.cluster import WITHIN_S


def enqueue(*calls):
    """Enqueue jobs: pairs of a handler, and the arguments of each of its jobs."""

    async def enqueue():
        for handler, arguments in calls:
            await handler.enqueue_many(arguments)

    asyncio.run(enqueue())


def journal(folder):
    """A function for handlers, which notes a line; and one for the test, which reads all of them."""
    path = f"{folder}/journal"

    def note(*words):
        with open(path, "a") as file:
            file.write(" ".join(map(str, words)) + "\n")

    def read():
        return [line.split() for line in Path(path).read_text().splitlines()] if Path(path).exists() else []

    return note, read


@contextmanager
def at_work(fleet):
    """A fleet that runs beside the block, and is stopped at its end."""
    failures = []

    def work():
        try:
            fleet.run()
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        fleet.stop()
        thread.join(WITHIN_S)
    assert not thread.is_alive()
    assert failures == []


def check_sound(queue):
    """Prove that nothing is lost; return the counts."""
    verdict = queue.ask(lambda q: verify(queue.storage))
    assert verdict.problems == []
    return queue.ask(lambda q: q.stats())


def archive(spark, queue):
    """The finished jobs, as rows."""
    return spark.read.format("bucketq").option("url", queue.url).load().collect()
