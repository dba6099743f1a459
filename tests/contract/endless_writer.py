"""A process that replaces a file for ever, to be killed: python endless_writer.py PATH.

It prints a dot for every version that was written.
"""

import asyncio
import sys

from bucketq.storage import LocalFileSystemStorage


def version(number: int) -> bytes:
    """One number many times over, so that a torn version shows."""
    return f"{number} ".encode() * 3_000_000


def number_of(content: bytes) -> int:
    return int(content.partition(b" ")[0] or 0)


async def write_for_ever(path: str) -> None:
    storage = LocalFileSystemStorage(path)
    content, etag = await storage.read()
    number = number_of(content)
    while True:
        number += 1
        etag = await storage.write(version(number), etag)
        print(".", end="", flush=True)


if __name__ == "__main__":
    asyncio.run(write_for_ever(sys.argv[1]))
