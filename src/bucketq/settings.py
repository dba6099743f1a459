"""Settings: what can be tuned, with the reason for each default."""

from dataclasses import dataclass, fields

from bucketq.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How an embedded queue behaves.

    >>> Settings(commit_interval_s=2.0).commit_interval_s
    2.0
    """

    # 0: a commit starts as soon as the one before has landed. Above 0 fewer, larger
    # commits: at 2 s an S3 queue costs a few dollars a month however busy it is.
    commit_interval_s: float = 0.0

    # A claim whose heartbeat has not changed for this long goes back to the queue:
    # three to five missed beats of the default heartbeat interval (60 s).
    stale_after_s: float = 300.0

    # How often a waiting dequeue looks for jobs that other processes enqueued.
    poll_interval_s: float = 1.0

    # How long conflicts and outages are ridden out before the callers hear of them:
    # longer than a failover of any storage service, shorter than a caller's patience.
    retry_for_s: float = 30.0

    # Every payload travels with every commit, so a huge one slows everybody down.
    payload_bytes_max: int = 16 * 1024 * 1024

    # True promises that nobody else writes to this queue. Then an answer such as "the
    # queue is empty" needs no look at the storage first.
    sole_writer: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int | float) or not value >= 0:
                raise ConfigurationError(f"{field.name} must be a number, not below 0: {value!r}")
            if value == 0 and field.name in {"stale_after_s", "poll_interval_s", "payload_bytes_max"}:
                raise ConfigurationError(f"{field.name} must be above 0")
