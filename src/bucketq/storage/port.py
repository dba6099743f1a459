"""What bucketq asks of a storage.

`ObjectStoragePort` is all a queue needs: two methods over one object. The adapters
that ship with bucketq are a `Bucket`: they can also take the content in pieces, tell
"unchanged" without sending it again, and reach other objects beside the queue's own. Those
on this machine are `Watchable` too: they tell when somebody has written. Those in a cloud are
`Provable`: they find out whether their server keeps its word.

    jobs.json          the queue: read, write (compare-and-set)
    jobs/…             its other objects: read, create, list, delete
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from bucketq.errors import StorageError

_NAME_BYTES_MAX = 250

# What a reader that limits its memory waits for, given the name and the size of an object, before its
# content is read. An adapter knows the size without one more request.
BEFORE_READING = ContextVar[Callable[[str, int], Awaitable[None]] | None]("BEFORE_READING", default=None)


@runtime_checkable
class ObjectStoragePort(Protocol):
    """One object that is read whole and replaced by compare-and-set.

    Any object with these two methods is a storage; `bucketq.testing.StorageContract`
    checks that it behaves like one.
    """

    async def read(self) -> tuple[bytes, str | None]:
        """Return (content, etag), or (b"", None) while the object does not exist."""
        ...

    async def write(self, content: bytes, if_match: str | None = None) -> str:
        """Replace the object if its etag is still `if_match`; return the new etag.

        With `if_match=None` the object is created, and only if it does not exist.
        Raises CASConflictError when the condition does not hold, StorageError when
        the storage fails.
        """
        ...


class ObjectInfo(NamedTuple):
    """A listed object: its name below the queue's folder, its size, its age."""

    name: str
    size_bytes: int
    modified_at: datetime


class ObjectPage(NamedTuple):
    """Some of the objects of a listing, by name, and whether there are more behind them."""

    objects: list[ObjectInfo]
    has_more: bool


class Objects(Protocol):
    """The objects beside a queue. They are created once and never changed.

    A name is made of parts joined by "/", see `check_object_name`.
    """

    async def read(self, name: str) -> bytes:
        """Return the object's content. Raises ObjectNotFoundError."""
        ...

    async def create(self, name: str, content: bytes) -> None:
        """Create the object. Raises ObjectExistsError if there is one already."""
        ...

    def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        """Yield the objects whose name begins with `prefix`, in no promised order."""
        ...

    async def delete(self, name: str) -> None:
        """Remove the object; removing what is not there is no error."""
        ...


@runtime_checkable
class Bucket(ObjectStoragePort, Protocol):
    """A storage that ships with bucketq: the two methods, and three abilities more."""

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        """The port's `write`, which also takes the content in pieces."""
        ...

    @property
    def objects(self) -> Objects:
        """The objects beside this queue."""
        ...

    async def read_if_changed(self, etag: str | None) -> tuple[bytes, str | None] | None:
        """Return None if the object still has this etag, else what `read` returns."""
        ...


class Watch(Protocol):
    """Tells of changes of one object, until it is closed."""

    def has_changed(self, etag: str | None) -> bool:
        """Whether the object has another etag than this one, at next to no cost."""
        ...

    async def changed(self, etag: str | None) -> None:
        """Return once the object has another etag than this one."""
        ...

    def close(self) -> None:
        """Let go of whatever it tells by."""
        ...


@runtime_checkable
class Provable(Protocol):
    """A storage whose server may turn out to be none for a queue; it is proven before the first write."""

    async def prove(self) -> None:
        """Return if it is one, or if that cannot be tried. Raises UnusableStorageError."""
        ...


@runtime_checkable
class Watchable(Protocol):
    """A storage that tells of changes, so that nobody has to look again and again."""

    def watch(self) -> Watch:
        """Begin to watch the object."""
        ...


def describe(storage: ObjectStoragePort) -> str:
    """The storage's URL if it has one, else its type, for error messages."""
    return str(getattr(storage, "url", type(storage).__name__))


def endpoint_of(storage: ObjectStoragePort) -> str | None:
    """Where the storage's server is, if that was said; else it is the cloud's own."""
    endpoint_url: str | None = getattr(storage, "endpoint_url", None)
    return endpoint_url


def check_object_name(name: str) -> None:
    """Raise StorageError for a name that a storage would change, hide, or look for elsewhere.

    >>> check_object_name("archive/7.json")
    >>> check_object_name("../queue.json")
    Traceback (most recent call last):
    bucketq.errors.StorageError: '../queue.json' is no object name: empty part, or one that begins with '.'
    """
    if any(part.startswith(".") or not part for part in name.split("/")):
        raise StorageError(f"{name!r} is no object name: empty part, or one that begins with '.'")
    # Brokers are asked for names of all kinds. Not every system takes longer ones.
    if not name.isprintable() or "\\" in name or len(name.encode()) > _NAME_BYTES_MAX:
        raise StorageError(f"{name[:100]!r} is no object name: a strange character, or too long")


def side_prefix(key: str) -> str:
    """Where the objects beside `key` live: `queues/jobs.json` -> `queues/jobs/`.

    >>> side_prefix("queues/jobs.json")
    'queues/jobs/'
    >>> side_prefix("jobs")
    'jobs.d/'
    """
    stem = key.removesuffix(".json")
    return f"{stem}/" if stem != key else f"{key}.d/"
