"""docs/cost.md: its prices are those that queues reckon by, and its formula comes near what was counted.

That the counts themselves are true is tested with the benchmark.
"""

import re

import pytest

from bench.bill import SQS_SINGLY, read_page, sqs_per_month
from bucketq.prices import AZURE, GCS, R2, S3
from tests.docs.blocks import ROOT, block_with, run

PAGE = "docs/cost.md"


def rows(table):
    """The rows of a counted table, by their first cell."""
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in read_page(table).splitlines()[1:-1]
    ]
    return {first: others for first, *others in cells}


@pytest.mark.parametrize(
    ("provider", "prices"),
    [
        ("Amazon S3 Standard", S3),
        ("Google Cloud Storage Standard", GCS),
        ("Azure Blob Storage, hot, LRS", AZURE),
        ("Cloudflare R2 Standard", R2),
    ],
)
def test_the_prices_are_those_that_queues_reckon_by(provider, prices):
    [row] = re.findall(
        rf"^\| {provider} \| (\S+) \| (\S+) \| (\S+) \|", (ROOT / PAGE).read_text(), re.MULTILINE
    )
    assert tuple(map(float, row[:2])) == (prices.per_1000_writes, prices.per_1000_reads)
    assert prices.per_1000_lists == prices.per_1000_writes
    assert (row[2], prices.per_1000_deletes) == ("free", 0)


@pytest.mark.parametrize(
    ("way", "brokers", "intervals", "within"),
    [
        ("`BrokerQueue`, one process", 0, [0, 0.1, 1, 2, 10], (0.98, 1.45)),
        ("two brokers and their clients", 2, [0, 0.1, 1, 2], (0.9, 1.7)),
    ],
)
def test_the_formula_comes_near_what_was_counted(tmp_path, way, brokers, intervals, within):
    names = run(block_with(PAGE, "def dollars_per_month"), tmp_path)
    months = rows("months")
    for interval in intervals:
        counted = months[f"{way}, {interval} s"]
        for rate, dollars in zip((0.1, 1, 10, 100), counted, strict=True):
            estimate = names["dollars_per_month"](rate, max(interval, 0.03), brokers)
            assert within[0] < estimate / float(dollars) < within[1], (interval, rate)


def test_the_formula_for_sqs_is_that_of_the_tables(tmp_path):
    names = run(block_with(PAGE, "def dollars_per_month"), tmp_path)
    for rate in (0.1, 10):
        assert names["sqs_dollars_per_month"](rate) == pytest.approx(sqs_per_month(rate, SQS_SINGLY))
