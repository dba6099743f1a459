"""The pipeline: every finished job once in silver, true figures in gold, whatever happens on the way."""

import json
import math
import os
import re
import shutil
import subprocess
from collections import Counter
from datetime import UTC, date, datetime, timedelta

import pytest
from pyspark.sql import functions as F

from bucketq import ConfigurationError
from bucketq.archive import Archive
from bucketq.pipeline import bronze, gold, run
from bucketq.pipeline.lake import Lake
from bucketq.pipeline.quality import accept
from bucketq.pipeline.replay import replay
from bucketq.pipeline.report.findings import find
from bucketq.pipeline.report.page import page
from bucketq.pipeline.targets import Target, Targets, read_targets
from bucketq.verify import verify
from tests.spark.conftest import FileQueue

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)

# Each run is a few dozen small jobs of Spark.
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("spark lake")]


class Pipeline:
    """A queue with an archive, and a lake over it."""

    def __init__(self, spark, queue, folder):
        self.spark, self.queue, self.folder = spark, queue, folder

    def run(self, out="lake", **options):
        return run.run(self.spark, {"url": self.queue.url}, str(self.folder / out), **options)

    def lake(self, out="lake"):
        return Lake(self.spark, str(self.folder / out))

    def tables(self, out="lake"):
        """Everything in silver and gold, to be compared; but not when it was taken in."""
        lake, found = self.lake(out), {}
        jobs = lake.read("silver").drop("ingested_at")
        found["silver"] = sorted(row.asDict(recursive=True).items() for row in jobs.collect())
        for table in ("activity", "errors", "slowest", "slo", "trends"):
            if table == "trends" or any(
                "day=" in str(path) for path in (self.folder / out / "gold" / table).glob("**/*.parquet")
            ):
                rows = lake.read("gold", table)
                rows = rows.select(*sorted(rows.columns)).collect()
                found[table] = sorted(json.dumps(row.asDict(), default=str) for row in rows)
        return found

    def work(self, entrypoint, count, at, failing=0):
        """Let jobs be enqueued, tried, and finished a minute later; some of them fail once, and then die."""

        async def enqueue(q):
            return list(await q.enqueue_many(entrypoint, range(count), max_attempts=2))

        async def try_all(q):
            for number, job in enumerate(await q.dequeue(entrypoint, batch_size=count, worker="w1")):
                await (q.nack(job, f"ValueError: no {job.json()}") if number < failing else q.ack(job))

        async def give_up(q):
            for job in await q.dequeue(entrypoint, batch_size=count, worker="w2"):
                await q.nack(job, "out of luck")

        ids = self.queue.ask(enqueue, at)
        self.queue.ask(try_all, at + timedelta(seconds=30), archive_jobs_max=10)
        self.queue.ask(give_up, at + timedelta(seconds=90), archive_jobs_max=10)
        # What is left over is sealed with jobs that come after it.
        return ids

    def seal(self):
        """Let everything that is finished go to the archive."""

        async def seal(q):
            [job] = [await q.enqueue("seal")]
            await q.dequeue("seal")
            await q.ack(job.id)

        self.queue.ask(seal, archive_jobs_max=1)
        self.queue.ask(lambda q: q.stats())


def write_jobs(path, jobs):
    """Write an object of the archive anew."""
    path.write_text("[\n" + ",\n".join(json.dumps(job, separators=(",", ":")) for job in jobs) + "\n]\n")


@pytest.fixture
def pipeline(spark, queue, tmp_path):
    return Pipeline(spark, queue, tmp_path)


@pytest.fixture(scope="module")
def finished(spark, tmp_path_factory):
    """A queue whose jobs were finished, and the lake of it; for tests that only look."""
    folder = tmp_path_factory.mktemp("finished")
    pipeline = Pipeline(spark, FileQueue(folder / "queue.json"), folder)
    pipeline.work("send <mail>", 40, NOON, failing=4)
    finish_long_jobs(pipeline.queue)
    finish_delayed_jobs(pipeline.queue)
    pipeline.work("report", 10, NOON + timedelta(hours=26))
    pipeline.seal()
    pipeline.outcome = pipeline.run()
    return pipeline


@pytest.fixture
def taken_over(finished, tmp_path):
    """The same, for a test that goes on: the lake is one of its own."""
    shutil.copytree(finished.folder / "lake", tmp_path / "lake")
    return Pipeline(finished.spark, finished.queue, tmp_path)


def finish_long_jobs(queue):
    """Four jobs of 90 minutes by one worker, over two hours."""

    async def claim(q):
        await q.enqueue_many("long", range(4))
        claimed.extend(await q.dequeue("long", batch_size=4, worker="w"))

    async def finish(q):
        await q.ack_many(claimed)

    claimed = []
    queue.ask(claim, NOON)
    queue.ask(finish, NOON + timedelta(minutes=90), archive_jobs_max=4)


def finish_delayed_jobs(queue):
    """One job that is delayed and then released, one that is cancelled, and one that expires."""

    async def begin(q):
        await q.enqueue("patient", 1, delay=600)
        await q.cancel(await q.enqueue("patient", 2))
        await q.enqueue("patient", 3, expires_in=60)

    async def finish(q):
        [job] = await q.dequeue("patient", batch_size=5)
        await q.release(job)
        [job] = await q.dequeue("patient")
        await q.ack(job)

    queue.ask(begin, NOON)
    queue.ask(finish, NOON + timedelta(seconds=630), archive_jobs_max=1)
    queue.ask(lambda q: q.stats())


def test_silver_has_every_job_once_and_gold_counts_them(finished):
    outcome, lake = finished.outcome, finished.lake()
    assert outcome.is_sound, outcome.checks
    assert {"2026-02-15", "2026-02-16"} <= {*outcome.days}
    jobs = {job.id: job for job in Archive(finished.queue.storage).jobs_sync()}
    rows = {row.id: row for row in lake.read("silver").collect()}
    assert rows.keys() == jobs.keys()
    for job_id, job in jobs.items():
        row = rows[job_id]
        assert (row.entrypoint, row.status, row.attempts_total) == (
            job.entrypoint,
            job.status,
            job.attempts_total,
        )
        assert row.day == job.finished_at.date()
        assert math.isclose(row.total_s, (job.finished_at - job.created_at).total_seconds(), abs_tol=1e-6)
        if job.entrypoint == "patient":
            continue  # A delay is no wait: there is a test for that.
        assert math.isclose(row.wait_s, (job.first_claimed_at - job.created_at).total_seconds(), abs_tol=1e-6)
    activity = lake.read("gold", "activity")
    by_hour = {
        (row.entrypoint, row.start.astimezone(UTC)): row
        for row in activity.where("window = 'hour'").collect()
    }
    mail = by_hour["send <mail>", NOON]
    assert (mail.enqueued, mail.finished, mail.failed, mail.retried) == (40, 40, 4, 4)
    assert (mail.wait_p50_s, mail.wait_p99_s) == (30.0, 30.0)
    assert mail.workers == 2
    total = by_hour[None, NOON]
    assert (total.enqueued, total.finished) == (47, 43)
    for (window,) in activity.select("window").distinct().collect():
        counted = activity.where((F.col("window") == window) & F.col("entrypoint").isNotNull())
        sums = counted.agg(F.sum("enqueued"), F.sum("finished"), F.sum("failed")).first()
        assert tuple(sums) == (58, 58, 4), window
    errors = {row["class"]: row for row in lake.read("gold", "errors").collect()}
    assert {name: row.attempts for name, row in errors.items()} == {"ValueError": 4, "other": 4}
    assert errors["ValueError"].example.startswith("ValueError: no ")
    slo = {(row.entrypoint, row.day): row for row in lake.read("gold", "slo").collect()}
    assert slo["send <mail>", date(2026, 2, 15)].attained == 0.9
    assert not slo["send <mail>", date(2026, 2, 15)].is_met
    assert slo["report", date(2026, 2, 16)].is_met


def test_concurrency_is_the_time_that_attempts_took(finished):
    rows = finished.lake().read("gold", "activity").where("entrypoint = 'long'").collect()
    busy_s = Counter()
    for row in rows:
        busy_s[row.window] += row.concurrency * gold.WINDOWS[row.window]
    assert {window: round(value, 3) for window, value in busy_s.items()} == dict.fromkeys(
        gold.WINDOWS, 4 * 5400.0
    )
    hours = {row.start.astimezone(UTC): row.utilisation for row in rows if row.window == "hour"}
    assert hours == {NOON: 1.0, NOON + timedelta(hours=1): 0.5}, "however many jobs it runs at once"


def test_what_is_late_changes_its_days_only_and_small_ingestions_make_the_same_lake(
    pipeline, queue, monkeypatch
):
    monkeypatch.setattr(gold, "BUSY_DAYS_MAX", 2)
    queue.ask(lambda q: q.enqueue_many("late", range(5)), NOON)
    pipeline.work("mail", 20, NOON, failing=2)
    pipeline.seal()
    pipeline.run()
    check_that_nothing_new_changes_nothing(pipeline, monkeypatch)
    pipeline.work("mail", 10, NOON + timedelta(days=1))
    pipeline.work("mail", 10, NOON - timedelta(hours=3))
    finish_late_jobs(queue)
    pipeline.seal()
    outcome = pipeline.run()
    assert outcome.is_sound, outcome.checks
    assert {"2026-02-15", "2026-02-16", "2026-02-18"} <= {*outcome.days}
    days = pipeline.lake().read("gold", "activity").where("window = 'day'")
    found = {(row.entrypoint, str(row.day)): row for row in days.collect()}
    assert found["late", "2026-02-15"].enqueued == 5
    assert found["late", "2026-02-18"].finished == 5
    assert found["old", "1970-01-01"].enqueued == 1
    assert sorted(day for name, day in found if name == "old") == [
        "1970-01-01",
        *(f"2026-02-{day}" for day in (16, 17, 18)),
    ], "a claim of 1970 costs little"
    assert sum(row.concurrency for (name, _), row in found.items() if name == "old") == pytest.approx(2)
    first = pipeline.lake().read("gold", "trends").agg(F.min("day")).first()[0]
    assert first == date(2026, 2, 15), "no trend begins before something was finished"
    monkeypatch.setattr(bronze, "_INGEST_BYTES", 1)
    pipeline.run(out="from the start")
    assert len(pipeline.lake().names("bronze")) == 2
    assert len(pipeline.lake("from the start").names("bronze")) > 5
    assert pipeline.tables() == pipeline.tables("from the start")


def check_that_nothing_new_changes_nothing(pipeline, monkeypatch):
    files = {path: path.stat().st_mtime_ns for path in (pipeline.folder / "lake").glob("[sg]*/**/*.parquet")}
    assert files
    with monkeypatch.context() as patch:
        patch.setattr(Lake, "read", lambda lake, *parts, **options: pytest.fail(f"{parts} is read"))
        outcome = pipeline.run()
    assert outcome.is_sound, outcome.checks
    assert outcome.days == []
    assert files == {path: path.stat().st_mtime_ns for path in files}


def finish_late_jobs(queue):
    """Five jobs three days after they were enqueued; and two, one of which says it was claimed in 1970."""

    async def finish(q):
        await q.ack_many(await q.dequeue("late", batch_size=5, worker="w"))

    queue.ask(finish, NOON + timedelta(days=3), archive_jobs_max=5)
    queue.finish("old", range(2), batch=2, at=NOON + timedelta(days=3, minutes=1))
    name = [name for name in queue.objects("archive") if "2026-02-18" in name][-1]
    path = queue.path.parent / "queue" / name
    old, _ = jobs = json.loads(path.read_text())
    assert old["entrypoint"] == "old"
    old["created_at"] = old["first_claimed_at"] = old["claimed_at"] = "1970-01-01T00:00:00Z"
    write_jobs(path, jobs)


def test_a_run_that_is_killed_anywhere_is_simply_run_again(pipeline, monkeypatch):
    class KilledError(Exception):
        pass

    def kill_at(step):
        if step == moment:
            raise KilledError

    def kill_before_note(lake, step, note):
        if f"{step} note" == moment:
            raise KilledError
        write_note(lake, step, note)

    write_note = Lake.write_note
    monkeypatch.setattr(Lake, "write_note", kill_before_note)
    for number, moment in enumerate(["silver note", "silver", "gold note", "gold", "quality"]):  # noqa: B007
        pipeline.work("mail", 20, NOON + timedelta(hours=8 * number), failing=number)
        pipeline.seal()
        with pytest.raises(KilledError):
            pipeline.run(on_step=kill_at)
    moment = "none"
    # As if the driver had died when bronze was written, before Spark noted that.
    last = max(int(path.name) for path in (pipeline.folder / "lake/checkpoint/commits").glob("[0-9]*"))
    for name in (f"{last}", f".{last}.crc"):
        (pipeline.folder / "lake/checkpoint/commits" / name).unlink()
    pipeline.work("report", 20, NOON + timedelta(days=1))
    pipeline.seal()
    outcome = pipeline.run()
    assert outcome.is_sound, outcome.checks
    pipeline.run(out="from the start")
    assert pipeline.tables() == pipeline.tables("from the start")


def test_what_cannot_be_read_is_in_quarantine_and_what_is_there_twice_is_once_in_silver(pipeline, queue):
    queue.finish("mail", range(30), batch=10, at=NOON)
    first, second, third = (queue.path.parent / "queue" / name for name in queue.objects("archive"))
    again = json.loads(first.read_text())[0] | {"worker": "the last one"}
    write_jobs(third, [*json.loads(third.read_text()), again])
    lines = first.read_text().split("\n")
    lines[4] = '{"v":1,"id":7},'
    lines[5] = lines[5].replace('"v":1', '"v":1,"error":{}')
    first.write_text("\n".join(lines))
    second.write_text("no archive")
    outcome = pipeline.run()
    found = {one.name: one for one in outcome.checks}
    assert not found["nothing in quarantine"].passed
    assert not found["as many jobs as queue.json counts"].passed, "the jobs of an object are lost"
    assert found["as many jobs as queue.json counts"].examples == [
        "2026-02-15: 20 jobs, and queue.json counts 30"
    ]
    quarantined = {(row.object, row.line): row for row in pipeline.lake().read("quarantine").collect()}
    names = [f"archive/2026-02-15T12/{path.name}" for path in (first, second, third)]
    assert quarantined.keys() == {(names[0], 5), (names[0], 6), (names[1], 1)}
    assert quarantined[names[0], 5].text == '{"v":1,"id":7}'
    assert "no archived job" in quarantined[names[0], 5].reason
    assert quarantined[names[1], 1].reason == "it is no JSON array"
    assert pipeline.lake().read("bronze").count() == 10 + 1 + 11
    rows = {row.id: row for row in pipeline.lake().read("silver").collect()}
    assert len(rows) == pipeline.lake().read("silver").count() == 18
    assert rows[again["id"]].worker == "the last one", "the last one wins"


def test_what_was_accepted_fails_no_later_run_and_anything_new_does(pipeline, queue):
    with pytest.raises(ConfigurationError, match="run the pipeline first"):
        accept(pipeline.lake())
    ids = queue.finish("mail", range(6), batch=2, at=NOON)
    first, second, _ = (queue.path.parent / "queue" / name for name in queue.objects("archive"))
    first.write_text("no archive")
    [doubled, backwards] = json.loads(second.read_text())
    write_jobs(second, [doubled, backwards | {"created_at": "2026-12-31T00:00:00Z"}])
    outcome = pipeline.run()
    assert len(failing(outcome)) == 3
    assert examples(outcome, "no negative times") == [backwards["id"]], "times that run backwards"
    assert all(one.passed for one in accept(pipeline.lake()))
    outcome = pipeline.run()
    assert failing(outcome) == []
    assert "1 records could not be read, all accepted" in [one.found for one in outcome.checks]
    queue.finish("mail", range(2), batch=2, at=NOON + timedelta(days=1))
    path = queue.path.parent / "queue" / queue.objects("archive")[-1]
    path.write_text(path.read_text().replace('"v":1', '"v":1,"error":{}', 1))
    queue.finish("mail", range(2), batch=2, at=NOON + timedelta(days=2))
    path = queue.path.parent / "queue" / queue.objects("archive")[-1]
    write_jobs(path, [job | {"id": ids[5 - place]} for place, job in enumerate(json.loads(path.read_text()))])
    outcome = pipeline.run()
    assert failing(outcome) == ["every job once", "nothing in quarantine"]
    assert set(examples(outcome, "every job once")) == {ids[5], ids[4]}


def failing(outcome):
    return [one.name for one in outcome.checks if one.passed is False]


def examples(outcome, name):
    [found] = (one.examples for one in outcome.checks if one.name == name)
    return found


def test_a_day_of_which_nothing_can_be_read_stops_nothing_and_fields_of_a_newer_bucketq_are_kept(
    pipeline, queue
):
    queue.finish("mail", range(2), batch=2, at=NOON)
    [name] = queue.objects("archive")
    (queue.path.parent / "queue" / name).write_text("no archive")
    assert not pipeline.run().is_sound
    accept(pipeline.lake())
    queue.finish("mail", range(2), batch=2, at=NOON + timedelta(days=1))
    assert pipeline.run().days == ["2026-02-16"]
    assert pipeline.lake().read("gold", "activity").where("window = 'day'").count() == 2
    # A lake from before there was such a column.
    old = pipeline.lake().read("silver").drop("extra").collect()
    frame = pipeline.spark.createDataFrame(old, pipeline.lake().read("silver").drop("extra").schema)
    frame.write.partitionBy("day").mode("overwrite").parquet(str(pipeline.folder / "lake" / "silver"))
    queue.finish("mail", range(2), batch=2, at=NOON + timedelta(days=2))
    path = queue.path.parent / "queue" / queue.objects("archive")[-1]
    path.write_text(path.read_text().replace('"json":', '"tags":["a",{"b":1}],"json":', 1))
    outcome = pipeline.run()
    assert outcome.is_sound, outcome.checks
    extras = [row.extra for row in pipeline.lake().read("silver").collect()]
    assert extras.count(None) == 3
    assert json.loads(next(filter(None, extras))) == {"tags": ["a", {"b": 1}]}


def test_a_lake_is_that_of_one_queue_and_there_must_be_one(pipeline, taken_over, tmp_path):
    with pytest.raises(ConfigurationError, match="there is no queue at"):
        pipeline.run(out="nothing")
    (tmp_path / "other.json").write_bytes(taken_over.queue.path.read_bytes())
    with pytest.raises(ConfigurationError, match="is the lake of"):
        run.run(pipeline.spark, {"url": f"file://{tmp_path}/other.json"}, str(tmp_path / "lake"))


def test_one_at_a_time_works_on_a_lake_and_what_a_dead_process_left_behind_is_taken(taken_over):
    pipeline = taken_over
    lease = pipeline.folder / "lake" / "lease.json"

    def disturb(step):
        if step == "silver":
            for work in (pipeline.run, lambda: accept(pipeline.lake())):
                with pytest.raises(
                    ConfigurationError, match=f"process {os.getpid()} on .* remove .*lease.json"
                ):
                    work()
            holder.update(json.loads(lease.read_text()))

    holder = {}
    pipeline.run(on_step=disturb)
    assert not lease.exists()
    dead = subprocess.Popen(["true"])
    dead.wait()
    for gone in ({"pid": dead.pid}, {"token": "of a process that had this number"}):
        lease.write_text(json.dumps(holder | gone))
        pipeline.run()
        assert not lease.exists()
    lease.write_text(json.dumps(holder | {"host": "elsewhere", "pid": dead.pid}))
    with pytest.raises(ConfigurationError, match=f"process {dead.pid} on elsewhere is at work"):
        replay(pipeline.lake(), "true", {"url": pipeline.queue.url})


def test_cancelled_and_delayed_jobs_are_judged_for_what_they_are(finished):
    lake = finished.lake()
    rows = {row.status: row for row in lake.read("silver").where("entrypoint = 'patient'").collect()}
    assert rows.keys() == {"completed", "cancelled", "expired"}
    assert rows["completed"].wait_s == 30.0, "ten minutes were wanted"
    [slo] = lake.read("gold", "slo").where("entrypoint = 'patient'").collect()
    assert (slo.jobs, slo.attained) == (1, 1.0)
    assert lake.read("gold", "errors").where("entrypoint = 'patient'").count() == 0, (
        "a worker that left has not failed"
    )


def test_targets_are_read_and_new_ones_count(taken_over, tmp_path):
    pipeline = taken_over
    file = tmp_path / "slo.toml"
    file.write_text('[default]\nwait_s = 60\n[entrypoint."send <mail>"]\nsuccess = 0.5\n')
    targets = read_targets(file)
    assert targets == Targets(Target(), {"send <mail>": Target(success=0.5)})
    for wrong in ("default = 3", "[default]\ncolour = 1", "[entrypoint.mail]\nwait_s = 'soon'", "["):
        file.write_text(wrong)
        with pytest.raises(ConfigurationError, match="cannot be read"):
            read_targets(file)
    mail = pipeline.lake().read("gold", "slo").where("entrypoint = 'send <mail>'")
    assert [(row.attained, row.is_met) for row in mail.collect()] == [(0.9, False)]
    run.run(pipeline.spark, {"url": pipeline.queue.url}, str(tmp_path / "lake"), targets)
    mail = pipeline.lake().read("gold", "slo").where("entrypoint = 'send <mail>'")
    assert [(row.attained, row.wanted, row.is_met) for row in mail.collect()] == [(0.9, 0.5, True)]
    pipeline.run()
    assert [row.wanted for row in mail.collect()] == [0.5], "those that were given last still count"


def test_unusual_days_and_weeks_are_marked(pipeline, queue):
    for day in range(4, 15):
        count = 400 if day == 11 else 0 if day == 13 else 2 if day == 14 else 20
        if count:
            queue.finish("mail", range(count), batch=count, at=NOON + timedelta(days=day))
    queue.finish("*", range(3), batch=3, at=NOON + timedelta(days=4))
    pipeline.run()
    trends = {
        row.day.day: row
        for row in pipeline.lake().read("gold", "trends").where("entrypoint = 'mail'").collect()
    }
    assert [day for day, row in sorted(trends.items()) if row.unusual] == [26]
    assert trends[26].unusual == ["finished"]
    assert trends[26].week_over_week == pytest.approx((400 - 20) / 20)
    assert trends[20].week_over_week is None
    assert (trends[28].finished, trends[28].week_over_week) == (0, -1.0), "a day without jobs is one too"
    stars = pipeline.lake().read("gold", "activity").where("entrypoint = '*' AND window = 'day'").collect()
    assert [row.finished for row in stars] == [3], "an entrypoint of this name is not all of them"


def test_the_report_is_one_file_that_tells_what_happened(finished):
    pipeline = finished
    text = page(find(pipeline.lake(), days=7000), refresh_s=5)
    assert not re.search(r"""(src|href)\s*=|@import|url\(""", text), "nothing is loaded from elsewhere"
    assert text.count("<svg") >= 6
    assert "58 jobs were finished; 4 of them failed for good; 4 needed more than one attempt" in text
    assert "send &lt;mail&gt;" in text
    assert "<mail>" not in text
    assert "ValueError" in text
    assert 'content="5"' in text
    with pytest.raises(ConfigurationError, match="run the pipeline first"):
        find(pipeline.lake("nowhere"), days=7)


def test_chosen_jobs_are_replayed_once(taken_over, monkeypatch):
    pipeline, queue = taken_over, taken_over.queue
    target = {"url": queue.url}

    def be_killed(lake, step, note):
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "write_note", be_killed)
        with pytest.raises(RuntimeError, match="killed"):
            replay(pipeline.lake(), "status = 'dead' AND payload_json < '2'", target)
    assert replay(pipeline.lake(), "status = 'dead'", target) == 2, "two were replayed, and are not again"
    assert replay(pipeline.lake(), "status = 'dead'", target) == 0
    assert Counter(job.json() for job in queue.drain()) == {0: 1, 1: 1, 2: 1, 3: 1}
    assert replay(pipeline.lake(), "status = 'dead'", target, again=True) == 4
    assert Counter(job.json() for job in queue.drain()) == {0: 1, 1: 1, 2: 1, 3: 1}
    assert queue.ask(lambda q: verify(queue.storage)).problems == []
    for wrong in ("colour = 'red'", "status ="):
        with pytest.raises(ConfigurationError, match=r"asked of silver: \[[A-Z_.]+\] .*\.$") as told:
            replay(pipeline.lake(), wrong, target)
        assert "\n" not in str(told.value), "no plan of Spark, one sentence"
    with pytest.raises(ConfigurationError, match="is the lake of"):
        replay(pipeline.lake(), "true", {"url": "file:///elsewhere.json"})
