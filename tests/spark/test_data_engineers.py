"""The examples for data engineers run, as a reader would run them, and so does the guide that shows them."""

import runpy
from pathlib import Path

import pytest

from tests.docs.blocks import blocks, run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

# Spark takes its time where the machine is busy.
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("spark lake")]


@pytest.fixture
def play(spark, tmp_path, monkeypatch, capsys):
    """Runs an example in a folder of its own, and returns its lines; `local_session` gives it our session."""
    monkeypatch.chdir(tmp_path)

    def play(script, *words):
        monkeypatch.setattr("sys.argv", [script, *words])
        runpy.run_path(str(EXAMPLES / script), run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return play


def test_spark_table(play):
    assert play("spark_table.py") == [
        "980 invoices, 20 failures",
        "completed: 980 jobs, tax 490000, error None",
        "failed: 20 jobs, tax None, error ValueError: nothing was bought",
    ]


def test_spark_stream(play, tmp_path):
    assert play("spark_stream.py") == ["converted 100; the table has 100 rows, the warmest 55.0 °C"]
    assert play("spark_stream.py", "more") == ["converted 100; the table has 200 rows, the warmest 55.0 °C"]
    assert len(list((tmp_path / "finished").glob("batch=*"))) > 1, "the second run has gone on"


def test_lake_sql(play):
    lines = play("lake_sql.py")
    assert lines[:3] == [
        "archive: mail completed 20",
        "archive: report completed 9",
        "archive: report dead 1",
    ]
    assert lines[4:] == ["lake: mail 20 0", "lake: report 10 1", "Spark and DuckDB agree"]


def test_the_guide_runs(spark, tmp_path):
    names = {}
    for block in blocks("docs/data-engineers.md", "python"):
        run(block, tmp_path, names)
    assert (names["tally"].completed, names["tally"].failed) == (499, 1)
    table = spark.read.parquet(str(tmp_path / "finished"))
    assert table.count() == table.select("id").distinct().count() == 500
