"""`spark.read.format("bucketq")`: the tables, what is read of them, and what is refused."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PySparkException

from bucketq import DirectQueue, Settings, open_storage
from bucketq.archive import Archive

SECRET = "TheSecretThatNobodySees"

# Spark takes its time where the machine is busy.
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("spark tables")]


def read(spark, queue, **options):
    reader = spark.read.format("bucketq").option("url", queue.url)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def ids(frame):
    return sorted(row.id for row in frame.select("id").collect())


def test_live_jobs_are_a_table_wherever_they_wait(spark, queue):
    async def fill(q):
        await q.enqueue_many("mail", ({"n": n} for n in range(25_000)))
        await q.enqueue("png", b"\x89PNG", priority=-1, max_attempts=1)
        [job] = await q.dequeue("png")
        await q.nack(job, "no")
        return await q.dequeue("mail", batch_size=2, worker="w1")

    queue.ask(fill)
    assert len(queue.objects("backlog")) == 3
    jobs = read(spark, queue, table="jobs")
    assert jobs.rdd.getNumPartitions() == 4, "queue.json, and each segment"
    counted = {
        (row.entrypoint, row.status): row["count"]
        for row in jobs.groupBy("entrypoint", "status").count().collect()
    }
    assert counted == {("mail", "queued"): 24_998, ("mail", "in_progress"): 2, ("png", "dead"): 1}
    assert jobs.selectExpr("sum(get_json_object(payload_json, '$.n'))").first()[0] == 24_999 * 25_000 / 2
    [dead] = read(spark, queue, table="jobs", status="dead").collect()
    assert (dead.payload, dead.payload_json, dead.error, dead.attempts_total) == (b"\x89PNG", None, "no", 1)
    assert [(one.outcome, one.error) for one in dead.attempts] == [("failed", "no")]
    assert isinstance(dead.created_at, datetime)
    held = read(spark, queue, table="jobs", entrypoint="mail", status="in_progress")
    assert {row.worker for row in held.collect()} == {"w1"}


def test_the_archive_is_a_table_with_each_job_once(spark, queue):
    first = queue.finish("mail", range(2500), batch=500)
    second = queue.finish("report", range(30), batch=500)
    frame = read(spark, queue)
    rows = frame.collect()
    assert sorted(row.id for row in rows) == sorted(first + second)
    assert len(queue.objects("archive")) == 5, "and the last ones are still in queue.json"
    archive = {job.id: job for job in Archive(queue.storage).jobs_sync()}
    for row in rows[:10] + rows[-10:]:
        job = archive[row.id]
        assert row.finished_at.replace(tzinfo=UTC) == job.finished_at
        assert (row.payload, row.payload_json, row.worker) == (job.payload, job.payload.decode(), job.worker)
        assert [one.outcome for one in row.attempts] == ["completed"]
    assert ids(read(spark, queue, entrypoint="report")) == sorted(second)
    assert read(spark, queue, status="dead").count() == 0


def test_options_prune_what_is_read(spark, queue):
    early = queue.finish("mail", range(4), batch=4, at=datetime(2026, 2, 14, 9, 30, tzinfo=UTC))
    late = queue.finish("mail", range(4), batch=4, at=datetime(2026, 2, 15, 10, 30, tzinfo=UTC))
    assert ids(read(spark, queue)) == sorted(early + late)
    assert ids(read(spark, queue, since="2026-02-15")) == sorted(late)
    assert ids(read(spark, queue, until="2026-02-15T00:00:00Z")) == sorted(early)
    assert ids(read(spark, queue, since="2026-02-15T11:30:00+01:00")) == sorted(late)
    assert ids(read(spark, queue, since="2026-02-15T10:31")) == []
    [name, _] = queue.objects("archive")
    damaged = queue.path.parent / "queue" / name
    damaged.write_text("damaged")
    assert ids(read(spark, queue, since="2026-02-15T10")) == sorted(late), "what is damaged is not read"
    with pytest.raises(PySparkException, match=f"{name}, line 1: it is no JSON array"):
        read(spark, queue).collect()
    damaged.write_text('[\n{"v":1,"id":"a"},\n{"v":1}\n]\n')
    with pytest.raises(PySparkException, match=f"{name}, line 2: no archived job"):
        read(spark, queue).collect()


def test_a_narrower_schema_is_honoured_and_a_wrong_one_refused(spark, queue):
    queue.finish("mail", range(3))
    reader = spark.read.format("bucketq").option("url", queue.url)
    frame = reader.schema("finished_at timestamp, id string").load()
    assert frame.columns == ["finished_at", "id"]
    assert len(frame.collect()) == 3
    with pytest.raises(
        PySparkException, match="the table archive has no column 'colour'; it has id, entrypoint"
    ):
        reader.schema("colour string").load().collect()
    with pytest.raises(PySparkException, match="the column id of the table archive is string, not bigint"):
        reader.schema("id long").load().collect()
    with pytest.raises(PySparkException, match="no column is NOT NULL"):
        reader.schema("id string NOT NULL").load().collect()


def test_sql_works_too(spark, queue):
    queue.finish("mail", range(7))
    options = f"url '{queue.url}', entrypoint 'mail'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW finished USING bucketq OPTIONS ({options})")
    assert spark.sql("SELECT count(*) AS n, max(status) AS s FROM finished").first().asDict() == {
        "n": 7,
        "s": "completed",
    }


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "no queue is named"),
        ({"url": "ftp://x/queue.json"}, "no storage has the scheme 'ftp'"),
        ({"url": "memory://x"}, "share no memory:// queue"),
        ({"url": "grpc://x:1"}, "give the URL of its storage"),
        ({"table": "job"}, "there is no table 'job'; there are jobs, archive, lines"),
        ({"status": "done"}, "one of completed, dead, cancelled, expired, not 'done'"),
        ({"table": "jobs", "status": "completed"}, "in_progress, dead, not 'completed'"),
        ({"since": "yesterday"}, "since is a time such as"),
        ({"account_key": SECRET}, r"Spark would show the value of account_key.*secret\.account_key"),
        ({"colour": "red"}, "have no option 'colour'.*Options of bucketq's own are url, table"),
        ({"startingVersion": "3"}, "Did you mean starting_version?"),
        ({"table": "jobs", "since": "2026-02-15"}, "the table jobs has no option since"),
        ({"max_objects_per_trigger": "1"}, "the table archive has no option max_objects_per_trigger"),
        ({"load_id": "x"}, "the table archive has no option load_id"),
        ({"session": "x"}, "session is no text"),
        ({"path": "file:///elsewhere.json"}, "not by both"),
        ({"url": "s3a://b/queue.json"}, "here S3 is s3://"),
    ],
)
def test_bad_options_are_refused_by_the_driver(spark, queue, options, reason):
    queue.finish("mail", range(1))
    if options and "url" not in options:
        options = {"url": queue.url, **options}
    with pytest.raises(PySparkException, match=f"(?s){reason}") as error:
        spark.read.format("bucketq").options(**options).load().collect()
    assert SECRET not in str(error.value)


def test_a_queue_that_is_not_there_is_an_error_and_so_is_a_corrupt_one(spark, queue):
    for table in ("jobs", "archive"):
        with pytest.raises(PySparkException, match=f"there is no queue at {queue.url}"):
            read(spark, queue, table=table).collect()
    queue.path.write_text("{")
    for table in ("jobs", "archive"):
        with pytest.raises(PySparkException, match="is not a readable queue"):
            read(spark, queue, table=table).collect()


def test_a_segment_that_was_used_up_is_an_error_not_a_gap(spark, queue):
    async def fill(q):
        await q.enqueue_many("mail", range(25_000))

    queue.ask(fill)
    frame = read(spark, queue, table="jobs")
    assert frame.count() == 25_000
    [first, *_] = queue.objects("backlog")
    (queue.path.parent / "queue" / first).rename(queue.path.parent / "elsewhere")
    with pytest.raises(PySparkException, match=f"{first}, with .* is not there any more.*load the table"):
        frame.collect()


def test_a_bucket_is_read_by_executors_and_its_secrets_are_never_shown(spark, seaweedfs, tmp_path, capfd):
    url = "s3://test/spark-source/queue.json"
    options = dict(seaweedfs.options, endpoint_url=seaweedfs.endpoint_url)

    async def fill():
        q = DirectQueue(open_storage(url, **options), Settings(archive_jobs_max=500))
        await q.enqueue_many("mail", range(15_000))
        for _ in range(3):
            await q.ack_many(await q.dequeue(batch_size=500))

    asyncio.run(fill())
    given = {f"secret.{name}": value for name, value in options.items() if isinstance(value, str)}

    def frame(table, **others):
        return spark.read.format("bucketq").options(url=url, table=table, **given, **others).load()

    assert frame("archive").count() == 1500
    assert frame("jobs").count() == 13_500
    assert frame("archive", since=(datetime.now(UTC) + timedelta(days=1)).isoformat()).count() == 0
    given["secret.secret_access_key"] = given["secret.access_key_id"] = SECRET
    wrong = frame("archive")
    with pytest.raises(PySparkException) as error:
        wrong.collect()
    assert "test/spark-source/queue.json" in str(error.value)
    wrong.explain(extended=True)
    wrong.createOrReplaceTempView("wrong")
    spark.sql("EXPLAIN FORMATTED SELECT * FROM wrong").show(truncate=False)
    stream = spark.readStream.format("bucketq").options(url=url, **given).load()
    stream.explain(extended=True)
    with pytest.raises(PySparkException) as plan:
        stream.select("no_such_column")
    assert "StreamingRelation" in str(plan.value), "which shows the options"
    out, err = capfd.readouterr()
    shown = f"{error.value}{plan.value}{out}{err}{wrong}{wrong._jdf.queryExecution()}"
    assert "bucketq" in out
    assert SECRET not in shown
