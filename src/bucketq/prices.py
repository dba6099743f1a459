"""Prices: what providers ask for requests, so that a queue knows what it costs.

These are list prices, for requests alone: storing, sending and what is free each month are not in
them. They are those of 2026-11, in US dollars, of a region in the United States, without a discount;
docs/cost.md says where each is from. Whoever pays others sets them: `price_per_1000_writes` and its kin.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import urlsplit

from bucketq.settings import Settings

# The longest, so that a budget is kept in each.
MONTH_S = 31 * 86_400.0


class Requests(NamedTuple):
    """How many requests of each kind: counted, or a second."""

    # Of queue.json.
    reads: float = 0
    writes: float = 0
    # Of the objects beside it: segments, payloads, the archive.
    object_reads: float = 0
    object_writes: float = 0
    lists: float = 0
    deletes: float = 0


@dataclass(frozen=True, kw_only=True)
class Prices:
    """What a thousand requests of each kind cost, in US dollars, and whose prices these are.

    >>> S3.cost(Requests(writes=1000, reads=1000))
    0.0054
    """

    of: str
    per_1000_reads: float = 0.0
    per_1000_writes: float = 0.0
    per_1000_lists: float = 0.0
    per_1000_deletes: float = 0.0

    def cost(self, requests: Requests) -> float:
        """What requests cost, in dollars."""
        return (
            self.per_1000_reads * (requests.reads + requests.object_reads)
            + self.per_1000_writes * (requests.writes + requests.object_writes)
            + self.per_1000_lists * requests.lists
            + self.per_1000_deletes * requests.deletes
        ) / 1000

    def per_month(self, per_s: Requests) -> float:
        """What requests at a pace cost in a month, in dollars."""
        return self.cost(per_s) * MONTH_S


FREE = Prices(of="a storage of one's own")
S3 = Prices(
    of="Amazon S3 Standard, us-east-1", per_1000_reads=0.0004, per_1000_writes=0.005, per_1000_lists=0.005
)
GCS = Prices(
    of="Google Cloud Storage Standard, one region",
    per_1000_reads=0.0004,
    per_1000_writes=0.005,
    per_1000_lists=0.005,
)
AZURE = Prices(
    of="Azure Blob Storage hot LRS, East US",
    per_1000_reads=0.0004,
    per_1000_writes=0.005,
    per_1000_lists=0.005,
)
R2 = Prices(
    of="Cloudflare R2 Standard", per_1000_reads=0.00036, per_1000_writes=0.0045, per_1000_lists=0.0045
)

# By the scheme of the storage's URL and the end of its endpoint's host; without one it is the first.
_PROVIDERS = {
    "s3": {"amazonaws.com": S3, "amazonaws.com.cn": S3, "r2.cloudflarestorage.com": R2},
    "gs": {"googleapis.com": GCS},
    "az": {"core.windows.net": AZURE},
}


def list_prices(url: str, endpoint_url: str | None = None) -> Prices:
    """The list prices of the storage at a URL. A server that nobody knows is taken for one's own.

    >>> list_prices("s3://bucket/jobs.json").of
    'Amazon S3 Standard, us-east-1'
    >>> list_prices("s3://bucket/jobs.json", "https://1a2b.r2.cloudflarestorage.com").of
    'Cloudflare R2 Standard'
    >>> list_prices("s3://bucket/jobs.json", "http://localhost:9000") == FREE
    True
    """
    by_host = _PROVIDERS.get(urlsplit(url).scheme, {})
    if not by_host:
        return FREE
    if endpoint_url is None:
        return next(iter(by_host.values()))
    host = f".{urlsplit(endpoint_url).hostname}"
    return next((prices for end, prices in by_host.items() if host.endswith(f".{end}")), FREE)


def prices_of(url: str, endpoint_url: str | None, settings: Settings) -> Prices:
    """The prices of a storage: those of the settings, and where they say nothing the list's."""
    known = list_prices(url, endpoint_url)
    said = {
        "per_1000_reads": settings.price_per_1000_reads,
        "per_1000_writes": settings.price_per_1000_writes,
        "per_1000_lists": settings.price_per_1000_lists,
        "per_1000_deletes": settings.price_per_1000_deletes,
    }
    changed = {name: price for name, price in said.items() if price is not None}
    return replace(known, of=f"{known.of}, and the settings", **changed) if changed else known
