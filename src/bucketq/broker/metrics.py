"""Metrics: what a broker tells Prometheus. docs/metrics.md lists it all.

Everything is read when it is asked for, from what the broker knows anyway: a scrape costs no
request to the storage and no commit. A broker that waits for its turn to lead tells nothing of
the jobs.

Labels have few values: names from a shell's own tables. Entrypoints are made up by users, so only those
with the most jobs are told by name.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from bucketq.account import Spending
from bucketq.broker.broker import Broker
from bucketq.figures import BOUNDS_S, Figures, Histogram
from bucketq.glance import ENTRYPOINTS_MAX, Glance
from bucketq.prices import Requests
from bucketq.storage import ThrottleStats

CONTENT_TYPE = CONTENT_TYPE_LATEST

# More kinds of requests than all shells know; those beyond it are counted as one.
_KINDS_MAX = 2000
_OTHER = "other"
# The kind of each count, and what it is of: queue.json, or the objects beside it.
_REQUESTS = {
    "reads": ("read", "queue"),
    "writes": ("write", "queue"),
    "object_reads": ("read", "beside"),
    "object_writes": ("write", "beside"),
    "lists": ("list", "beside"),
    "deletes": ("delete", "beside"),
}


class Metrics:
    """The metrics of one broker.

        metrics = Metrics(broker)
        metrics.answered("http", "submitJob", "ok", 0.004)
        metrics.connections("ws").set_function(lambda: len(sockets))

    `waiting` is the gauge of calls that wait for something to happen, such as a job to dequeue.
    """

    def __init__(self, broker: Broker) -> None:
        self._registry = CollectorRegistry()
        self._connections = Gauge(
            "bucketq_connections", "Connections that are open.", ["transport"], registry=self._registry
        )
        self.waiting = Gauge(
            "bucketq_waiting_calls",
            "Calls that wait, for a job or for a result.",
            registry=self._registry,
        )
        self._answers: Counter[tuple[str, str, str]] = Counter()
        self._took: dict[tuple[str, str], Histogram] = {}
        self._registry.register(_Collector(lambda: _of_broker(broker)))
        self._registry.register(_Collector(self._of_requests))
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus; its type is CONTENT_TYPE."""
        return generate_latest(self._registry)

    def answered(self, transport: str, method: str, outcome: str, seconds: float) -> None:
        """Count a request; `method` is a name of the shell's, not what the client asked for."""
        if (transport, method, outcome) not in self._answers and len(self._answers) >= _KINDS_MAX:
            method = outcome = _OTHER
        self._answers[transport, method, outcome] += 1
        if (took := self._took.get((transport, method))) is None:
            took = self._took[transport, method] = Histogram(BOUNDS_S)
        took.add(seconds)

    @property
    def answers(self) -> Mapping[tuple[str, str, str], int]:
        """How many requests were answered, by transport, method and outcome."""
        return self._answers

    @property
    def open_connections(self) -> dict[str, int]:
        """How many connections are open, by transport."""
        [family] = self._connections.collect()
        return {sample.labels["transport"]: int(sample.value) for sample in family.samples}

    def connections(self, transport: str) -> Gauge:
        """The gauge of a transport's open connections."""
        return self._connections.labels(transport)

    def _of_requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "bucketq_requests",
            "Requests that were answered, and how: ok, or the name of the error.",
            labels=["transport", "method", "outcome"],
        )
        for kind, count in self._answers.items():
            requests.add_metric(kind, count)
        seconds = HistogramMetricFamily(
            "bucketq_request_seconds",
            "How long requests took, waiting included.",
            labels=["transport", "method"],
        )
        for names, took in self._took.items():
            seconds.add_metric(names, _buckets(took), took.sum)
        yield from (requests, seconds)


class _Collector(Collector):
    """Asks when it is scraped."""

    def __init__(self, ask: Callable[[], Iterator[Metric]]) -> None:
        self._ask = ask

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry need not ask to know the names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        return self._ask()


def _of_broker(broker: Broker) -> Iterator[Metric]:
    build = GaugeMetricFamily(
        "bucketq_build_info", "Always 1; the label is bucketq's version.", labels=["version"]
    )
    build.add_metric([version("bucketq")], 1)
    yield build
    yield _gauge("bucketq_leading", "1 while this broker leads, else 0.", int(broker.is_leading))
    yield _counter("bucketq_terms", "How often this broker has begun to lead.", broker.terms)
    yield _counter(
        "bucketq_leader_changes", "How often this broker saw a new term begin.", broker.leader_changes
    )
    if (leader := broker.leader) is not None:
        yield _gauge("bucketq_epoch", "The number of the election that the leader has won.", leader.epoch)
    yield from _of_engine(broker.figures)
    if (glance := broker.glance()) is not None:
        # Who has led before knows only how large it was then.
        yield _gauge(
            "bucketq_queue_bytes", "The size of queue.json with the last commit.", broker.figures.queue_bytes
        )
        yield from _of_queue(glance)
    yield _gauge(
        "bucketq_queue_bytes_max",
        "The size of queue.json at which new work is refused.",
        broker.settings.queue_bytes_max,
    )
    yield from _of_spending(broker.spending)
    if (throttle := broker.throttle) is not None:
        yield from _of_storage(throttle)


def _of_engine(figures: Figures) -> Iterator[Metric]:
    yield _counter("bucketq_commits", "Commits that landed.", figures.commits)
    yield _counter("bucketq_operations", "Operations in the commits that landed.", figures.operations)
    yield _counter(
        "bucketq_conflicts", "Writes that were too late: another writer came first.", figures.conflicts
    )
    unknown = CounterMetricFamily(
        "bucketq_unknown_outcomes",
        "Writes whose answer was lost, and what was found: landed, lost, or unsettled if it never was.",
        labels=["found"],
    )
    unknown.add_metric(["landed"], figures.unknown_landed)
    unknown.add_metric(["lost"], figures.unknown_lost)
    unknown.add_metric(["unsettled"], figures.unknown_unsettled)
    yield unknown
    yield _counter("bucketq_slow_downs", "Times the storage asked to slow down.", figures.slow_downs)
    yield _counter("bucketq_storage_failures", "Other failures of the storage.", figures.failures)
    yield _counter("bucketq_claims", "Jobs that were given to workers.", figures.claims)
    yield _counter("bucketq_retries", "Attempts that failed, and whose job waits again.", figures.retries)
    yield _histogram(
        "bucketq_write_seconds",
        "How long writes of queue.json took, whatever they were answered.",
        figures.write_s,
    )
    yield _histogram(
        "bucketq_commit_seconds",
        "How long commits took that landed, with all that was tried again; not the wait for their turn.",
        figures.commit_s,
    )
    yield _histogram(
        "bucketq_commit_operations", "How many operations shared a commit that landed.", figures.batches
    )


def _of_queue(glance: Glance) -> Iterator[Metric]:
    stats = glance.stats
    jobs = GaugeMetricFamily("bucketq_jobs", "Jobs in the queue, by status.", labels=["status"])
    for status in ("queued", "scheduled", "blocked", "in_progress", "dead"):
        jobs.add_metric([status], getattr(stats, status))
    yield jobs
    yield _counter("bucketq_jobs_enqueued", "Jobs enqueued since the queue began.", stats.enqueued_total)
    yield _counter("bucketq_jobs_completed", "Jobs completed since then.", stats.completed_total)
    yield _counter("bucketq_jobs_dead", "Jobs that used up their attempts since then.", stats.dead_total)
    yield _counter(
        "bucketq_jobs_cancelled", "Jobs that were cancelled or expired since then.", stats.cancelled_total
    )
    yield _gauge(
        "bucketq_longest_wait_seconds",
        "For how long the queued job that waits the longest has done so.",
        glance.longest_wait_s,
    )
    yield from _of_entrypoints(glance)
    yield _gauge("bucketq_backlog_segments", "Segments of the backlog.", glance.segments)
    yield _gauge("bucketq_backlog_jobs", "Jobs in them.", glance.segment_jobs)
    yield _gauge("bucketq_backlog_bytes", "Bytes of them.", glance.segment_bytes)
    yield _gauge("bucketq_unarchived_jobs", "Finished jobs that are not archived yet.", glance.unarchived)
    yield _gauge(
        "bucketq_archive_lag_seconds",
        "For how long the first of those has been finished; 0 if there is none.",
        glance.unarchived_s,
    )
    yield _gauge(
        "bucketq_commit_interval_seconds",
        "The least time between two commits now; slow-downs and a budget widen it.",
        glance.commit_interval_s,
    )
    yield _gauge(
        "bucketq_commit_interval_wanted_seconds",
        "The commit interval as it is set.",
        glance.commit_interval_wanted_s,
    )


def _of_entrypoints(glance: Glance) -> Iterator[Metric]:
    jobs = GaugeMetricFamily(
        "bucketq_entrypoint_jobs",
        f"Jobs by entrypoint and status: of the {ENTRYPOINTS_MAX} with the most, and of the others together.",
        labels=["entrypoint", "status"],
    )
    waits = GaugeMetricFamily(
        "bucketq_entrypoint_longest_wait_seconds",
        "The longest wait by entrypoint, of the same ones.",
        labels=["entrypoint"],
    )
    for name, depth in glance.depths.items():
        for status, count in depth.jobs.items():
            jobs.add_metric([name, status.value], count)
        waits.add_metric([name], depth.longest_wait_s)
    yield _gauge("bucketq_entrypoints", "Entrypoints with jobs, however many.", glance.entrypoints)
    yield from (jobs, waits)


def _of_spending(spending: Spending) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "bucketq_storage_requests", "Requests to the storage.", labels=["kind", "object"]
    )
    dollars = CounterMetricFamily(
        "bucketq_cost_dollars", "What they cost by the prices known here.", labels=["kind", "object"]
    )
    for field, labels in _REQUESTS.items():
        count = getattr(spending.requests, field)
        requests.add_metric(labels, count)
        dollars.add_metric(labels, spending.prices.cost(Requests(**{field: count})))
    yield from (requests, dollars)
    yield _gauge(
        "bucketq_cost_dollars_per_month",
        "What 31 days would cost at the pace of the last five minutes.",
        spending.dollars_per_month,
    )
    yield _gauge(
        "bucketq_budget_dollars_per_month", "The budget for it; 0 is none.", spending.budget_per_month
    )
    yield _gauge(
        "bucketq_budget_held_back",
        "1 while commits are held back to stay inside the budget, else 0.",
        int(spending.is_held_back),
    )


def _of_storage(throttle: ThrottleStats) -> Iterator[Metric]:
    kinds = (("read", throttle.reads), ("write", throttle.writes))
    families: list[tuple[Callable[..., GaugeMetricFamily | CounterMetricFamily], str, str, str]] = [
        (CounterMetricFamily, "requests_waited", "waited_total", "Requests that had to wait for their turn."),
        (CounterMetricFamily, "wait_seconds", "waited_s", "For how long they waited, all together."),
        (
            CounterMetricFamily,
            "requests_refused",
            "refused_total",
            "Requests that the storage answered with slow down.",
        ),
        (GaugeMetricFamily, "requests_waiting", "waiting", "Requests that wait for their turn now."),
        (GaugeMetricFamily, "limit_per_second", "limit_per_s", "The limit, if there is one."),
        (
            GaugeMetricFamily,
            "tokens",
            "tokens",
            "How many requests could go at once now, if there is a limit.",
        ),
    ]
    for family, name, field, text in families:
        metric = family(f"bucketq_storage_{name}", text, labels=["kind"])
        for kind, stats in kinds:
            if (value := getattr(stats, field)) is not None:
                metric.add_metric([kind], value)
        yield metric


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    bounds = [*map(str, histogram.bounds), "+Inf"]
    return list(zip(bounds, accumulate(histogram.by_bound), strict=True))


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(name, text, buckets=_buckets(histogram), sum_value=histogram.sum)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
