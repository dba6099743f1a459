"""The dashboard and the alerts, held against what a running broker tells."""

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


def parts(expression):
    """An expression of PromQL and all in it."""
    yield expression
    inner = [getattr(expression, name, None) for name in ("expr", "lhs", "rhs", "vector_selector", "param")]
    for part in [*inner, *getattr(expression, "args", ())]:
        if part is not None:
            yield from parts(part)


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
