"""Loopback: hosts that only this machine itself reaches."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether a host, with or without a port, is this machine and nobody else's way to it.

    >>> [is_loopback(host) for host in ("localhost:7420", "127.0.0.1", "[::1]:7420", "::1", "0.0.0.0:7420")]
    [True, True, True, True, False]
    """
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
