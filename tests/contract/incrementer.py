"""One process of many that count together: python incrementer.py URL OPTIONS TIMES."""

import asyncio
import json
import sys

from bucketq.errors import CASConflictError
from bucketq.storage import open_storage


async def increment(url: str, options: str, times: str) -> None:
    storage = open_storage(url, **json.loads(options))
    await storage.read()
    # All start together: each says that it is ready, and waits for the word.
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(times)):
        while True:
            content, etag = await storage.read()
            try:
                await storage.write(str(int(content or b"0") + 1).encode(), etag)
                break
            except CASConflictError:
                continue


asyncio.run(increment(*sys.argv[1:]))
