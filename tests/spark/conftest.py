"""What the tests of Spark share: one session a process, and queues with something in them."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from bucketq import DirectQueue, LocalFileSystemStorage, Settings
from bucketq.clock import SystemClock
from bucketq.spark import local_session
from tests.contract.servers import Server
from tests.contract.servers import seaweedfs as start_seaweedfs
from tests.spark.cluster import standalone
from tests.spark.java import need_java
from tests.spark.jvm import environment


@pytest.fixture(scope="session", autouse=True)
def _quick_java() -> Iterator[None]:
    """Java starts quickly, here and in the processes that tests start."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment().items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator:
    """Spark with two cores, whose tasks are tried three times."""
    need_java()
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.log.level": "OFF",
    }
    session = local_session("local[2,3]", settings=settings)
    yield session
    session.stop()


@pytest.fixture
def lasting(spark, monkeypatch):
    """The session, which outlives whatever takes it from `local_session` and stops it."""
    monkeypatch.setattr(type(spark), "stop", lambda session: None)
    return spark


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    need_java()
    with standalone(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


class StoppedClock(SystemClock):
    """A clock that shows one time."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def now(self) -> datetime:
        return self._at


class FileQueue:
    """A queue on a file, for code that has no event loop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"file://{path}"
        self.storage = LocalFileSystemStorage(path)

    def ask(self, question, at=None, **settings):
        """What an `async def` of the queue answers, now or at another time."""
        clock = SystemClock() if at is None else StoppedClock(at)
        return asyncio.run(question(DirectQueue(self.storage, Settings(**settings), clock)))

    def drain(self, batch_size: int = 1000):
        """All waiting jobs, in the order of their turns; each is acknowledged."""

        async def drain(q):
            drained = []
            while jobs := await q.dequeue(batch_size=batch_size):
                drained += jobs
                assert await q.ack_many(jobs) == []
            return drained

        return self.ask(drain)

    def finish(self, entrypoint: str, payloads, *, batch: int = 850, at=None):
        """Enqueue and finish jobs; the archive gets an object for every `batch` of them."""

        async def finish(q):
            ids = await q.enqueue_many(entrypoint, payloads)
            while jobs := await q.dequeue(entrypoint, batch_size=batch):
                assert await q.ack_many(jobs) == []
            return list(ids)

        return self.ask(finish, at, archive_jobs_max=batch)

    def objects(self, folder: str) -> list[str]:
        """The objects beside the queue."""
        return sorted(
            str(path.relative_to(self.path.parent / "queue"))
            for path in self.path.parent.glob(f"queue/{folder}/**/*")
            if path.is_file()
        )


@pytest.fixture
def queue(tmp_path) -> FileQueue:
    return FileQueue(tmp_path / "queue.json")
