"""Fingerprints: what a segment's companion tells of the unique keys of its jobs.

    backlog/000000000012-9f86d081884c7d65.json     a segment
    backlog/000000000012-9f86d081884c7d65.keys     the fingerprints of its keys, 8 bytes each, sorted

A key that is not among them is certainly not in the segment. One that is may have left it.
"""

import sys
from array import array
from collections.abc import Iterable
from hashlib import blake2b

FINGERPRINT_BYTES = 8


def fingerprint(key: str) -> int:
    """A number that stands for a key; two keys hardly ever have the same.

    >>> fingerprint("order-17") == fingerprint("order-17") != fingerprint("order-18")
    True
    """
    return int.from_bytes(blake2b(key.encode(), digest_size=FINGERPRINT_BYTES).digest(), "little")


def pack(fingerprints: Iterable[int]) -> bytes:
    """The content of a companion.

    >>> list(unpack(pack([7, 3])))
    [3, 7]
    """
    return _in_order(array("Q", sorted(fingerprints))).tobytes()


def unpack(content: bytes) -> "array[int]":
    """The fingerprints in a companion, in order."""
    return _in_order(array("Q", content))


def _in_order(numbers: "array[int]") -> "array[int]":
    # In the object the lowest byte comes first, on any machine.
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers
