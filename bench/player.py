"""The player: a process that plays workloads with one library, as it is told on stdin.

    parent  {"workload": {…}, "storage": "file", "path": "/…/queue.json"}  ──▶  player
            {"seconds": 0.42}                                              ◀──

`python -m bench.player jqueue` starts one; `bench.side` does so.
"""

import asyncio
import importlib
import json
import sys
from typing import Any

from bench.workloads import Workload, fill, play


def main() -> None:
    """Play until stdin ends."""
    library = importlib.import_module(sys.argv[1])
    # What Python and the library do only once should not be on the first workload's bill.
    warm_up = Workload(name="warm-up", kind="mixed", callers=10, operations=100, filled=10)
    asyncio.run(_play(library, warm_up, library.InMemoryStorage()))
    for line in sys.stdin:
        request = json.loads(line)
        storage = _open(library, request["storage"], request["path"])
        seconds = asyncio.run(_play(library, Workload(**request["workload"]), storage))
        print(json.dumps({"seconds": seconds}), flush=True)


def _open(library: Any, storage: str, path: str | None) -> Any:
    if storage == "file":
        return library.LocalFileSystemStorage(path)
    memory = library.InMemoryStorage()
    return memory if storage == "memory" else _Port(memory)


class _Port:
    """The bare two methods. Bucketq gives such a storage each commit in one piece."""

    def __init__(self, memory: Any) -> None:
        self.read = memory.read
        self.write = memory.write


async def _play(library: Any, workload: Workload, storage: Any) -> float:
    async with library.BrokerQueue(storage) as queue:
        await fill(queue, workload)
        return await play(queue, workload)


if __name__ == "__main__":
    main()
