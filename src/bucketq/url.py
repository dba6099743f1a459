"""connect: one URL opens any queue."""

from collections.abc import Mapping
from typing import Any

from bucketq.embedded import BrokerQueue
from bucketq.settings import Settings
from bucketq.storage import open_storage


def connect(
    url: str, *, storage_options: Mapping[str, Any] | None = None, settings: Settings | None = None
) -> BrokerQueue:
    """Open the queue at a URL; use the result with `async with`.

        async with bucketq.connect("file:///var/lib/myapp/queue.json") as q:
            await q.enqueue("send_email", {"to": "alice@example.com"})

    `memory://`, `file:///path/queue.json`, `s3://bucket/key.json`, `gs://bucket/key.json`,
    `az://container/key.json`. `storage_options` go to the storage adapter, such as
    `endpoint_url` for S3-compatible servers. Raises ConfigurationError for a URL that
    names no storage.
    """
    return BrokerQueue(open_storage(url, **(storage_options or {})), settings=settings)
