"""Whether a host that a broker advertises is this machine."""

import asyncio
import socket
from typing import Any

from bucketq.loopback import is_loopback

# A name server that doesn't answer must not delay the start of a broker.
_RESOLVED_WITHIN_S = 2.0


async def is_own_host(host: str) -> bool:
    """Whether every address of a host belongs to an interface of this machine. It sends no packet to them."""
    if is_loopback(host):
        return True
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_RESOLVED_WITHIN_S):
            found = await loop.getaddrinfo(host.strip("[]"), 9, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    return all(_is_own(family, address) for family, _, _, _, address in found)


def _is_own(family: int, address: Any) -> bool:
    # To reach one of its own addresses, a machine sends from that address. Binding would prove less: with
    # ip_nonlocal_bind, Linux binds to any address.
    if is_loopback(address[0]):
        return True
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(address)
        except OSError:
            return False
        return bool(probe.getsockname()[0] == address[0])
