"""A table becomes jobs, Spark's executors run them, and what comes of it is a table again.

    orders.parquet ── each row a job ──▶ queue.json ── a fleet ──▶ invoices/*.parquet

    cd examples
    python spark_table.py                                  # Spark on this machine; it needs Java 17
    bucketq work spark_table:app --on spark --until-empty  # the fleet alone, from a shell

On a cluster, say `--spark-master spark://…`, and take a URL and paths that all its machines can reach.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bucketq import App
from bucketq.spark import local_session, run

FOLDER = Path.cwd()
app = App((FOLDER / "queue.json").as_uri())


@app.job
def invoice(order: int, cents: int) -> dict[str, int]:
    """Runs on an executor. What it returns is a row of the results, and in the archive."""
    if not cents:
        raise ValueError("nothing was bought")
    return {"net": cents, "tax": cents // 5}


def fill(orders: DataFrame, day: str) -> None:
    """Enqueue a job for each row: all of them or none, and not twice, however often this is called."""
    jobs = orders.select(
        F.lit(invoice.entrypoint).alias("entrypoint"),
        F.to_json(F.struct("order", "cents")).alias("payload"),
    )
    load = jobs.write.format("bucketq").option("url", app.url).option("load_id", f"orders of {day}")
    load.option("max_attempts", 1).mode("append").save()


def results(spark: SparkSession) -> DataFrame:
    """One row a job, with the columns of the handler's answer."""
    rows = spark.read.parquet(str(FOLDER / "invoices")).dropDuplicates(["job_id", "attempt"])
    answer = F.from_json("result", "net bigint, tax bigint")
    return rows.select("job_id", "status", "error", answer.alias("invoice")).select("*", "invoice.*")


def main() -> None:
    spark = local_session()
    path = str(FOLDER / "orders.parquet")
    spark.range(1000).selectExpr("id AS order", "id % 50 * 100 AS cents").write.mode("overwrite").parquet(
        path
    )
    orders = spark.read.parquet(path)
    fill(orders, "2026-11-18")
    fill(orders, "2026-11-18")
    tally = run(app, spark, until_empty=True, results=str(FOLDER / "invoices"))
    print(f"{tally.completed} invoices, {tally.failed} failures")
    done = (
        results(spark).groupBy("status", "error").agg(F.count("*").alias("jobs"), F.sum("tax").alias("tax"))
    )
    for row in done.orderBy("status").collect():
        print(f"{row.status}: {row.jobs} jobs, tax {row.tax}, error {row.error}")


if __name__ == "__main__":
    main()
