"""The dashboard and the alerts, held against what a running broker tells, and against made-up troubles."""

import asyncio
import json
import re
from itertools import combinations

import httpx
import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from bucketq import InMemoryStorage, ThrottledStorage
from bucketq.broker.serving import serving
from tests.deploy.files import DEPLOY
from tests.deploy.promql import evaluate, parts
from tests.rest.conftest import leading

DASHBOARD = json.loads((DEPLOY / "grafana/bucketq.json").read_text())
[GROUP] = yaml.safe_load((DEPLOY / "prometheus/alerts.yaml").read_text())["groups"]
ALERTS = {rule["alert"]: rule for rule in GROUP["rules"]}
# What Prometheus itself adds to what it has scraped.
ADDED_LABELS = {"job", "instance"}
# Those that come with every Grafana.
PANELS = {"row", "stat", "timeseries"}


@pytest.fixture(scope="module")
def told():
    """The samples of a broker that has done a little: {name: [labels]}."""
    text = asyncio.run(scraped())
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return {one.name: [other.labels for other in samples if other.name == one.name] for one in samples}


async def scraped():
    async with serving(ThrottledStorage(InMemoryStorage())) as broker, httpx.AsyncClient() as http:
        await leading(broker)
        await http.post(f"http://{broker.http}/v1/jobs", json={"type": "mail", "payload": {}})
        return (await http.get(f"http://{broker.http}/metrics")).text


def panels():
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def queries():
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m"), target["legendFormat"]


def check_query(query, told):
    """Every metric and label in it is one that a broker tells; return the labels of what it gives."""
    expression = promql_parser.parse(query)
    known = set()
    for part in parts(expression):
        if isinstance(part, promql_parser.VectorSelector):
            assert part.name in told, f"a broker has no {part.name}"
            series = told[part.name]
            known |= {label for labels in series for label in labels}
            for matcher in part.matchers.matchers:
                if matcher.name not in ADDED_LABELS:
                    assert matcher.value in {labels.get(matcher.name) for labels in series}, query
    for part in parts(expression):
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            assert set(part.modifier.labels) <= known | ADDED_LABELS, query
    return known | ADDED_LABELS


def test_the_dashboard_shows_what_a_broker_tells(told):
    shown = list(queries())
    assert len(shown) > 30
    for title, query, legend in shown:
        labels = check_query(query, told)
        assert set(re.findall(r"{{(\w+)}}", legend)) <= labels, title
        assert 'job="$job"' in query, f"{title} mixes the queues"


def test_every_metric_of_ours_is_shown_or_watched(told):
    asked = [*(query for _, query, _ in queries()), *(rule["expr"] for rule in ALERTS.values())]
    names = {
        part.name
        for query in asked
        for part in parts(promql_parser.parse(query))
        if isinstance(part, promql_parser.VectorSelector)
    }
    stems = {re.sub("_(bucket|sum|count)$", "", name) for name in told if name.startswith("bucketq_")}
    unshown = stems - {re.sub("_(bucket|sum|count)$", "", name) for name in names}
    # Of limits that few set, and what others tell better.
    assert {name for name in unshown if not name.startswith("bucketq_storage_")} <= {
        *("bucketq_build_info", "bucketq_terms_total", "bucketq_entrypoints", "bucketq_backlog_bytes"),
    }


def test_grafana_can_load_it():
    assert DASHBOARD["uid"]
    assert DASHBOARD["title"] == "bucketq"
    assert isinstance(DASHBOARD["schemaVersion"], int)
    assert "id" not in DASHBOARD, "that is the one of a Grafana in which it was saved"
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert (variables["datasource"]["type"], variables["datasource"]["query"]) == ("datasource", "prometheus")
    assert "bucketq_build_info" in variables["job"]["query"]["query"]
    every = DASHBOARD["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    assert {panel["type"] for panel in every} == PANELS, "no plugin"
    for panel in panels():
        sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)
        assert panel["fieldConfig"]["defaults"]["unit"]
    for one, other in combinations([panel["gridPos"] for panel in every], 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        above = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or above, "two panels lie on each other"
        assert one["x"] + one["w"] <= 24


def test_the_alerts_are_about_what_a_broker_tells(told):
    for name, rule in ALERTS.items():
        labels = check_query(rule["expr"], told)
        said = rule["annotations"]
        assert said["summary"], name
        assert len(said["description"]) > 60, f"{name} says what to do"
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        used = re.findall(r"\$labels\.(\w+)", " ".join(said.values()))
        assert set(used) <= labels
        assert promql_parser.parse_duration(rule.get("for", "1m"))


def series(now, before=0.0, **labels):
    return [({"job": "bucketq", "instance": "a", **labels}, before, now)]


# All is well: one leads, jobs come and go.
WELL = {
    "bucketq_leading": [*series(1), ({"job": "bucketq", "instance": "b"}, 0, 0)],
    "bucketq_leader_changes_total": series(1, 1),
    "bucketq_jobs": [*series(9, status="queued"), *series(5, status="in_progress")],
    "bucketq_longest_wait_seconds": series(20),
    "bucketq_entrypoint_longest_wait_seconds": series(20, entrypoint="mail"),
    "bucketq_claims_total": series(1000),
    "bucketq_retries_total": series(50),
    "bucketq_jobs_dead_total": series(7, 7),
    "bucketq_slow_downs_total": series(10),
    "bucketq_commits_total": series(1000),
    "bucketq_conflicts_total": series(1),
    "bucketq_storage_failures_total": series(3),
    "bucketq_unknown_outcomes_total": [*series(4, found="landed"), *series(2, 2, found="unsettled")],
    "bucketq_commit_seconds_sum": series(100),
    "bucketq_commit_seconds_count": series(1000),
    "bucketq_queue_bytes": series(500_000),
    "bucketq_queue_bytes_max": series(64_000_000),
    "bucketq_archive_lag_seconds": series(500),
    "bucketq_cost_dollars_per_month": series(12.0),
    "bucketq_budget_dollars_per_month": series(0),
    "bucketq_budget_held_back": series(0),
}
TROUBLES = {
    "BucketqNoLeader": {"bucketq_leading": series(0)},
    "BucketqTwoLeaders": {"bucketq_leading": [*series(1), ({"job": "bucketq", "instance": "b"}, 0, 1)]},
    "BucketqLeaderChanges": {"bucketq_leader_changes_total": series(6, 1)},
    "BucketqStuck": {
        "bucketq_jobs": [*series(9, status="queued"), *series(0, status="in_progress")],
        "bucketq_longest_wait_seconds": series(1000),
        "bucketq_claims_total": series(9, 9),
        "bucketq_retries_total": series(9, 9),
    },
    "BucketqLongWait": {"bucketq_entrypoint_longest_wait_seconds": series(4000, entrypoint="mail")},
    "BucketqDeadJobs": {"bucketq_jobs_dead_total": series(8, 7)},
    "BucketqRetries": {"bucketq_retries_total": series(600)},
    "BucketqSlowDowns": {"bucketq_slow_downs_total": series(300)},
    "BucketqStorageFails": {"bucketq_storage_failures_total": series(100)},
    "BucketqUnknownOutcomes": {"bucketq_unknown_outcomes_total": series(3, 2, found="unsettled")},
    "BucketqConflicts": {"bucketq_conflicts_total": series(200)},
    "BucketqSlowCommits": {"bucketq_commit_seconds_sum": series(6000)},
    "BucketqQueueNearLimit": {"bucketq_queue_bytes": series(60_000_000)},
    "BucketqArchiveLag": {"bucketq_archive_lag_seconds": series(4000)},
    "BucketqCostBeyondBudget": {"bucketq_budget_dollars_per_month": series(10)},
    "BucketqHeldBack": {"bucketq_budget_held_back": series(1)},
}


def firing(world):
    return {name for name, rule in ALERTS.items() if evaluate(rule["expr"], world)}


def test_when_all_is_well_no_alert_fires():
    assert firing(WELL) == set()


def test_long_jobs_that_all_workers_are_busy_with_are_no_trouble():
    assert firing({**WELL, **TROUBLES["BucketqStuck"], "bucketq_jobs": WELL["bucketq_jobs"]}) == set()


def test_where_no_broker_is_there_somebody_says_so():
    assert firing({}) == {"BucketqNoLeader"}


@pytest.mark.parametrize("name", ALERTS)
def test_each_alert_fires_for_its_trouble_alone(name):
    assert firing({**WELL, **TROUBLES[name]}) == {name}
