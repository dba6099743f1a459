"""WriteWatch: a storage that remembers why writes to it do not land; a broker without its lead tells it."""

from collections.abc import Sequence

from bucketq.errors import NotWrittenError
from bucketq.storage.port import Bucket, Provable, Watchable, describe


class WriteWatch:
    """Another storage, and what became of the last writes to it."""

    def __init__(self, storage: Bucket) -> None:
        self.url = describe(storage)
        self.objects = storage.objects
        self.read = storage.read
        self.read_if_changed = storage.read_if_changed
        if isinstance(storage, Watchable):
            self.watch = storage.watch
        if isinstance(storage, Provable):
            self.prove = storage.prove
        self._write = storage.write
        # Why no write has landed since the last one that did, as far as the storage knows.
        self.trouble: NotWrittenError | None = None
        # Whether a write without an answer may have landed, or may land yet.
        self.may_land = False

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        may_land, self.may_land = self.may_land, True
        try:
            etag = await self._write(content, if_match)
        except NotWrittenError as error:
            self.trouble, self.may_land = error, may_land
            raise
        self.trouble, self.may_land = None, False
        return etag
