"""The doctor on real servers: sound ones, one that ignores conditions, and all kinds of trouble."""

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest

from bucketq import BrokerQueue
from bucketq.doctor import Finding, Level, examine
from bucketq.doctor.finding import exit_code
from bucketq.storage import ObjectInfo, open_storage
from bucketq.storage.cloud_objects import CloudObjects
from bucketq.storage.proof import find_fault
from tests.contract.fault_proxy import Answer, FaultProxy, Loss
from tests.contract.gcs_fake import FakeGCS, running
from tests.contract.servers import BUCKET, LIMITED, Server

SCHEMES = {"seaweedfs": "s3", "s3rver": "s3", "azurite": "az", "gcs": "gs"}


class Patient:
    """A URL with its options, to be examined."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.url, self.options = url, options
        self.storage = open_storage(url, **options)

    async def findings(self) -> list[Finding]:
        return [finding async for finding in examine(self.url, storage_options=self.options)]

    async def left_behind(self) -> list[str]:
        return [info.name async for info in self.storage.objects.list()]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one process count for a moment, where a test is about something else."""
    monkeypatch.setattr("bucketq.doctor.counting._PROCESSES", 1)
    monkeypatch.setattr("bucketq.doctor.counting._TIMES", 2)


@pytest.fixture
def patient_at(request: pytest.FixtureRequest) -> Any:
    def make(server: str, **options: str) -> Patient:
        url = f"{SCHEMES[server]}://{BUCKET}/{request.node.name}/the queue.json"
        return Patient(url, {**request.getfixturevalue(server).options, **options})

    return make


@pytest.fixture
def behind_proxy(cloud, proxy: FaultProxy, request: pytest.FixtureRequest) -> Patient:
    url = f"{cloud.storage_class.scheme}://{BUCKET}/{request.node.name}/queue.json"
    return Patient(url, {**cloud.server.options, "endpoint_url": proxy.endpoint_url})


def about(findings: list[Finding], what: str) -> list[Finding]:
    return [finding for finding in findings if finding.about == what]


def levels(findings: list[Finding], *whats: str) -> set[Level]:
    return {finding.level for finding in findings if not whats or finding.about in whats}


@pytest.mark.parametrize("server", ["seaweedfs", "azurite", "gcs"])
async def test_a_sound_server_is_found_sound(patient_at, server: str) -> None:
    patient = patient_at(server)
    async with BrokerQueue(patient.storage) as queue:
        await queue.enqueue("send")
    before = await patient.storage.read()
    findings = await patient.findings()
    assert levels(findings) <= {Level.OK, Level.NOTE}, findings
    assert len(about(findings, "conditional writes")) == 3
    assert "may create, read, list and delete" in about(findings, "access")[0].found
    assert "lost nothing" in about(findings, "concurrent writes")[0].found
    assert "commits a second" in about(findings, "latency")[0].found
    assert levels(findings, "clocks") == {Level.OK}
    assert "1 waiting" in about(findings, "queue")[0].found
    assert await patient.storage.read() == before, "the queue itself was not touched"
    assert await patient.left_behind() == []


async def test_a_server_that_ignores_conditions_is_found_out(patient_at) -> None:
    patient = patient_at("s3rver")
    findings = await patient.findings()
    assert [finding.level for finding in about(findings, "conditional writes")] == [Level.PROBLEM] * 3
    assert levels(findings, "concurrent writes") == {Level.PROBLEM}
    for finding in about(findings, "conditional writes"):
        assert "it ignores If-" in finding.found
        assert "Use a server that honours conditional writes" in finding.advice
    assert exit_code(levels(findings)) == 1
    assert await patient.left_behind() == []


@contextlib.contextmanager
def patient_of(fake: FakeGCS) -> Iterator[Patient]:
    with fake, running(fake) as server:
        yield Patient(f"gs://{BUCKET}/queue.json", dict(server.options))


async def test_a_server_that_lies_only_now_and_then_is_found_out() -> None:
    """It honours each condition by itself, but not always when two come at once."""
    fake = FakeGCS()
    fake.gap_s = 0.002
    with patient_of(fake) as patient:
        assert await find_fault(patient.storage) is None, "one after the other, all is well"
        findings = await patient.findings()
        assert levels(findings, "conditional writes") == {Level.OK}
        [finding] = about(findings, "concurrent writes")
        assert finding.level is Level.PROBLEM
        assert "of the writes were lost" in finding.found
        assert await patient.left_behind() == []


async def test_a_server_that_wants_fewer_requests_is_found_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bucketq.doctor.room._SLOW_DOWN_S", 0.2)
    monkeypatch.setattr("bucketq.doctor.counting._FOR_S", 1.5)
    fake = FakeGCS()
    fake.write_every_s = 0.1
    with patient_of(fake) as patient:
        findings = await patient.findings()
        # How long the waits make a write take is this machine's affair too.
        unhurried = [finding for finding in findings if finding.about != "latency"]
        assert levels(unhurried) <= {Level.OK, Level.NOTE}, findings
        assert fake.refused, "this tested nothing"
        assert await patient.left_behind() == []


@pytest.mark.usefixtures("short")
async def test_an_object_that_is_not_listed_at_once_is_told(monkeypatch) -> None:
    async def nothing(objects: CloudObjects, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        for info in list[ObjectInfo]():
            yield info

    with patient_of(FakeGCS()) as patient:
        monkeypatch.setattr(CloudObjects, "list", nothing)
        [finding] = about(await patient.findings(), "clocks")
    assert finding.level is Level.FAILED
    assert "is not listed" in finding.found


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("ahead_s", "level", "found"),
    [
        (-30, Level.NOTE, " s ahead of the storage's"),
        (30, Level.NOTE, " s behind the storage's"),
        (7200, Level.WARNING, "2 h behind the storage's"),
    ],
)
async def test_clocks_that_disagree_are_told(ahead_s: int, level: Level, found: str) -> None:
    fake = FakeGCS()
    fake.ahead = timedelta(seconds=ahead_s)
    with patient_of(fake) as patient:
        [finding] = about(await patient.findings(), "clocks")
    assert finding.level is level
    assert found in finding.found


@pytest.mark.usefixtures("short")
async def test_what_killed_processes_left_is_removed_after_an_hour() -> None:
    fake = FakeGCS()
    with patient_of(fake) as patient:
        await patient.storage.objects.create("probe/young", b"")
        fake.ahead = timedelta(hours=-2)
        await patient.storage.objects.create("probe/old", b"")
        fake.ahead = timedelta(0)
        findings = await patient.findings()
        assert await patient.left_behind() == ["probe/young"]
    assert about(findings, "probes")[0].found.startswith("1 were left")


@pytest.mark.usefixtures("short")
async def test_what_others_try_right_now_stays_however_wrong_the_clocks_are() -> None:
    fake = FakeGCS()
    fake.ahead = timedelta(hours=-2)
    with patient_of(fake) as patient:
        await patient.storage.objects.create("probe/young", b"")
        await patient.findings()
        assert await patient.left_behind() == ["probe/young"]


async def test_a_file_is_examined_and_nothing_is_left(tmp_path: Path) -> None:
    patient = Patient(f"file://{tmp_path}/not%20yet/queue.json", {})
    findings = await patient.findings()
    assert levels(findings) <= {Level.OK, Level.NOTE}, findings
    assert "lost nothing" in about(findings, "concurrent writes")[0].found
    assert "there is none at" in about(findings, "queue")[0].found
    assert os.listdir(tmp_path) == []


async def test_a_file_where_none_can_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    findings = await Patient(f"file://{tmp_path}/file/queue.json", {}).findings()
    assert exit_code(levels(findings)) == 2
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("link", ["queue", "queue/archive"])
async def test_a_link_below_the_queue_is_found(tmp_path: Path, link: str) -> None:
    (tmp_path / link).parent.mkdir(exist_ok=True)
    (tmp_path / link).symlink_to(tmp_path)
    [found] = about(await Patient(f"file://{tmp_path}/queue.json", {}).findings(), "objects")
    assert found.level is Level.FAILED
    assert "is a symbolic link" in found.found


async def test_memory_says_what_it_is() -> None:
    [finding] = await Patient("memory://", {}).findings()
    assert finding.level is Level.NOTE
    assert "within one process" in finding.found


async def test_a_damaged_queue_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "queue.json").write_text("{")
    findings = await Patient(f"file://{tmp_path}/queue.json", {}).findings()
    [problem] = [finding for finding in findings if finding.level is not Level.OK]
    assert (problem.about, problem.level) == ("queue", Level.PROBLEM)
    assert "is not a readable queue" in problem.found


async def test_wrong_credentials_are_told(patient_at) -> None:
    findings = await patient_at("seaweedfs", secret_access_key="wrong").findings()
    assert exit_code(levels(findings)) == 2
    assert "check the credentials" in findings[-1].found
    assert findings[-1].advice.startswith("Mend that"), "to run it again would not help"
    assert len(findings) <= 2, "what nobody may look at is not looked at"


@pytest.mark.parametrize("server", ["seaweedfs", "azurite", "gcs"])
async def test_a_missing_bucket_is_told(patient_at, server: str) -> None:
    sound = patient_at(server)
    [finding] = await Patient(sound.url.replace(BUCKET, "nowhere", 1), sound.options).findings()
    assert finding.level is Level.FAILED
    assert "there is no bucket 'nowhere'; create it" in finding.found


async def test_a_server_that_is_down_is_told(patient_at) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    [finding] = await patient_at("seaweedfs", endpoint_url=f"http://127.0.0.1:{port}").findings()
    assert finding.level is Level.FAILED
    assert "no connection to the server" in finding.found


async def test_each_missing_permission_is_named(patient_at) -> None:
    assert set(LIMITED) == {"never-lists", "only-reads"}
    name = "never-lists"
    patient = patient_at("seaweedfs", access_key_id=name, secret_access_key=name)
    findings = await patient.findings()
    [problem] = [finding for finding in findings if finding.level is Level.PROBLEM]
    assert "may not list objects here (s3:ListBucket)" in problem.found
    assert "bucketq verify" in problem.advice
    assert levels(findings, "conditional writes", "concurrent writes") == {Level.OK}
    assert await patient_at("seaweedfs").left_behind() == []


async def test_options_that_cannot_go_to_other_processes_are_told(patient_at) -> None:
    patient = patient_at("seaweedfs")
    keys = {f"aws_{name}": patient.options.pop(name) for name in ("access_key_id", "secret_access_key")}
    patient.options["session"] = boto3.Session(**keys)
    findings = await patient.findings()
    [counted] = about(findings, "concurrent writes")
    assert (counted.level, "cannot go to other processes" in counted.found) == (Level.FAILED, True)
    assert levels(findings, "conditional writes", "latency") == {Level.OK}
    assert await patient.left_behind() == []


async def test_who_may_only_read_is_told_so_and_sees_the_queue(patient_at) -> None:
    async with BrokerQueue(patient_at("seaweedfs").storage) as queue:
        await queue.enqueue("send")
    name = "only-reads"
    findings = await patient_at("seaweedfs", access_key_id=name, secret_access_key=name).findings()
    problems = [finding.found for finding in findings if finding.level is Level.PROBLEM]
    assert ["s3:PutObject" in problems[0], "s3:DeleteObject" in problems[1]] == [True, True]
    assert levels(findings, "conditional writes") == {Level.FAILED}
    assert "1 waiting" in about(findings, "queue")[0].found


@pytest.mark.usefixtures("short")
async def test_probes_that_cannot_be_removed_are_named(behind_proxy: Patient, proxy: FaultProxy) -> None:
    # Azure is asked to delete by a POST.
    is_azure = behind_proxy.url.startswith("az:")
    proxy.fault, proxy.fault_at = Answer(403, "AccessDenied"), "POST" if is_azure else "DELETE"
    findings = await behind_proxy.findings()
    assert any("may not delete objects here" in finding.found for finding in findings)
    [left] = about(findings, "probes")
    named = left.found.removeprefix("could not be removed: ").split(", ")
    there = await behind_proxy.left_behind()
    assert there
    assert set(there) <= set(named)


@pytest.mark.parametrize("fault_at", ["", "PUT", "GET"])
@pytest.mark.parametrize("fault", [Loss.HALF, Loss.RESET, Answer(500, "Internal"), Answer(503, "SlowDown")])
async def test_trouble_on_the_way_is_a_finding(
    behind_proxy: Patient, proxy: FaultProxy, fault: Answer | Loss, fault_at: str
) -> None:
    proxy.fault, proxy.fault_at = fault, fault_at
    findings = await behind_proxy.findings()
    assert exit_code(levels(findings)) == 2, findings
    assert Level.PROBLEM not in levels(findings), "a server that fails is not one that lies"
    proxy.fault = None
    assert await behind_proxy.left_behind() == []


@pytest.mark.usefixtures("short")
async def test_a_bucket_that_keeps_versions_is_told(seaweedfs: Server) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=seaweedfs.endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    with contextlib.closing(client):
        client.create_bucket(Bucket="versioned")
        client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
        # A server may take buckets before it takes objects; this one tries again.
        client.put_object(Bucket="versioned", Key="ready", Body=b"ready")
    findings = await Patient("s3://versioned/queue.json", dict(seaweedfs.options)).findings()
    assert levels(findings, "versions") == {Level.WARNING}, findings
    [versions] = about(findings, "versions")
    assert "lifecycle rule" in versions.advice
    assert exit_code(levels(findings)) == 0
