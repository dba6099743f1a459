"""`bucketq export` and `import`: what is in the file, what comes of it, and what happens in between."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

import bucketq.sync
from bucketq import BrokerQueue, DirectQueue, InMemoryStorage, LocalFileSystemStorage, Settings
from bucketq.codec import decode
from bucketq.codec.osqueue import decode_osqueue
from bucketq.transfer import export, intake, take_in
from bucketq.verify import verify
from tests.cli.typed import queue_url, typed

GOLDEN = Path(__file__).parents[1] / "unit/golden"
# What is each queue's own: the place in line, and the turn.
OWN = ("sequence", "turn")
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def run(capsys):
    return lambda *arguments: typed(capsys, *arguments)


@pytest.fixture
def source(tmp_path):
    with bucketq.sync.connect(f"file://{tmp_path}/source.json") as q:
        yield q


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "backup.jsonl")


@pytest.fixture(params=["file", "grpc"])
def target_url(request, tmp_path):
    folder = tmp_path / "target"
    folder.mkdir()
    with queue_url(request.param, folder) as url:
        yield url


def fields_of(job):
    return {name: getattr(job, name) for name in job.__struct_fields__ if name not in OWN}


def live(q):
    return {job.id: fields_of(job) for job in q.jobs()}


def fill(q):
    """A queue with one of everything."""
    q.enqueue("mail", {"to": "ada"}, 5)
    q.enqueue("mail", b"\xff\x00 no text", tenant="a", limit_key="k", timeout=30, max_attempts=7)
    q.enqueue("mail", {"large": "x" * 200_000})
    q.enqueue("mail", delay=3600, key="once", key_for=60)
    q.enqueue("mail", expires_in=7200, traceparent=TRACEPARENT, tracestate="vendor=abc")
    q.enqueue("dies", {"n": 1}, max_attempts=1)
    q.nack(q.dequeue("dies")[0], error="no such mailbox")
    q.enqueue("fails")
    q.nack(q.dequeue("fails")[0], error="not yet", retry_in=600)
    parent = q.enqueue("mail", {"parent": 1}, 9)
    child = q.enqueue("mail", {"child": 1}, 8, after=[parent])
    q.enqueue("mail", {"grandchild": 1}, 0, after=[child])
    q.enqueue_batch("resize", [1, 2, 3], then=("publish", {"album": "y" * 100_000}))
    q.ack(q.dequeue("resize")[0])
    q.schedule("report", "mail", {"to": "bob"}, cron="30 9 * * *", tz="Europe/Vienna", missed="all")
    q.limit("resize", max_running=2)
    q.limit(limit_key="k*", rate=3)
    q.pause("fax")


def test_a_queue_goes_through_a_file_and_is_what_it_was(source, file, target_url, run):
    fill(source)
    assert run("export", file, "--url", f"file://{Path(file).parent}/source.json").code == 0
    told = run("import", file, "--url", target_url)
    assert (told.code, told.err) == (0, "")
    with bucketq.sync.connect(target_url) as target:
        stands = target.read_state()
        stood = source.read_state()
        payloads = {job.payload_object for q in (source, target) for job in q.jobs()} - {None}
        there, here = live(target), live(source)
        for jobs in (there, here):
            for job in jobs.values():
                # The payload's object is each queue's own.
                job["payload_object"] = job["payload_object"] is not None
        assert there == here
        assert len(payloads) == 2
        large = next(job for job in target.jobs() if job.payload_object)
        assert json.loads(target.fetch_payload(large)) == {"large": "x" * 200_000}
        assert stands.stats._replace(enqueued_total=0, completed_total=0) == stood.stats._replace(
            enqueued_total=0, completed_total=0
        )
        assert target.limits() == source.limits()
        [schedule], [scheduled] = target.schedules(), source.schedules()
        assert (schedule.cron, schedule.tz, schedule.missed) == (
            scheduled.cron,
            scheduled.tz,
            scheduled.missed,
        )
        assert schedule.job.payload == scheduled.job.payload
        assert schedule.next_at == scheduled.next_at
        assert {name: batch.counts for name, batch in stands.batches} == {
            name: batch.counts for name, batch in stood.batches
        }
    sound = run("verify", target_url, "--json").json
    assert sound["isSound"], sound


def test_the_file_is_for_people_and_says_what_it_is(source, file, run):
    fill(source)
    run("export", file, "--url", f"file://{Path(file).parent}/source.json")
    first, *lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    assert first["bucketq_export"] == 1
    assert first["jobs"] == 12
    kinds = [next(iter(line)) for line in lines]
    assert kinds == ["limits", "schedule", "batch", *["job"] * 12, "end"]
    assert {"to": "ada"} in [line["job"].get("json") for line in lines if "job" in line]
    assert lines[-1]["end"]["jobs"] == 12


def test_jobs_are_served_in_the_order_in_which_they_would_have_been(source, file, tmp_path, run):
    for number in range(60):
        source.enqueue("mail", number, priority=number % 3)
    running = source.dequeue("mail", batch_size=2)
    run("export", file, "--url", f"file://{tmp_path}/source.json")
    run("import", file, "--url", f"file://{tmp_path}/target.json")
    with bucketq.sync.connect(f"file://{tmp_path}/target.json") as target:
        served = [job.json() for job in target.dequeue("mail", batch_size=60)]
    assert served[:2] == [job.json() for job in running]
    assert served[2:] == [job.json() for job in source.dequeue("mail", batch_size=60)]


def test_a_job_that_runs_is_moved_as_one_that_waits_and_costs_it_nothing(source, file, tmp_path, run):
    source.enqueue("mail", {"to": "ada"})
    source.nack(source.dequeue("mail")[0], error="first")
    [claimed] = source.dequeue("mail", worker="web-3")
    source.heartbeat(claimed, progress=0.5, note="half")
    run("export", file, "--url", f"file://{tmp_path}/source.json")
    run("import", file, "--url", f"file://{tmp_path}/target.json")
    with bucketq.sync.connect(f"file://{tmp_path}/target.json") as target:
        [job] = target.jobs()
    assert (job.status, job.attempts, job.token, job.worker, job.progress) == ("queued", 1, None, None, None)
    assert [attempt.error for attempt in job.history] == ["first"]


def test_what_follows_a_batch_comes_when_the_rest_of_it_is_done(source, file, tmp_path, run):
    batch = source.enqueue_batch("resize", [1, 2, 3], then=("publish", {"album": 7}))
    source.ack(source.dequeue("resize")[0])
    run("export", file, "--url", f"file://{tmp_path}/source.json")
    run("import", file, "--url", f"file://{tmp_path}/target.json")
    with bucketq.sync.connect(f"file://{tmp_path}/target.json") as target:
        assert target.batch(batch.id) == (3, 2, 0)
        target.ack(target.dequeue("resize")[0])
        assert target.dequeue("publish") == []
        target.ack(target.dequeue("resize")[0])
        [follower] = target.dequeue("publish")
        assert (follower.id, follower.json()) == (batch.id, {"album": 7})


def test_those_that_wait_for_others_still_do(source, file, tmp_path, run):
    done = source.enqueue("first")
    parent = source.enqueue("mail", {"parent": 1}, 9)
    source.enqueue("mail", {"child": 1}, 0, after=[parent, done])
    source.ack(source.dequeue("first")[0])
    run("export", file, "--url", f"file://{tmp_path}/source.json")
    run("import", file, "--url", f"file://{tmp_path}/target.json")
    with bucketq.sync.connect(f"file://{tmp_path}/target.json") as target:
        for expected in ({"parent": 1}, {"child": 1}):
            [job] = target.dequeue("mail", batch_size=9)
            assert job.json() == expected
            target.ack(job)


def test_the_same_file_adds_nothing_twice_even_when_its_jobs_are_finished(source, file, target_url, run):
    fill(source)
    run("export", file, "--url", f"file://{Path(file).parent}/source.json")
    first = run("import", file, "--url", target_url, "--json").json
    assert first == {"added": 12, "before": 0, "present": 0, "refused": 0, "finished": 0}
    with bucketq.sync.connect(target_url) as target:
        target.ack(target.dequeue("mail")[0])
        target.unschedule("report")
        target.discard(next(iter(target.dead())))
        stood = target.stats()
        again = run("import", file, "--url", target_url, "--json").json
        assert again == {"added": 0, "before": 12, "present": 0, "refused": 0, "finished": 0}
        assert target.stats() == stood
        assert target.schedules() == []


async def test_two_imports_at_once_add_each_job_once(tmp_path, target_url, monkeypatch):
    monkeypatch.setattr(intake, "_PART_LINES", 10)
    files = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
    source = BrokerQueue(InMemoryStorage())
    async with source:
        for file in files:
            await source.enqueue_many("mail", range(100))
            file.write_bytes(b"".join([line async for line in export(source)]))
    async with bucketq.connect(target_url) as one, bucketq.connect(target_url) as other:
        told = await asyncio.gather(take_in(one, files[0]), take_in(other, files[1]))
        assert sum(each.added for each in told) == 200
        assert sum(each.present for each in told) == 100
        assert (await one.stats()).enqueued_total == 200
        assert len({job.id async for job in one.jobs()}) == 200


def test_what_is_in_the_queue_stays_as_it_is(source, file, tmp_path, run):
    url = f"file://{tmp_path}/source.json"
    source.enqueue("mail", {"to": "ada"})
    source.enqueue("mail", {"to": "bob"})
    source.limit("mail", max_running=1)
    run("export", file, "--url", url)
    [claimed] = source.dequeue("mail")
    source.limit("mail", max_running=7)
    source.enqueue("mail", {"to": "eve"})
    told = run("import", file, "--url", url)
    assert told.out == "0 jobs imported\n2 are in the queue or its archive already\n"
    assert source.stats().enqueued_total == 3
    source.heartbeat(claimed)
    assert source.limits().entrypoints["mail"].max_running == 7


def test_a_job_whose_key_is_taken_is_left_out_and_told(source, file, tmp_path, run):
    source.enqueue("mail", key="one")
    run("export", file, "--url", f"file://{tmp_path}/source.json")
    url = f"file://{tmp_path}/target.json"
    with bucketq.sync.connect(url) as target:
        other = target.enqueue("mail", key="one")
        assert "1 are left out: another job has their unique key" in run("import", file, "--url", url).out
        assert list(live(target)) == [other.id]


@pytest.mark.parametrize("damage", ["cut", "line", "count", "more"])
def test_a_file_that_is_not_whole_changes_nothing(source, file, tmp_path, run, damage):
    for number in range(30):
        source.enqueue("mail", number)
    run("export", file, "--url", f"file://{tmp_path}/source.json")
    lines = Path(file).read_bytes().splitlines(keepends=True)
    if damage == "cut":
        lines = lines[:-5]
    elif damage == "line":
        lines[20] = lines[20][:30] + b"\n"
    elif damage == "count":
        del lines[20]
    else:
        lines.append(lines[20])
    Path(file).write_bytes(b"".join(lines))
    told = run("import", file, "--url", f"file://{tmp_path}/target.json")
    assert (told.code, told.out) == (2, "")
    assert ("line 21" in told.err) is (damage == "line")
    assert not (tmp_path / "target.json").exists()


def test_times_of_other_zones_are_taken_in_as_utc_and_none_beyond_all_years(source, file, tmp_path, run):
    source.enqueue("mail", run_at=datetime(2099, 1, 1, tzinfo=UTC))
    run("export", file, "--url", f"file://{tmp_path}/source.json")
    exported = Path(file).read_text()
    Path(file).write_text(exported.replace("2099-01-01T00:00:00Z", "2099-01-01T05:45:00+05:45"))
    url = f"file://{tmp_path}/target.json"
    assert run("import", file, "--url", url).code == 0
    with bucketq.sync.connect(url) as target:
        [job] = target.jobs()
        assert (job.run_at, job.run_at.tzinfo) == (datetime(2099, 1, 1, tzinfo=UTC), UTC)
    Path(file).write_text(exported.replace("2099-01-01T00:00:00Z", "9999-12-31T23:59:59-05:45"))
    refused = run("import", file, "--url", url)
    assert refused.code == 2
    assert "line 2" in refused.err
    assert "run_at is beyond the years" in refused.err


@pytest.mark.parametrize("what", ["job", "schedule", "limits", "batch"])
def test_a_file_with_the_name_of_an_entrypoint_that_is_too_long_changes_nothing(
    source, file, tmp_path, run, what
):
    if what == "job":
        source.enqueue("mail")
    elif what == "schedule":
        source.schedule("report", "mail", every=60)
    elif what == "limits":
        source.pause("mail")
    else:
        source.enqueue_batch("resize", [1], then=("mail", b""))
    run("export", file, "--url", f"file://{tmp_path}/source.json")
    Path(file).write_text(Path(file).read_text().replace('"mail"', f'"{"m" * 251}"'))
    told = run("import", file, "--url", f"file://{tmp_path}/target.json")
    assert (told.code, told.out) == (2, "")
    assert "an entrypoint is a text of 1 to 250 characters, not 251" in told.err
    assert ", line " in told.err
    assert "Nothing was changed." in told.err
    assert not (tmp_path / "target.json").exists()


def test_an_export_of_a_newer_bucketq_and_a_file_that_is_none_are_told(tmp_path, run):
    newer, none = tmp_path / "newer.jsonl", tmp_path / "none.txt"
    newer.write_text('{"bucketq_export":99}\n')
    none.write_text("hello\n")
    url = f"file://{tmp_path}/target.json"
    assert "Upgrade bucketq" in run("import", str(newer), "--url", url).err
    assert "not a readable queue" in run("import", str(none), "--url", url).err
    missing = run("import", str(tmp_path / "missing"), "--url", url)
    assert (missing.code, missing.err.count("\n")) == (2, 1)
    assert not (tmp_path / "target.json").exists()


def test_a_file_of_jqueue_is_imported_and_left_as_it_is(tmp_path, target_url, run):
    path = tmp_path / "jqueue.json"
    shutil.copy(GOLDEN / "jqueue-1.0.0.json", path)
    before = path.read_bytes()
    count = len(decode(before).jobs)
    assert run("import", str(path), "--url", target_url, "--json").json["added"] == count
    assert run("import", str(path), "--url", target_url, "--json").json["before"] == count
    assert path.read_bytes() == before
    with bucketq.sync.connect(target_url) as target:
        assert {job.id for job in target.jobs()} == {job.id for job in decode(before).jobs}
        assert {job.status for job in target.jobs()} <= {"queued", "dead"}


@pytest.mark.parametrize("name", ["osqueue-typescript.json", "osqueue-go.json"])
def test_a_file_of_osqueue_is_imported_once_and_left_as_it_is(name, tmp_path, target_url, run):
    path = tmp_path / "queue.json"
    shutil.copy(GOLDEN / name, path)
    before = path.read_bytes()
    assert run("import", str(path), "--url", target_url, "--json").json["added"] == 2
    assert run("import", str(path), "--url", target_url, "--json").json["before"] == 2
    assert path.read_bytes() == before
    with bucketq.sync.connect(target_url) as target:
        found = {job.id: (job.payload, job.status.value) for job in target.jobs()}
        jobs = decode_osqueue(before, name).jobs
        assert found == {job.id: (job.payload, "queued") for job in jobs}


async def test_a_queue_file_with_segments_is_imported_whole(tmp_path):
    old = DirectQueue(LocalFileSystemStorage(tmp_path / "old.json"), Settings(hot_jobs_max=100))
    ids = await old.enqueue_many("mail", range(5000))
    assert (await old.read_file()).backlog
    new = DirectQueue(InMemoryStorage())
    assert (await take_in(new, tmp_path / "old.json")).added == 5000
    assert [job.id async for job in new.jobs()] == list(ids)
    assert (await verify(new.storage)).is_sound


def test_export_and_import_are_joined_by_a_pipe(source, tmp_path):
    ids = set(source.enqueue_many("mail", range(3000)))
    bucketq_command = [sys.executable, "-m", "bucketq"]
    taking_out = subprocess.Popen(
        [*bucketq_command, "export", "--url", f"file://{tmp_path}/source.json"], stdout=subprocess.PIPE
    )
    taking_in = subprocess.run(
        [*bucketq_command, "import", "-", "--url", f"file://{tmp_path}/target.json"],
        stdin=taking_out.stdout,
        capture_output=True,
        text=True,
    )
    taking_out.stdout.close()
    assert (taking_out.wait(), taking_in.returncode) == (0, 0)
    assert (taking_in.stdout, taking_in.stderr) == ("3000 jobs imported\n", "")
    with bucketq.sync.connect(f"file://{tmp_path}/target.json") as target:
        assert {job.id for job in target.jobs()} == ids


def test_an_import_that_is_killed_is_run_again_and_every_job_is_there_once(source, file, tmp_path, run):
    ids = set(source.enqueue_many("mail", range(20_000)))
    run("export", file, "--url", f"file://{tmp_path}/source.json")
    url = f"file://{tmp_path}/target.json"
    for _ in range(2):
        importing = subprocess.Popen([sys.executable, "-m", "bucketq", "import", file, "--url", url])
        with bucketq.sync.connect(url) as target:
            begun = target.stats().enqueued_total
            while target.stats().enqueued_total <= begun:
                assert importing.poll() is None, "it was not there when something landed"
                time.sleep(0.002)
        os.kill(importing.pid, signal.SIGKILL)
        importing.wait()
    with bucketq.sync.connect(url) as target:
        interrupted = target.stats().enqueued_total
        assert 0 < interrupted < 20_000
        # Some are done before it goes on.
        target.ack_many(target.dequeue("mail", batch_size=100))
    told = run("import", file, "--url", url, "--json").json
    assert (told["added"], told["before"]) == (20_000 - interrupted, interrupted)
    with bucketq.sync.connect(url) as target:
        assert target.stats().enqueued_total == 20_000
        assert len(ids - {job.id for job in target.jobs()}) == 100
    assert run("verify", url).code == 0


async def test_an_export_beside_busy_workers_misses_no_job_that_was_there_all_the_time(tmp_path):
    storage = InMemoryStorage()
    settings = Settings(hot_jobs_max=50, segment_jobs_max=100)
    q, worker = DirectQueue(storage, settings), DirectQueue(storage, settings)
    ids = list(await q.enqueue_many("mail", range(2000)))
    taken, read = [], q.read_segment

    async def read_late(segment):
        # Whenever a segment is about to be read, a worker is faster.
        if len(taken) < 900:
            for job in await worker.dequeue("mail", batch_size=150):
                taken.append(job.id)
                if len(taken) % 2:
                    await worker.ack(job)
        return await read(segment)

    q.read_segment = read_late
    lines = [json.loads(line) async for line in export(q)]
    told = [line["job"]["id"] for line in lines if "job" in line]
    assert len(told) == len(set(told))
    finished = set(taken[::2])
    assert set(ids) - finished <= set(told)


async def test_an_export_misses_no_job_that_moves_to_a_segment_before_the_place_it_has_come_to():
    storage, settings = InMemoryStorage(), Settings(hot_jobs_max=50, segment_jobs_max=100)
    q, worker = DirectQueue(storage, settings), DirectQueue(storage, settings)
    parent = await q.enqueue("first")
    [held] = await q.dequeue("first")
    blocked = [await q.enqueue("other", after=[parent]) for _ in range(30)]
    await q.enqueue_many("mail", range(1000))
    blocked += [await q.enqueue("other", after=[parent]) for _ in range(60)]
    reads, read = 0, q.read_segment

    async def read_late(segment):
        nonlocal reads
        reads += 1
        if reads == 3:
            # They come into line, have to make room, and a segment that is to be read is used up.
            await worker.ack(held)
            await worker.enqueue_many("urgent", range(300), priority=-5)
            await worker.dequeue("mail", batch_size=400)
        return await read(segment)

    q.read_segment = read_late
    told = {json.loads(line).get("job", {}).get("id") async for line in export(q)}
    assert {job.id for job in blocked} <= told


async def test_a_job_that_is_finished_with_its_payload_while_an_export_is_written_is_left_out():
    async with BrokerQueue(InMemoryStorage()) as q:
        for number in range(3):
            await q.enqueue("mail", {"large": "x" * 100_000, "number": number})
        lines = export(q)
        told = [await anext(lines), await anext(lines)]
        for job in await q.dequeue("mail", batch_size=2):
            await q.ack(job)
        while [info async for info in q.storage.objects.list("payloads/")][1:]:
            await asyncio.sleep(0.01)
        told += [line async for line in lines]
    assert [json.loads(line)["job"]["json"]["number"] for line in told[1:-1]] == [0, 2]
    assert json.loads(told[-1]) == {"end": {"jobs": 2, "finished": 0}}


def test_finished_jobs_are_exported_to_be_read(source, file, tmp_path, run):
    source.enqueue("mail", {"to": "ada"})
    source.ack(source.dequeue("mail")[0], {"sent": True})
    source.enqueue("mail")
    told = run("export", file, "--archive", "--url", f"file://{tmp_path}/source.json")
    assert told.out == f"1 job and 1 finished ones in {file}\n"
    lines = map(json.loads, Path(file).read_text().splitlines())
    [ended] = [line["finished"] for line in lines if "finished" in line]
    assert (ended["status"], ended["payload"], ended["result"]) == (
        "completed",
        {"to": "ada"},
        {"sent": True},
    )
    told = run("import", file, "--url", f"file://{tmp_path}/target.json")
    assert told.out == "1 job imported\n1 are finished, and left out\n"


def test_a_file_that_cannot_be_written_leaves_what_was_there(source, tmp_path, run):
    url = f"file://{tmp_path}/source.json"
    source.enqueue("mail")
    told = run("export", str(tmp_path / "no/such/folder"), "--url", url)
    assert (told.code, told.out) == (2, "")
    kept = tmp_path / "kept.jsonl"
    kept.write_text("as it was")
    damaged = (tmp_path / "source.json").read_bytes()[:-9]
    (tmp_path / "source.json").write_bytes(damaged)
    assert run("export", str(kept), "--url", url).code == 2
    assert kept.read_text() == "as it was"
    assert not list(tmp_path.glob("*.part"))


def test_a_file_that_is_replaced_is_read_by_nobody_else_than_before(source, tmp_path, run):
    source.enqueue("mail")
    kept, of_another = tmp_path / "kept.jsonl", tmp_path / "kept.jsonl.part"
    kept.touch(mode=0o600)
    of_another.write_text("another export, under way")
    assert run("export", str(kept), "--url", f"file://{tmp_path}/source.json").code == 0
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.read_text()
    assert sorted(tmp_path.glob("*.part")) == [of_another]


def test_what_is_no_file_is_written_to_and_stays_what_it_is(source, tmp_path, run):
    source.enqueue("mail")
    pipe, link, file = tmp_path / "pipe", tmp_path / "link", tmp_path / "file"
    os.mkfifo(pipe)
    file.write_text("before")
    link.symlink_to(file)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert run("export", str(pipe), "--url", f"file://{tmp_path}/source.json").code == 0
        assert b'"entrypoint":"mail"' in reader.communicate(timeout=20)[0]
    assert pipe.is_fifo()
    assert run("export", str(link), "--url", f"file://{tmp_path}/source.json").code == 0
    assert link.is_symlink()
    assert '"entrypoint":"mail"' in file.read_text()


def test_standard_output_has_another_name(source, tmp_path):
    source.enqueue("mail")
    command = [sys.executable, "-m", "bucketq", "export", "/dev/stdout"]
    url = f"file://{tmp_path}/source.json"
    ended = subprocess.run([*command, "--url", url], stdout=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 0
    assert '"entrypoint":"mail"' in ended.stdout


def without(file, *ids):
    """Take the lines of jobs out of an export, as if they had ended while it was written."""
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    kept = [line for line in lines if line.get("job", {}).get("id") not in ids]
    kept[-1]["end"]["jobs"] -= len(ids)
    Path(file).write_text("".join(json.dumps(line) + "\n" for line in kept))


def test_what_ended_while_an_export_was_written_is_not_waited_for(source, file, tmp_path, run):
    parent = source.enqueue("mail", {"parent": 1})
    source.enqueue("mail", {"child": 1}, after=[parent])
    batch = source.enqueue_batch("resize", [1, 2], then=("publish", {"album": 7}))
    run("export", file, "--url", f"file://{tmp_path}/source.json")
    without(file, parent.id, batch.job_ids[0])
    run("import", file, "--url", f"file://{tmp_path}/target.json")
    with bucketq.sync.connect(f"file://{tmp_path}/target.json") as target:
        assert [job.json() for job in target.dequeue("mail", batch_size=9)] == [{"child": 1}]
        target.ack(target.dequeue("resize")[0])
        assert [job.id for job in target.dequeue("publish")] == [batch.id]


def test_what_followed_a_batch_while_an_export_was_written_comes_once(source, file, tmp_path, run):
    batch = source.enqueue_batch("resize", [1], then=("publish", {"album": 7}))
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    run("export", str(before), "--url", f"file://{tmp_path}/source.json")
    source.ack(source.dequeue("resize")[0])
    run("export", str(after), "--url", f"file://{tmp_path}/source.json")
    first, as_it_was, *_ = before.read_text().splitlines()
    _, _, follower, end = after.read_text().splitlines()
    Path(file).write_text("\n".join([first, as_it_was, follower, end]) + "\n")
    told = run("import", file, "--json", "--url", f"file://{tmp_path}/target.json").json
    assert (told["added"], told["refused"]) == (1, 0)
    with bucketq.sync.connect(f"file://{tmp_path}/target.json") as target:
        assert [job.id for job in target.dequeue("publish", batch_size=9)] == [batch.id]
        assert target.batch(batch.id) == (1, 0, 0)


def test_what_was_left_out_is_not_waited_for(source, file, target_url, run):
    parent = source.enqueue("mail", {"parent": 1}, key="one")
    child = source.enqueue("mail", {"child": 1}, after=[parent])
    run("export", file, "--url", f"file://{Path(file).parent}/source.json")
    with bucketq.sync.connect(target_url) as target:
        target.enqueue("sms", key="one")
        told = run("import", file, "--url", target_url, "--json").json
        assert (told["added"], told["refused"]) == (1, 1)
        assert [job.id for job in target.dequeue("mail", batch_size=9)] == [child.id]
