"""The code of spark.md, pipeline.md and howto/spark-cluster.md runs, block by block, as a reader runs it."""

import pytest

from tests.docs.blocks import blocks, run

# Spark takes its time where the machine is busy.
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("spark lake")]


@pytest.fixture(scope="module")
def names(spark, tmp_path_factory):
    """What the blocks know of each other; a session is there already, and `local_session` gives it."""
    found = {"folder": tmp_path_factory.mktemp("guide")}
    yield found
    for query in spark.streams.active:
        query.stop()


@pytest.mark.parametrize("block", blocks("docs/spark.md", "python"), ids=str)
def test_the_guide_runs(names, block):
    run(block, names["folder"], names)


def test_the_pipeline_of_its_guide_runs(names):
    for block in blocks("docs/pipeline.md", "python"):
        run(block, names["folder"], names)
    assert names["outcome"].is_sound


def test_the_program_for_a_cluster_runs(spark, tmp_path):
    names = {}
    for block in blocks("docs/howto/spark-cluster.md", "python"):
        run(block, tmp_path, names)
    assert (names["tally"].completed, names["tally"].failed) == (2000, 0)


def test_what_the_guide_wrote_is_there(names):
    query = names["query"]
    assert query.exception() is None
    counted = {row.entrypoint: row["count"] for row in names["live"].groupBy("entrypoint").count().collect()}
    assert counted["invoice"] == 100_000
