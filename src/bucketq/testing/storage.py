"""The storage contract: what every storage adapter must do, as tests to run over your own.

With pytest and pytest-asyncio, a subclass that opens your adapter is a complete test class:

    class TestMyStorage(StorageContract):
        async def open(self, key):
            return MyStorage(bucket="test", key=key)

Without them, `await check_storage(open)` runs the same checks. `BucketContract` adds the
checks of an adapter that can do all that bucketq's own can, see `bucketq.storage.Bucket`.
Each check takes new keys, and leaves its objects behind: give it a bucket for tests.
"""

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from bucketq.errors import (
    CASConflictError,
    ObjectExistsError,
    ObjectNotFoundError,
    SlowDownError,
    StorageError,
)
from bucketq.storage.port import Bucket, Objects, ObjectStoragePort

Open = Callable[[str], Awaitable[ObjectStoragePort]]

_INSTANCES = 8
_INCREMENTS_EACH = 5
_LARGE_BYTES = 20_000_000


class StorageContract:
    """The checks of the two methods that a queue needs, `read` and `write`."""

    async def open(self, key: str) -> ObjectStoragePort:
        """Return a new adapter for the object of this name; equal keys are one object."""
        raise NotImplementedError("open(key) returns the adapter to check")

    async def test_missing_object_reads_as_nothing(self) -> None:
        storage = await self.open(_new_key())
        found = await storage.read()
        assert found == (b"", None), f"a missing object must read as (b'', None), not {found}"

    async def test_written_content_is_read_back(self) -> None:
        storage = await self.open(_new_key())
        for content in (b"one", b"two, which is longer", b"3"):
            _, etag = await storage.read()
            written = await storage.write(content, etag)
            found = await storage.read()
            assert found == (content, written), f"wrote {content!r} as {written!r}, read {found}"

    async def test_create_refuses_an_existing_object(self) -> None:
        key = _new_key()
        storage = await self.open(key)
        etag = await storage.write(b"first")
        for creator in (storage, await self.open(key)):
            assert await _is_refused(creator, b"second", None), "if_match=None must only ever create"
        found = await storage.read()
        assert found == (b"first", etag), f"a refused create must change nothing, but found {found}"

    async def test_one_of_many_creators_wins(self) -> None:
        key = _new_key()
        contents = [f"creator {number}".encode() for number in range(_INSTANCES)]
        creators = [await self.open(key) for _ in contents]
        answers = await asyncio.gather(*map(_is_refused, creators, contents, [None] * _INSTANCES))
        winners = [content for content, refused in zip(contents, answers, strict=True) if not refused]
        assert len(winners) == 1, f"one creator must win a race, but these did: {winners}"
        content, _ = await creators[0].read()
        assert content == winners[0], f"{winners[0]!r} won, but {content!r} is what was kept"

    async def test_stale_write_is_refused(self) -> None:
        storage = await self.open(_new_key())
        stale = await storage.write(b"version 1")
        current = await storage.write(b"version 2", stale)
        assert await _is_refused(storage, b"version 3", stale), "a stale etag must be refused"
        found = await storage.read()
        assert found == (b"version 2", current), f"a refused write must change nothing, but found {found}"

    async def test_write_to_a_missing_object_is_refused(self) -> None:
        etag = await (await self.open(_new_key())).write(b"another object")
        storage = await self.open(_new_key())
        assert await _is_refused(storage, b"content", etag), "no etag fits an object that is missing"
        found = await storage.read()
        assert found == (b"", None), f"a refused write must create nothing, but found {found}"

    async def test_etag_holds_for_every_instance(self) -> None:
        key = _new_key()
        writer, reader, other = [await self.open(key) for _ in range(3)]
        written = await writer.write(b"version 1")
        _, read = await reader.read()
        assert read == written, f"one instance wrote {written!r}, another reads {read!r}"
        await other.write(b"version 2", read)
        assert await _is_refused(writer, b"version 3", written), "another instance's write must count"

    async def test_empty_object_exists(self) -> None:
        storage = await self.open(_new_key())
        etag = await storage.write(b"")
        found = await storage.read()
        assert found == (b"", etag), f"an empty object has an etag, {etag!r}, but found {found}"
        assert await _is_refused(storage, b"content", None), "an empty object is there: no second create"
        await storage.write(b"content", etag)

    async def test_large_object_comes_back_whole(self) -> None:
        storage = await self.open(_new_key())
        etag = await storage.write(_large(1))
        assert (await storage.read())[0] == _large(1), "a created object of 20 MB came back changed"
        await storage.write(_large(2), etag)
        assert (await storage.read())[0] == _large(2), "a replaced object of 20 MB came back changed"

    async def test_keys_may_be_of_any_script(self) -> None:
        keys = [_new_key(f"{name}/очередь.json") for name in ("日本語", "naïve ñandú", "100% & more+more")]
        for number, key in enumerate(keys):
            await (await self.open(key)).write(f"content {number}".encode())
        for number, key in enumerate(keys):
            content, _ = await (await self.open(key)).read()
            assert content == f"content {number}".encode(), f"{key!r} holds {content!r}"

    async def test_each_version_has_its_own_etag(self) -> None:
        """Versions that differ; equal bytes may share an etag, as they do on S3."""
        storage = await self.open(_new_key())
        etags: list[str] = []
        for content in (b"1 A", b"2 B", b"3 A", b"4 B"):
            etags.append(await storage.write(content, etags[-1] if etags else None))
        assert len(set(etags)) == 4, f"four versions need four etags: {etags}"
        for etag in etags[:-1]:
            assert await _is_refused(storage, b"5 A", etag), f"{etag!r} is of an old version: {etags}"

    async def test_concurrent_increments_lose_nothing(self) -> None:
        key = _new_key()
        await (await self.open(key)).write(b"0")
        counters = [await self.open(key) for _ in range(_INSTANCES)]
        await asyncio.gather(*map(_increment, counters))
        content, _ = await counters[0].read()
        expected = _INSTANCES * _INCREMENTS_EACH
        assert int(content) == expected, f"{expected} increments were made, {int(content)} were kept"


class BucketContract(StorageContract):
    """The checks of a `Bucket`: the two methods, conditional reads, and objects beside the queue."""

    async def open_bucket(self, key: str) -> Bucket:
        storage = await self.open(key)
        assert isinstance(storage, Bucket), f"{type(storage).__name__} has not all that a Bucket has"
        return storage

    async def test_content_may_come_in_pieces(self) -> None:
        storage = await self.open_bucket(_new_key())
        lines = [b"line %d\n" % number for number in range(5000)]
        etag: str | None = None
        for pieces in ([b"one"], lines, tuple(lines), [b"", b"some", b"", _large(4), b""], [b""], []):
            expected = b"".join(pieces)
            etag = await storage.write(pieces, etag)
            assert await storage.read() == (expected, etag), f"{len(pieces)} pieces came back changed"
        pieces = [b"mine", b" to keep"]
        etag = await storage.write(pieces, etag)
        pieces[0] = b"changed after the write"
        assert await storage.read() == (b"mine to keep", etag), "a writer's list is not the storage's"

    async def test_unchanged_object_is_not_read_again(self) -> None:
        key = _new_key()
        reader, writer = await self.open_bucket(key), await self.open_bucket(key)
        assert await reader.read_if_changed(None) is None, "it is missing still"
        first = await writer.write(b"version 1")
        assert await reader.read_if_changed(None) == (b"version 1", first), "it was created"
        assert await reader.read_if_changed(first) is None, "it has not changed"
        second = await writer.write(b"version 2", first)
        assert await reader.read_if_changed(first) == (b"version 2", second), "it has changed"
        assert await reader.read_if_changed(second) is None, "it has not changed again"

    async def test_unchanged_means_that_the_etag_still_holds(self) -> None:
        """Also when the same bytes have come back: a write with that etag must then succeed."""
        storage = await self.open_bucket(_new_key())
        first = await storage.write(b"A")
        await storage.write(b"A", await storage.write(b"B", first))
        if await storage.read_if_changed(first) is None:
            is_refused = await _is_refused(storage, b"C", first)
            assert not is_refused, "read_if_changed said unchanged, and write refused the same etag"

    async def test_etag_of_a_missing_object_reads_as_changed(self) -> None:
        etag = await (await self.open_bucket(_new_key())).write(b"another object")
        found = await (await self.open_bucket(_new_key())).read_if_changed(etag)
        assert found == (b"", None), f"a missing object must read as (b'', None), not {found}"

    async def test_objects_are_created_and_read(self) -> None:
        key = _new_key()
        objects, elsewhere = [(await self.open_bucket(key)).objects for _ in range(2)]
        contents = {"one": b"1", "archive/2026-02-15T10/7.json": b"[]", "empty": b""}
        for name, content in contents.items():
            await objects.create(name, content)
        for name, content in contents.items():
            assert await elsewhere.read(name) == content, f"object {name!r} came back changed"

    async def test_object_is_created_only_once(self) -> None:
        key = _new_key()
        contents = [f"creator {number}".encode() for number in range(_INSTANCES)]
        creators = [(await self.open_bucket(key)).objects for _ in contents]
        answers = await asyncio.gather(*map(_is_created, creators, ["segment"] * _INSTANCES, contents))
        winners = [content for content, created in zip(contents, answers, strict=True) if created]
        assert len(winners) == 1, f"one creator must win a race, but these did: {winners}"
        assert not await _is_created(creators[0], "segment", b"late"), "a second create must be refused"
        content = await creators[0].read("segment")
        assert content == winners[0], f"{winners[0]!r} won, but {content!r} is what was kept"

    async def test_large_object_is_created_whole_and_only_once(self) -> None:
        key = _new_key()
        objects, elsewhere = [(await self.open_bucket(key)).objects for _ in range(2)]
        await objects.create("large", _large(3))
        assert await elsewhere.read("large") == _large(3), "an object of 20 MB came back changed"
        for creator in (objects, elsewhere):
            assert not await _is_created(creator, "large", _large(4)), "a second create must be refused"
        assert await objects.read("large") == _large(3), "a refused create must change nothing"

    async def test_names_that_lead_elsewhere_are_refused(self) -> None:
        bucket = await self.open_bucket(_new_key())
        objects = bucket.objects
        for name in ("", "/a", "a/", "a//b", ".", "..", "../queue.json", "a/../../b", "a/./b", ".a", "a/.b"):
            for request in (objects.create(name, b""), objects.read(name), objects.delete(name)):
                assert await _is_no_name(request), f"the name {name!r} must raise StorageError"
        assert await _names(bucket) == [], "a refused name must create nothing"

    async def test_missing_object_is_told(self) -> None:
        objects = (await self.open_bucket(_new_key())).objects
        await objects.create("there", b"")
        for name in ("missing", "not/there", "the"):
            try:
                await objects.read(name)
            except ObjectNotFoundError:
                continue
            raise AssertionError(f"reading {name!r}, which is missing, must raise ObjectNotFoundError")

    async def test_deleted_object_is_gone(self) -> None:
        bucket = await self.open_bucket(_new_key())
        for name in ("a", "b", "c/d"):
            await bucket.objects.create(name, b"old")
        await bucket.objects.delete("b")
        await bucket.objects.delete("b")
        await bucket.objects.delete("never/was")
        assert await _names(bucket) == ["a", "c/d"], "only the deleted object may be gone"
        await bucket.objects.create("b", b"new")
        assert await bucket.objects.read("b") == b"new", "a deleted name can be used again"

    async def test_every_object_is_listed(self) -> None:
        bucket = await self.open_bucket(_new_key())
        assert await _names(bucket) == [], "there are no objects yet"
        names = ["9", "10", "a/2", "a/10", "a/b/c", "B", "é", "日本/語"]
        for name in names:
            await bucket.objects.create(name, name.encode())
        found = await _names(bucket)
        assert sorted(found) == sorted(names), f"listed {found}, which is not {sorted(names)}"

    async def test_prefix_need_not_end_at_a_slash(self) -> None:
        bucket = await self.open_bucket(_new_key())
        for name in ("archive/2026-02/1", "archive/2026-02/2", "archive/2026-03/1", "archived/1"):
            await bucket.objects.create(name, b"")
        for prefix, expected in {
            "archive/": ["archive/2026-02/1", "archive/2026-02/2", "archive/2026-03/1"],
            "archive/2026-0": ["archive/2026-02/1", "archive/2026-02/2", "archive/2026-03/1"],
            "archive/2026-02/": ["archive/2026-02/1", "archive/2026-02/2"],
            "archive/2026-02/2": ["archive/2026-02/2"],
            "archived": ["archived/1"],
            "b": [],
            "archive/2026-02/1/": [],
        }.items():
            found = await _names(bucket, prefix)
            assert found == expected, f"prefix {prefix!r} listed {found}, not {expected}"

    async def test_listing_tells_size_and_age(self) -> None:
        bucket = await self.open_bucket(_new_key())
        await bucket.objects.create("seven", b"7 bytes")
        (info,) = [info async for info in bucket.objects.list()]
        assert info.size_bytes == 7, f"an object of 7 bytes is listed with {info.size_bytes}"
        assert info.modified_at.tzinfo is not None, "modified_at needs a time zone"
        age = datetime.now(UTC) - info.modified_at
        assert abs(age) < timedelta(hours=1), f"an object made just now is listed as {age} old"

    async def test_object_names_may_be_of_any_script(self) -> None:
        bucket = await self.open_bucket(_new_key())
        names = ["100% & more+more?#=", "naïve ñandú", "日本語/очередь.json"]
        for name in names:
            await bucket.objects.create(name, name.encode())
        assert await _names(bucket) == names, "a name must be listed as it was given"
        for name in names:
            assert await bucket.objects.read(name) == name.encode(), f"{name!r} holds something else"
            await bucket.objects.delete(name)
        assert await _names(bucket) == [], "all were deleted"

    async def test_listing_shows_only_this_queues_objects(self) -> None:
        folder = _new_key("")
        bucket = await self.open_bucket(f"{folder}jobs.json")
        await bucket.write(b"the queue itself")
        await bucket.objects.create("mine", b"")
        for sibling_key in ("jobs2.json", "jobs-old.json", "job.json"):
            sibling = await self.open_bucket(f"{folder}{sibling_key}")
            await sibling.write(b"a sibling")
            await sibling.objects.create("theirs", b"")
        found = await _names(bucket)
        assert found == ["mine"], f"listed {found}, though only 'mine' is this queue's"


async def check_storage(open_adapter: Open) -> None:
    """Run every check that fits the adapter; the first failure raises AssertionError.

    async def open(key):
        return MyStorage(bucket="test", key=key)

    asyncio.run(check_storage(open))
    """
    if not __debug__:
        raise RuntimeError("python -O leaves out the checks; run without it")
    is_bucket = isinstance(await open_adapter(_new_key()), Bucket)
    contract = _GivenContract(open_adapter)
    for contract_class in (StorageContract, BucketContract) if is_bucket else (StorageContract,):
        for name in [name for name in vars(contract_class) if name.startswith("test_")]:
            try:
                await getattr(contract, name)()
            except Exception as error:
                raise AssertionError(f"{name}: {error or repr(error)}") from error


class _GivenContract(BucketContract):
    def __init__(self, open_adapter: Open) -> None:
        self._open_adapter = open_adapter

    async def open(self, key: str) -> ObjectStoragePort:
        return await self._open_adapter(key)


def _new_key(name: str = "queue.json") -> str:
    return f"contract-{uuid.uuid4().hex}/{name}"


def _large(number: int) -> bytes:
    # Random bytes show a lost or swapped piece; seeded ones are the same at every call.
    return random.Random(number).randbytes(_LARGE_BYTES)


async def _is_refused(storage: ObjectStoragePort, content: bytes, if_match: str | None) -> bool:
    try:
        await storage.write(content, if_match)
    except CASConflictError:
        return True
    return False


async def _is_created(objects: Objects, name: str, content: bytes) -> bool:
    try:
        await objects.create(name, content)
    except ObjectExistsError:
        return False
    return True


async def _is_no_name(request: Awaitable[object]) -> bool:
    try:
        await request
    except (ObjectExistsError, ObjectNotFoundError):
        return False
    except StorageError:
        return True
    return False


async def _increment(counter: ObjectStoragePort) -> None:
    for _ in range(_INCREMENTS_EACH):
        while True:
            content, etag = await counter.read()
            try:
                await counter.write(str(int(content) + 1).encode(), etag)
                break
            except CASConflictError:
                continue
            except SlowDownError:
                # Clouds may take no more than one write a second to one object.
                await asyncio.sleep(1)


async def _names(bucket: Bucket, prefix: str = "") -> list[str]:
    return [info.name async for info in bucket.objects.list(prefix)]
