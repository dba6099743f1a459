"""What one client may ask is counted, and what is more is refused; others are not counted with it."""

import pytest

from bucketq.broker.allowance import Allowance
from bucketq.broker.turnstile import Turnstile
from bucketq.errors import ConfigurationError, TooManyRequestsError


class Watch:
    """A clock that is moved by hand."""

    now_s = 100.0

    def monotonic_s(self):
        return self.now_s


def test_a_client_asks_no_faster_than_it_may():
    clock = Watch()
    turnstile = Turnstile(Allowance(rate_per_client=2.0, burst_per_client=3), clock)
    for _ in range(3):
        turnstile.enter("web")
    with pytest.raises(TooManyRequestsError) as refused:
        turnstile.enter("web")
    assert refused.value.retry_after_s == pytest.approx(0.5)
    turnstile.enter("another")
    clock.now_s += 0.5
    turnstile.enter("web")
    with pytest.raises(TooManyRequestsError):
        turnstile.enter("web")


def test_without_a_rate_nobody_is_refused():
    turnstile = Turnstile(Allowance(), Watch())
    for _ in range(10_000):
        turnstile.enter("web")


def test_invented_clients_are_forgotten():
    turnstile = Turnstile(Allowance(rate_per_client=1.0), Watch())
    for number in range(30_000):
        turnstile.enter(f"10.0.{number // 256}.{number % 256}")
    assert len(turnstile._buckets) <= 10_000


def test_no_more_calls_wait_than_may():
    turnstile = Turnstile(Allowance(waiting_max=3, waiting_per_client_max=2))
    with turnstile.wait("a"), turnstile.wait("a"):
        with pytest.raises(TooManyRequestsError, match="of one client"), turnstile.wait("a"):
            pass
        everybody = pytest.raises(TooManyRequestsError, match="at this broker")
        with turnstile.wait("b"), everybody, turnstile.wait("c"):
            pass
    with turnstile.wait("a"):
        assert turnstile.waiting == 1
    assert turnstile.waiting == 0
    assert not turnstile._waiting


def test_a_limit_that_makes_no_sense_is_refused():
    for wrong in ({"message_bytes_max": 0}, {"rate_per_client": -1.0}, {"header_within_s": 0.0}):
        with pytest.raises(ConfigurationError):
            Allowance(**wrong)
