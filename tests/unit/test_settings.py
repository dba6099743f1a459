"""Settings: values that make no sense are refused, and the refusal names the setting."""

from dataclasses import fields

import pytest

from bucketq import BrokerQueue, ConfigurationError, DirectQueue, InMemoryStorage, Settings, connect

MAY_BE_0 = {"budget_per_month", "commit_interval_s", "retry_for_s", "payload_inline_max", "archive_keep_days"}
NUMBERS = [field.name for field in fields(Settings) if not isinstance(field.default, bool)]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [-1, "1", True, float("nan"), 10**13])
def test_a_number_is_one_from_0_on(name, value):
    with pytest.raises(ConfigurationError, match=name):
        Settings(**{name: value})


@pytest.mark.parametrize("name", [name for name in NUMBERS if not name.startswith("price_")])
def test_0_is_refused_where_it_would_stop_everything(name):
    if name in MAY_BE_0:
        assert getattr(Settings(**{name: 0}), name) == 0
    else:
        with pytest.raises(ConfigurationError, match=f"{name} must be above 0"):
            Settings(**{name: 0})


@pytest.mark.parametrize("name", ["archive", "archive_payloads", "sole_writer"])
def test_yes_or_no_is_no_number(name):
    with pytest.raises(ConfigurationError, match=name):
        Settings(**{name: 1})


def test_an_archive_is_kept_for_ever_by_0_not_by_a_huge_number_of_days():
    with pytest.raises(ConfigurationError, match="0 is for ever"):
        Settings(archive_keep_days=100_001)


def test_a_queue_is_not_full_before_it_overflows():
    with pytest.raises(ConfigurationError, match=r"queue_bytes_max \(100000\) is below hot_bytes_max"):
        Settings(queue_bytes_max=100_000)
    with pytest.raises(ConfigurationError, match="Raise the first, or lower the second"):
        Settings(hot_bytes_max=65 * 1024 * 1024)
    assert Settings(queue_bytes_max=100_000, hot_bytes_max=100_000).queue_bytes_max == 100_000


def test_a_number_in_the_place_of_settings_is_named():
    storage = InMemoryStorage()
    with pytest.raises(ConfigurationError, match=r"must be a bucketq\.Settings, got 50\. To retry"):
        DirectQueue(storage, 50)
    with pytest.raises(ConfigurationError, match="stale_timeout must be a timedelta, got 50"):
        BrokerQueue(storage, 50)
    with pytest.raises(ConfigurationError, match=r"must be a bucketq\.Settings, got 50"):
        connect("memory://", settings=50)
