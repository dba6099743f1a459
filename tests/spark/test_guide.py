"""Every code block of docs/spark.md runs, one after the other, as a reader would run them."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)

# Spark takes its time where the machine is busy.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def names(spark, tmp_path_factory):
    """What the blocks know of each other; a session is there already, and `local_session` gives it."""
    found = {"__name__": "guide", "folder": tmp_path_factory.mktemp("guide")}
    yield found
    for query in spark.streams.active:
        query.stop()


@pytest.mark.parametrize("block", BLOCKS, ids=[block.partition("\n")[0] for block in BLOCKS])
def test_the_guide_runs(names, block):
    source = block.replace("/var/lib/myapp", str(names["folder"]))
    exec(compile(source, "docs/spark.md", "exec"), names)


def test_what_the_guide_wrote_is_there(names):
    query = names["query"]
    assert query.exception() is None
    counted = {row.entrypoint: row["count"] for row in names["live"].groupBy("entrypoint").count().collect()}
    assert counted["invoice"] == 100_000
