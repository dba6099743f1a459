"""Which hosts are this machine."""

import socket

import pytest

from bucketq.broker.own_host import is_own_host

# Documentation addresses: no machine has them, and nothing is sent there.
ELSEWHERE = ("192.0.2.1", "198.51.100.7")


def own_addresses():
    """Addresses of this machine besides loopback, if it has any."""
    for there in ELSEWHERE:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((there, 9))
            except OSError:
                continue
            yield probe.getsockname()[0]


async def test_loopback_and_the_addresses_of_interfaces_are_this_machine():
    for host in ("localhost", "127.0.0.1", "127.0.0.2", "[::1]", *own_addresses()):
        assert await is_own_host(host), host


@pytest.mark.parametrize("host", [*ELSEWHERE, "nobody.invalid", "", "a" * 300])
async def test_other_hosts_and_names_that_lead_nowhere_are_not(host):
    assert not await is_own_host(host)


async def test_a_name_of_several_hosts_is_not_this_machine(monkeypatch):
    found = [
        (socket.AF_INET, socket.SOCK_DGRAM, 17, "", (address, 9)) for address in ("127.0.0.1", "192.0.2.1")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert not await is_own_host("service")
