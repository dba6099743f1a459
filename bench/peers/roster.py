"""Roster: who takes part, on which server, set up how, and what their acknowledgement means.

What is written here about a peer is for the reader of docs/comparison.md; it was checked against the settings
of its file in `contestants`, and the kills show what is true of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.peers.servers import Brokers, Memory, Postgres, Redis, RedisEverySecond, SeaweedFS, Server


@dataclass(frozen=True)
class Entry:
    """One contestant on one server."""

    key: str
    name: str
    module: str
    server: Callable[[Path], Server]
    # The library's way to enqueue many.
    many: str
    # What is true when `enqueue` has returned.
    ack: str
    # Whose Python: bucketq's own, that of most peers, or one for itself alone: see `packages`.
    python: str = "peers"
    # Producer and worker are one process: there is nothing that could be killed alone.
    in_process: bool = False
    # Tables have to be made before it can be used.
    has_tables: bool = False

    @property
    def needs(self) -> str:
        """The server of Debian's that it needs, if any."""
        if self.server in (Redis, RedisEverySecond):
            return "redis"
        return "postgres" if self.server is Postgres else ""

    @property
    def victim(self) -> str:
        """What is killed while jobs are enqueued."""
        if not isinstance(self.server, type):
            return "the broker that leads"
        return self.server.program if self.server.is_served else "the producer"

    @property
    def is_ours(self) -> bool:
        """Whether it is bucketq."""
        return self.module == "bucketq"


def _remote(storage: type[Server], standby: bool = True) -> Callable[[Path], Server]:
    return lambda folder: Brokers(folder, storage(folder / "storage"), standby)


_REDIS = (
    ("redis-always", "Redis, fsync always", Redis, "in Redis's log, flushed to the disk"),
    ("redis", "Redis, fsync each second", RedisEverySecond, "in Redis's log; flushed within a second or two"),
)
_ON_REDIS = (
    ("saq", "SAQ", "100 callers", "peers"),
    ("rq", "RQ", "`enqueue_many`", "peers"),
    ("dramatiq", "dramatiq", "`group`", "peers"),
    ("taskiq", "taskiq", "100 callers", "taskiq"),
    ("celery", "Celery", "`group`", "peers"),
)
_COMMIT = "committed by PostgreSQL, flushed to the disk"

ROSTER = (
    Entry(
        "bucketq-memory",
        "bucketq, memory",
        "bucketq",
        Memory,
        "`enqueue_many`",
        "in this process's memory, no more",
        python="own",
        in_process=True,
    ),
    Entry(
        "bucketq-file",
        "bucketq, file",
        "bucketq",
        Server,
        "`enqueue_many`",
        "file and folder flushed to the disk",
        python="own",
    ),
    Entry(
        "bucketq-seaweedfs",
        "bucketq, SeaweedFS",
        "bucketq",
        SeaweedFS,
        "`enqueue_many`",
        "the bucket has taken the conditional write",
        python="own",
    ),
    Entry(
        "bucketq-broker-memory",
        "bucketq, broker, memory",
        "bucketq",
        _remote(Memory, standby=False),
        "`enqueue_many`",
        "in the broker's memory, no more",
        python="own",
    ),
    Entry(
        "bucketq-broker-file",
        "bucketq, broker, file",
        "bucketq",
        _remote(Server),
        "`enqueue_many`",
        "file and folder flushed to the disk by the broker",
        python="own",
    ),
    Entry(
        "bucketq-broker-seaweedfs",
        "bucketq, broker, SeaweedFS",
        "bucketq",
        _remote(SeaweedFS),
        "`enqueue_many`",
        "the bucket has taken the broker's conditional write",
        python="own",
    ),
    Entry(
        "jqueue-file",
        "jqueue, file",
        "jqueue",
        Server,
        "100 callers",
        "written to the file, nothing flushed",
        python="jqueue",
    ),
    Entry(
        "procrastinate",
        "procrastinate",
        "procrastinate",
        Postgres,
        "`batch_defer_async`",
        _COMMIT,
        has_tables=True,
    ),
    Entry("pgqueuer", "pgqueuer", "pgqueuer", Postgres, "`enqueue` of lists", _COMMIT, has_tables=True),
    *(
        Entry(f"{key}-{server_key}", f"{name}, {server_name}", key, server, many, ack, python)
        for server_key, server_name, server, ack in _REDIS
        for key, name, many, python in _ON_REDIS
    ),
    Entry(
        "huey-sqlite",
        "huey, SQLite",
        "huey",
        Server,
        "one by one",
        "committed by SQLite, flushed to the disk",
    ),
)

# What --quick plays: no server, and no package that bucketq's own tests do not have.
QUICK = ("bucketq-memory", "bucketq-file")

# Not compared, but caught: see its file.
FORGETFUL = Entry("forgetful", "a liar", "forgetful", Server, "one by one", "nothing at all", "own")
