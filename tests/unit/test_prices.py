"""What requests cost: the list prices, whose they are, and what settings make of them."""

from dataclasses import replace

import pytest

from bucketq import ConfigurationError, Settings
from bucketq.account import Spending
from bucketq.prices import AZURE, FREE, GCS, MONTH_S, R2, S3, Requests, list_prices, prices_of
from bucketq.told import SpendingTold


@pytest.mark.parametrize(
    ("url", "endpoint_url", "prices"),
    [
        ("s3://b/jobs.json", None, S3),
        ("s3://b/jobs.json", "https://s3.eu-central-1.amazonaws.com", S3),
        ("s3://b/jobs.json", "https://1a2b.eu.r2.cloudflarestorage.com", R2),
        ("s3://b/jobs.json", "https://r2.cloudflarestorage.com.example.org", FREE),
        ("s3://b/jobs.json", "http://127.0.0.1:8333", FREE),
        ("gs://b/jobs.json", None, GCS),
        ("gs://b/jobs.json", "https://storage.googleapis.com", GCS),
        ("gs://b/jobs.json", "http://localhost:4443", FREE),
        ("az://c/jobs.json", None, AZURE),
        ("az://c/jobs.json", "https://mine.blob.core.windows.net", AZURE),
        ("az://c/jobs.json", "http://127.0.0.1:10000/devstoreaccount1", FREE),
        ("file:///var/lib/queue.json", None, FREE),
        ("memory://", None, FREE),
        ("OneOfMyOwn", None, FREE),
    ],
)
def test_the_provider_is_told_by_where_the_storage_is(url, endpoint_url, prices):
    assert list_prices(url, endpoint_url) is prices


def test_a_write_a_second_for_a_month():
    assert (
        S3.per_month(Requests(writes=1))
        == pytest.approx(0.005 / 1000 * MONTH_S)
        == pytest.approx(13.39, abs=0.01)
    )
    assert S3.per_month(Requests(reads=1)) == pytest.approx(1.07, abs=0.01)
    assert S3.cost(Requests(object_writes=1000, lists=1000, deletes=1000)) == pytest.approx(0.01)
    assert R2.per_month(Requests(writes=1)) < S3.per_month(Requests(writes=1))
    assert FREE.cost(Requests(*[10**9] * 6)) == 0


def test_settings_win_one_by_one():
    prices = prices_of(
        "s3://b/jobs.json", None, Settings(price_per_1000_writes=0.02, price_per_1000_deletes=0)
    )
    assert (prices.per_1000_writes, prices.per_1000_reads) == (0.02, S3.per_1000_reads)
    assert "settings" in prices.of
    own = prices_of("s3://b/jobs.json", "http://minio:9000", Settings(price_per_1000_reads=1))
    assert own.cost(Requests(reads=1000, writes=1000)) == 1


@pytest.mark.parametrize("price", [-1, "5", True, float("nan")])
def test_a_price_that_is_none_is_refused(price):
    with pytest.raises(ConfigurationError, match="price_per_1000_writes"):
        Settings(price_per_1000_writes=price)


def test_a_budget_that_holds_nothing_apart_is_not_said_to_do_so():
    none = Requests()
    spending = Spending(
        requests=none, per_s=none, prices=FREE, dollars=0, dollars_per_month=1234.5, budget_per_month=3000
    )
    told = f"$1,234.50 a month at this pace, by the prices of {FREE.of}; the budget is $3,000.00"
    for is_held_back in (False, True):
        assert SpendingTold.of(replace(spending, is_held_back=is_held_back)).spelt() == told
    held = replace(spending, is_held_back=True, interval_s=0.04)
    assert SpendingTold.of(held).spelt() == f"{told}, and holds commits 40 ms apart"
