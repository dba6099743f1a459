"""The manifests, held against the code: ports, health, time to leave, secrets, metrics to scale by."""

import re

import httpx
import promql_parser
import pytest
import yaml

from bucketq import InMemoryStorage, open_storage
from bucketq.app.worker.health import told_health
from bucketq.broker.serving import serving
from bucketq.cli.serve import _DRAIN_S
from bucketq.url import GRPC_PORT, HTTP_PORT
from tests.deploy.conftest import ROOT
from tests.deploy.files import CLOUDS, DEPLOY, base, compose, pods, rendered, unit
from tests.docs.blocks import blocks
from tests.rest.conftest import leading

PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
# What Prometheus itself adds to what it has scraped.
ADDED_LABELS = {"namespace"}


def named(kind, name, objects=None):
    [found] = [one for one in objects or base() if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return found


def container(component):
    [found] = pods()[component]["containers"]
    return found


def flag(arguments, name):
    """The value of a flag on a command line."""
    [found] = [one.partition("=")[2] for one in arguments if one.startswith(f"{name}=")]
    return found


def test_services_lead_to_the_ports_of_brokers():
    ports = {one["name"]: one["containerPort"] for one in container("broker")["ports"]}
    assert ports == {"grpc": GRPC_PORT, "https": HTTP_PORT}
    for name in ("bucketq", "bucketq-brokers"):
        service = named("Service", name)["spec"]
        assert {one["port"]: ports[one["targetPort"]] for one in service["ports"]} == {
            GRPC_PORT: GRPC_PORT,
            HTTP_PORT: HTTP_PORT,
        }
        assert service["selector"].items() <= broker_labels().items()


def broker_labels():
    return named("StatefulSet", "bucketq-broker")["spec"]["template"]["metadata"]["labels"]


def test_everything_that_selects_brokers_or_workers_finds_them():
    workers = named("Deployment", "bucketq-worker")["spec"]["template"]["metadata"]["labels"]
    for kind, name, labels in (
        ("NetworkPolicy", "bucketq-broker", broker_labels()),
        ("NetworkPolicy", "bucketq-worker", workers),
        ("PodDisruptionBudget", "bucketq-broker", broker_labels()),
    ):
        spec = named(kind, name)["spec"]
        wanted = spec.get("podSelector") or spec["selector"]
        assert wanted["matchLabels"].items() <= labels.items()
    let_in = named("NetworkPolicy", "bucketq-broker")["spec"]["ingress"][0]["from"][0]["podSelector"]
    assert let_in["matchLabels"].items() <= workers.items()


async def test_a_broker_passes_its_probes_whether_it_leads_or_waits_and_so_does_a_worker():
    storage = InMemoryStorage()
    paths = {container("broker")[probe]["httpGet"]["path"] for probe in PROBES}
    async with serving(storage) as first:
        await leading(first)
        async with serving(storage) as second, httpx.AsyncClient() as http:
            for broker in (first, second):
                for path in paths:
                    assert (await http.get(f"http://{broker.http}{path}")).status_code == 200
    probes = [container("worker")[probe]["httpGet"] for probe in PROBES]
    async with told_health("127.0.0.1", 0, lambda: None) as port, httpx.AsyncClient() as http:
        for probe in probes:
            assert (await http.get(f"http://127.0.0.1:{port}{probe['path']}")).status_code == 200
    told = {one["name"]: one["containerPort"] for one in container("worker")["ports"]}
    assert {str(told[probe["port"]]) for probe in probes} == {
        flag(container("worker")["args"], "--health-port")
    }


def test_all_get_the_time_that_they_take_to_leave():
    services = compose()["services"]
    for left_s in (
        pods()["broker"]["terminationGracePeriodSeconds"],
        int(services["broker-1"]["stop_grace_period"].removesuffix("s")),
        int(services["broker-2"]["stop_grace_period"].removesuffix("s")),
        int(unit("bucketq-broker@.service")["TimeoutStopSec"]),
    ):
        assert left_s >= _DRAIN_S + 5
    for left_s, command in (
        (pods()["worker"]["terminationGracePeriodSeconds"], container("worker")["args"]),
        (int(services["worker"]["stop_grace_period"].removesuffix("s")), services["worker"]["command"]),
        (
            int(unit("bucketq-worker@.service")["TimeoutStopSec"]),
            unit("bucketq-worker@.service")["ExecStart"].split(),
        ),
    ):
        assert left_s >= float(flag(command, "--grace-s")) + 10


def test_clients_are_told_names_that_the_certificate_of_the_guide_has():
    guide = (ROOT / "docs/deploy.md").read_text()
    [made] = re.findall(
        r"^deploy/make-secrets \S+ (.*bucketq-brokers.*)$", guide.replace("\\\n", " "), re.MULTILINE
    )
    hosts = set(made.split())
    stateful = named("StatefulSet", "bucketq-broker")
    namespace = named("Namespace", "bucketq")["metadata"]["name"]
    pattern = flag(container("broker")["args"], "--advertise")
    for number in range(stateful["spec"]["replicas"]):
        name = pattern.replace("$(POD_NAME)", f"{stateful['metadata']['name']}-{number}")
        assert name.replace("$(POD_NAMESPACE)", namespace) in hosts
    literals = yaml.safe_load((DEPLOY / "kubernetes/base/kustomization.yaml").read_text())
    url = literals["configMapGenerator"][0]["literals"][0].partition("=")[2]
    assert set(url.removeprefix("grpcs://").split(",")) < hosts
    assert f"bucketq.{namespace}.svc" in hosts
    assert monitor()["tlsConfig"]["serverName"] in hosts
    assert stateful["spec"]["serviceName"] == "bucketq-brokers"


def monitor():
    [endpoint] = yaml.safe_load((DEPLOY / "kubernetes/metrics/service-monitor.yaml").read_text())["spec"][
        "endpoints"
    ]
    return endpoint


def client_pod():
    """The pod of the how-to that a user's own program runs in."""
    [block] = blocks("docs/howto/kubernetes.md", "yaml")
    return yaml.safe_load(block.text)


def test_a_users_own_pod_is_let_in():
    [let_in] = named("NetworkPolicy", "bucketq-broker")["spec"]["ingress"][0]["from"]
    assert let_in["podSelector"]["matchLabels"].items() <= client_pod()["metadata"]["labels"].items()


@pytest.mark.parametrize("guide", ["docs/deploy.md", "docs/howto/kubernetes.md"])
def test_the_guides_make_every_secret_that_is_asked_for(guide):
    made = {}
    for name, rest in re.findall(
        r"^(?:\$ )?kubectl create secret (?:generic|tls) (\S+)(.*)$",
        (ROOT / guide).read_text().replace("\\\n", " "),
        re.MULTILINE,
    ):
        files = re.findall(r"--from-file=(?:\S*/)?(\S+)", rest)
        made[name] = set(files) if files else {"tls.crt", "tls.key"}
    asked = {}
    for spec in (*pods().values(), client_pod()["spec"]):
        [one] = spec["containers"]
        texts = [*one.get("args", ()), *(variable.get("value", "") for variable in one["env"])]
        for volume in spec["volumes"]:
            if secret := volume.get("secret"):
                [mount] = [at["mountPath"] for at in one["volumeMounts"] if at["name"] == volume["name"]]
                keys = set(re.findall(rf"{mount}/(\S+)", " ".join(texts)))
                assert keys
                asked[secret["secretName"]] = keys
    scraped = [monitor()["authorization"]["credentials"], monitor()["tlsConfig"]["ca"]["secret"]]
    asked[scraped[0]["name"]] = {one["key"] for one in scraped}
    assert asked == made


def test_each_cloud_says_where_the_queue_is_and_who_the_brokers_are():
    for cloud in CLOUDS:
        objects = rendered(cloud)
        configs = {one["metadata"]["name"]: one["data"] for one in objects if one["kind"] == "ConfigMap"}
        [storage] = [data for name, data in configs.items() if name.startswith("bucketq-storage-")]
        scheme = {"aws": "s3", "gcp": "gs", "azure": "az"}[cloud]
        assert storage["BUCKETQ_URL"].startswith(f"{scheme}://")
        account = named("ServiceAccount", "bucketq-broker", objects)["metadata"]
        assert ("annotations" in account) == (cloud != "aws"), "on AWS the identity is told of by EKS"
        assert "annotations" not in named("ServiceAccount", "bucketq-worker", objects)["metadata"]


def queries():
    """Every query that decides about the number of workers."""
    keda = yaml.safe_load((DEPLOY / "kubernetes/keda/scaled-object.yaml").read_text())
    yield from (trigger["metadata"]["query"] for trigger in keda["spec"]["triggers"])
    for rule in adapter_rules():
        yield rule["metricsQuery"].replace("<<.LabelMatchers>>", 'namespace="bucketq"')
        yield rule["seriesQuery"]


def adapter_rules():
    return yaml.safe_load((DEPLOY / "kubernetes/hpa/adapter-values.yaml").read_text())["rules"]["external"]


def selectors(expression):
    """The metrics that a query looks at."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for part in ("expr", "lhs", "rhs"):
        if (inner := getattr(expression, part, None)) is not None:
            yield from selectors(inner)


async def test_workers_are_scaled_by_metrics_that_a_broker_has():
    async with serving(InMemoryStorage()) as broker, httpx.AsyncClient() as http:
        await leading(broker)
        text = (await http.get(f"http://{broker.http}{monitor()['path']}")).text
    for query in queries():
        found = list(selectors(promql_parser.parse(query)))
        assert found
        for metric in found:
            lines = re.findall(rf"^{metric.name}(?:{{(.*)}})? ", text, re.MULTILINE)
            assert lines, f"a broker has no {metric.name}"
            for matcher in metric.matchers.matchers:
                if matcher.name not in ADDED_LABELS:
                    values = set(re.findall(rf'{matcher.name}="([^"]*)"', " ".join(lines)))
                    assert set(matcher.value.split("|")) <= values


def test_both_ways_to_scale_mean_the_workers_and_the_same_numbers():
    keda = yaml.safe_load((DEPLOY / "kubernetes/keda/scaled-object.yaml").read_text())["spec"]
    hpa = yaml.safe_load((DEPLOY / "kubernetes/hpa/autoscaler.yaml").read_text())["spec"]
    for spec in (keda, hpa):
        assert (spec["scaleTargetRef"]["kind"], spec["scaleTargetRef"]["name"]) == (
            "Deployment",
            "bucketq-worker",
        )
    assert "replicas" not in named("Deployment", "bucketq-worker")["spec"], "it would undo what was scaled"
    metrics = [one["external"] for one in hpa["metrics"]]
    assert [one["metric"]["name"] for one in metrics] == [rule["name"]["as"] for rule in adapter_rules()]
    limits = [one["target"].get("averageValue") or one["target"]["value"] for one in metrics]
    assert limits == [trigger["metadata"]["threshold"] for trigger in keda["triggers"]]
    assert keda["maxReplicaCount"] == hpa["maxReplicas"]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_what_a_cloud_adds_fits_the_base(cloud):
    folder = DEPLOY / "kubernetes" / cloud
    added = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert [(folder / name).resolve() for name in added["resources"]] == [DEPLOY / "kubernetes/base"]
    for patch in added.get("patches", []):
        patched = yaml.safe_load(patch["patch"])
        assert named(patched["kind"], patched["metadata"]["name"])
    images = {one["image"] for pod in pods().values() for one in pod["containers"]}
    assert {one["name"] for one in added["images"]} == {image.partition(":")[0] for image in images}
    [storage] = added["configMapGenerator"]
    asked = [one["configMapRef"]["name"] for one in container("broker")["envFrom"] if "configMapRef" in one]
    assert storage["name"] in asked
    variables = dict(one.split("=", 1) for one in storage["literals"])
    open_storage(variables["BUCKETQ_URL"])
