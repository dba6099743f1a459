"""Settings: what can be tuned, with the reason for each default."""

from dataclasses import dataclass, fields
from typing import Annotated

from bucketq.errors import ConfigurationError

# More seconds, or bytes, than anybody will see.
_TOO_LARGE = 10**13
_DAYS_MAX = 100_000


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How an embedded queue behaves. Each field tells in a word what it means, for `bucketq serve --help`.

    >>> Settings(commit_interval_s=2.0).commit_interval_s
    2.0
    """

    # 0: a commit starts as soon as the one before has landed. Above 0 fewer, larger
    # commits: at 2 s an S3 queue costs a few dollars a month however busy it is.
    commit_interval_s: Annotated[float, "seconds from one commit to the next, at least"] = 0.0

    # A claim whose heartbeat has not changed for this long goes back to the queue:
    # three to five missed beats of the default heartbeat interval (60 s).
    stale_after_s: Annotated[float, "seconds after which a silent worker's job is taken"] = 300.0

    # How often a waiting dequeue looks for jobs that other processes enqueued, and for workers
    # that fell silent. A local file tells of what is enqueued by itself.
    poll_interval_s: Annotated[float, "seconds between two looks of a waiting dequeue"] = 1.0

    # How long conflicts and outages are ridden out before the callers hear of them:
    # longer than a failover of any storage service, shorter than a caller's patience.
    retry_for_s: Annotated[float, "seconds for which conflicts and outages are ridden out"] = 30.0

    # Waiting jobs beyond this number, or a queue.json beyond these bytes, overflow into
    # segments: every commit rewrites queue.json, and up to here it costs little more than a
    # small one does.
    hot_jobs_max: Annotated[int, "waiting jobs in queue.json; more overflow into segments"] = 2000
    hot_bytes_max: Annotated[int, "bytes of queue.json; more overflow into segments"] = 512 * 1024

    # The size of a segment. Each costs a line in queue.json, so there should be few of them;
    # each is read as a whole, so it should come within a moment.
    segment_jobs_max: Annotated[int, "jobs of one segment"] = 10_000
    segment_bytes_max: Annotated[int, "bytes of one segment"] = 8 * 1024 * 1024

    # Segments that were read lately are kept in memory, so that their jobs need no more requests.
    segment_cache_bytes: Annotated[int, "bytes of segments kept in memory"] = 64 * 1024 * 1024

    # A larger payload becomes an object of its own, instead of travelling with every commit.
    payload_inline_max: Annotated[int, "bytes of a payload in queue.json; larger ones are objects"] = (
        64 * 1024
    )

    # The limit for any payload: it has to fit into the memory of a worker, and of a producer.
    payload_bytes_max: Annotated[int, "bytes of one payload"] = 256 * 1024 * 1024

    # New work is refused when queue.json would pass this. Only jobs that cannot overflow get
    # it there: those in progress, those that wait for others, or all in a storage of two methods.
    queue_bytes_max: Annotated[int, "bytes of queue.json at which new work is refused"] = 64 * 1024 * 1024

    # How long an object may lie beside the queue without being referred to: longer than
    # the longest `enqueue_many`, whose segments are referred to only when it ends.
    collect_after_s: Annotated[float, "seconds after which unused objects are removed"] = 24 * 3600.0

    # Finished jobs are kept in the archive, where the storage has room for other objects.
    archive: Annotated[bool, "keep finished jobs in the archive"] = True

    # The size of a batch for the archive. Until it is full its jobs are in queue.json, and
    # every commit rewrites them; but each batch costs a request: with 850 jobs each, 1.2 for
    # a thousand. Payloads of 1 KB fill half a megabyte with 400 jobs.
    archive_jobs_max: Annotated[int, "jobs of one object of the archive"] = 850
    archive_bytes_max: Annotated[int, "bytes of one object of the archive"] = 512 * 1024

    # A batch that does not fill is archived after this long, so that readers of the archive
    # are not kept waiting and a quiet queue makes few small objects.
    archive_after_s: Annotated[float, "seconds after which finished jobs are archived at the latest"] = 600.0

    # For how many days the archive is kept; 0 is for ever.
    archive_keep_days: Annotated[int, "days for which the archive is kept; 0: for ever"] = 0

    # Whether large payloads are kept as long as the archived job, or only as long as the job.
    archive_payloads: Annotated[bool, "keep large payloads with the archived jobs"] = False

    # What requests to the storage may cost in a month of 31 days. To stay inside, commits are held apart, by
    # no more than heartbeats and callers bear. It is that of one process: each has its own.
    budget_per_month: Annotated[float, "dollars that requests of this process may cost a month; 0: any"] = 0.0

    # What a thousand requests cost. Where nothing is said it is the list price of the storage's provider; a
    # storage of one's own is free.
    price_per_1000_reads: Annotated[float | None, "dollars for 1,000 reads, if not the list price"] = None
    price_per_1000_writes: Annotated[float | None, "dollars for 1,000 writes, if not the list price"] = None
    price_per_1000_lists: Annotated[float | None, "dollars for 1,000 lists, if not the list price"] = None
    price_per_1000_deletes: Annotated[float | None, "dollars for 1,000 deletes, if not the list price"] = None

    # True promises that nobody else writes to this queue. Then an answer such as "the
    # queue is empty" needs no look at the storage first.
    sole_writer: Annotated[bool, "nobody else writes to this queue: some answers need no look"] = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, bool):
                if not isinstance(value, bool):
                    raise ConfigurationError(f"{field.name} is True or False, not {value!r}")
                continue
            if value is None and field.default is None:
                continue
            wanted = int if isinstance(field.default, int) else int | float
            if not isinstance(value, wanted) or isinstance(value, bool) or not 0 <= value < _TOO_LARGE:
                kind = "a whole number" if wanted is int else "a number"
                raise ConfigurationError(f"{field.name} must be {kind}, not below 0: {value!r}")
            if field.name == "archive_keep_days" and value > _DAYS_MAX:
                raise ConfigurationError(
                    f"archive_keep_days goes up to {_DAYS_MAX}; 0 is for ever: {value!r}"
                )
            if (
                value == 0
                and field.default is not None
                and field.name
                not in {
                    "budget_per_month",
                    "commit_interval_s",
                    "retry_for_s",
                    "payload_inline_max",
                    "archive_keep_days",
                }
            ):
                raise ConfigurationError(f"{field.name} must be above 0")
        if self.queue_bytes_max < self.hot_bytes_max:
            raise ConfigurationError(
                f"queue_bytes_max ({self.queue_bytes_max}) is below hot_bytes_max ({self.hot_bytes_max}): new"
                " work would be refused before any overflows into segments. Raise the first, or lower the"
                " second."
            )
