"""Site: which web pages may talk to a broker, and what browsers are told with every answer.

A browser lets any page send requests to any address, this machine's and the local network's among
them. So a broker takes no request that comes from a page of another origin, unless it was told to.
And where no token protects it, it answers only to names that are its own: else a page could give
its own name this machine's address, and be of the same origin.
"""

import ipaddress
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bucketq.broker.place import refusal
from bucketq.errors import ConfigurationError, ForbiddenError

_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Traceparent, Tracestate",
    "Access-Control-Max-Age": "600",
}
_ORIGIN = re.compile(r"https?://[^/@\s]+")


def check_origin(origin: str) -> str:
    """An origin, as browsers spell it. Raises ConfigurationError.

    >>> check_origin("https://example.com")
    'https://example.com'
    """
    if not _ORIGIN.fullmatch(origin) or origin != origin.lower():
        raise ConfigurationError(
            f"an origin is a scheme and a host, in lower case, such as https://example.com, not {origin!r}"
        )
    return origin


class Advice(NamedTuple):
    """Who refuses somebody, and what would help, for those who come by a false name or from another page."""

    who: str
    for_names: str
    for_pages: str


BROKERS_ADVICE = Advice("this broker", "see --advertise", "--cors-origin would let them")


class Site:
    """An ASGI application behind these checks.

    `origins` are those whose pages may talk to it; `hosts` the names that it answers to besides
    addresses and this machine's own, or None for any.
    """

    def __init__(
        self,
        app: ASGIApp,
        origins: Collection[str],
        hosts: Collection[str] | None,
        advice: Advice = BROKERS_ADVICE,
    ) -> None:
        self._app = app
        self._advice = advice
        self._origins = frozenset(map(check_origin, origins))
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        headers = Headers(scope=scope)
        origin = headers.get("origin")

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                message["headers"] = _with_defaults(message.get("headers", ()))
                if origin in self._origins:
                    _allow(MutableHeaders(raw=message["headers"]), origin)
            await send(message)

        try:
            self._check(headers.get("host", ""), origin)
        except ForbiddenError as error:
            await refusal(error)(scope, receive, send_with_headers)
            return
        is_preflight = scope["type"] == "http" and scope["method"] == "OPTIONS"
        if is_preflight and origin in self._origins and "access-control-request-method" in headers:
            await Response(status_code=204, headers=_PREFLIGHT)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _check(self, host: str, origin: str | None) -> None:
        if self._hosts is not None and not _is_own(host, self._hosts):
            raise ForbiddenError(
                f"{self._advice.who} is not known as {_name_of(host)!r}; without tokens it answers only to"
                f" addresses and to its own names: {self._advice.for_names}"
            )
        if origin is not None and origin not in self._origins and origin.partition("://")[2] != host:
            raise ForbiddenError(
                f"pages of {origin} may not talk to {self._advice.who}; {self._advice.for_pages}"
            )


def _with_defaults(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of an answer, with those that it does not set itself: pages for people need others."""
    own = list(headers)
    names = {name for name, _ in own}
    return [*own, *(one for one in _HEADERS if one[0] not in names)]


def _allow(headers: MutableHeaders, origin: str | None) -> None:
    headers["Access-Control-Allow-Origin"] = origin or ""
    headers["Access-Control-Expose-Headers"] = "Retry-After"
    headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    headers.add_vary_header("Origin")


def _name_of(host: str) -> str:
    """The name in a Host header, without the port.

    >>> _name_of("[::1]:8420"), _name_of("Broker.example:8420")
    ('::1', 'broker.example')
    """
    return re.sub(r":\d*$", "", host).strip("[]").lower()


# Of a few hosts each is asked for very often.
@lru_cache(maxsize=256)
def _is_own(host: str, hosts: frozenset[str]) -> bool:
    name = _name_of(host)
    if name == "localhost" or name.endswith(".localhost") or name in hosts:
        return True
    try:
        # An address cannot be made to mean another one.
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
