"""LocalFileSystemStorage: a queue in a local file, safe between processes and crashes.

    lock queue.json.lock            one writer at a time, freed by the kernel on death
      etag still the expected one?  else CASConflictError
      write queue.json.tmp          fixed name: a crash leaves at most one, removed
      stamp its mtime, fsync it     the content is on disk before it has the name
      rename onto queue.json        readers see the old file or the new, never a mix
      fsync the folder              the name is on disk before anyone is answered
    unlock

The etag is the file's mtime and size. Each write stamps an mtime later than the one
it replaces, whatever the clock says, so no etag ever comes back, and checking one
costs a `stat` instead of reading and hashing the whole file.

Other users may be able to write to the folder. So no link is followed there or below it, but for
queue.json itself when the queue is opened (decision 0022).
"""

import asyncio
import errno
import fcntl
import logging
import os
import re
import stat
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path

from bucketq.errors import (
    AccessDeniedError,
    CASConflictError,
    NotWrittenError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    StorageFullError,
    UnusableStorageError,
)
from bucketq.storage.file_watch import FileWatch
from bucketq.storage.port import BEFORE_READING, ObjectInfo, check_object_name, side_prefix

_TEMPORARY_NAME = re.compile(r"\.[0-9a-f]{32}\.tmp")
_TEMPORARY_AGE_MAX_S = 24 * 3600
_LONG_S = 5.0
# A commit tries again until `retry_for_s` is over. A broker names the holder before its lead ends by it.
_LOCK_WAIT_S = 3.0
# A write takes about a millisecond where a disk is quick.
_LOCK_POLL_S = 0.0005
_LOCK_POLL_MAX_S = 0.004
# Errors of the system that have a name of their own here.
_NAMED = (PermissionError, FileNotFoundError, NotADirectoryError, IsADirectoryError)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Errors that no second try cures.
_LASTING = (errno.EROFS, errno.ELOOP)
# Reading so much takes about as long as asking a thread to.
_AT_ONCE_BYTES = 128 * 1024

log = logging.getLogger("bucketq")


class LocalFileSystemStorage:
    """A queue in one local file; parent folders are made on the first write.

    For POSIX systems (Linux, macOS), on a local disk, not on NFS.

    >>> storage = LocalFileSystemStorage("/var/lib/myapp/queue.json")
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        given = Path(path).expanduser()
        if given.is_symlink() and given.lstat().st_uid not in (0, os.geteuid()):
            raise UnusableStorageError(
                f"{given} is a symbolic link that another user made, and could point anywhere. Pass the path"
                f" of its target, or make the link yourself"
            )
        # Resolved, because renaming onto a symlink would replace the link, not its target.
        self.path = given.resolve()
        self.url = f"file://{self.path}"
        if not self.path.name:
            raise StorageError(f"{self.path} is not a file name")
        # How many renames there were, and how many are certainly on the disk. Until all are, nothing is read.
        self._renames = self._flushed = 0
        self.objects = LocalObjects(self.path, self._stat)

    async def read(self) -> tuple[bytes, str | None]:
        return await asyncio.to_thread(self._read)

    async def read_if_changed(self, etag: str | None) -> tuple[bytes, str | None] | None:
        if self._flushed < self._renames:
            await asyncio.to_thread(self._flush_again)
        # One stat, and what was just written is in memory: cheaper than the hop to a thread that would
        # keep it off the loop.
        current = self._look()
        if etag == (_etag_of(current) if current else None):
            return None
        return self._read() if current and current.st_size <= _AT_ONCE_BYTES else await self.read()

    async def write(self, content: bytes | Sequence[bytes], if_match: str | None = None) -> str:
        pieces = [content] if isinstance(content, bytes) else content
        warning = asyncio.get_running_loop().call_later(_LONG_S, self._warn)
        given_up = threading.Event()
        try:
            return await asyncio.to_thread(self._write, pieces, if_match, given_up)
        finally:
            # A process that ends waits for its threads.
            given_up.set()
            warning.cancel()

    def lock_holder(self, wait_s: float = 1.0) -> str | None:
        """Which process has held the lock for so long, as "by process …"; None if the lock became free."""
        try:
            fd = _open(f"{self.path}.lock", os.O_RDONLY)
        except OSError:
            # There is none, or it cannot be looked at: whoever writes gets the reason.
            return None
        try:
            until_s = time.monotonic() + wait_s
            while not _has_locked(fd):
                if time.monotonic() > until_s:
                    return _spell_holder(fd)
                time.sleep(_LOCK_POLL_MAX_S)
        finally:
            os.close(fd)
        return None

    def watch(self) -> FileWatch:
        return FileWatch(self.path, self._etag)

    def _warn(self) -> None:
        log.warning(
            "a write to %s takes long: the disk is slow, or a process stands still that holds %s.lock",
            self.path,
            self.path,
        )

    def _read(self) -> tuple[bytes, str | None]:
        self._flush_again()
        with _storage_errors(f"read {self.path}"):
            if self._stat() is None:
                return b"", None
            with open(self.path, "rb", opener=_open) as file:
                return file.read(), _etag_of(os.fstat(file.fileno()))

    def _write(self, pieces: Sequence[bytes], if_match: str | None, given_up: threading.Event) -> str:
        with _unwritten_errors(f"write {self.path}"), self._locked(given_up):
            current = self._stat()
            found = _etag_of(current) if current else None
            if found != if_match:
                raise CASConflictError(f"{self.path} is at etag {found}, not {if_match}")
            return self._replace(pieces, current)

    def _replace(self, pieces: Sequence[bytes], current: os.stat_result | None) -> str:
        temporary = f"{self.path}.tmp"
        try:
            fd = _open_new(temporary, current)
        except FileExistsError:
            # A crash left it, or it is a link to another file: never opened.
            os.unlink(temporary)
            fd = _open_new(temporary, current)
        try:
            try:
                _share(fd, current)
                # One copy of some hundred kilobytes is cheaper than a system call for each piece.
                _write_all(fd, b"".join(pieces))
                _stamp_later_than(fd, current.st_mtime_ns if current else 0)
                etag = _etag_of(os.fstat(fd))
                _flush(fd)
            finally:
                os.close(fd)
            # Opened before the rename: after it nothing may fail that could have failed sooner.
            with _opened_folder(self.path.parent) as folder_fd:
                os.rename(temporary, self.path)
                self._renames += 1
                self._flush_names(folder_fd)
        except OSError:
            # On a full disk it would take the room that other writers need.
            with suppress(OSError):
                os.unlink(temporary)
            raise
        return etag

    def _flush_again(self) -> None:
        if self._flushed < self._renames:
            with _storage_errors(f"read {self.path}"), _opened_folder(self.path.parent) as folder_fd:
                self._flush_names(folder_fd)

    def _flush_names(self, folder_fd: int) -> None:
        # Another thread may rename meanwhile.
        renames = self._renames
        _flush_name(folder_fd, self.path)
        self._flushed = max(self._flushed, renames)

    @contextmanager
    def _locked(self, given_up: threading.Event | None = None) -> Iterator[None]:
        _make_folder(self.path.parent)
        # Opened anew each time: flock belongs to the open file, and threads must not share one.
        fd = _open(f"{self.path}.lock", os.O_RDONLY | os.O_CREAT)
        try:
            self._lock(fd, given_up or threading.Event())
            try:
                yield
            finally:
                # A child that was forked meanwhile holds a copy: closing ours would not unlock. A failure
                # says nothing about what was written, and closing is all that is left.
                with suppress(OSError):
                    fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            os.close(fd)

    def _lock(self, fd: int, given_up: threading.Event) -> None:
        """Take the lock. Raises NotWrittenError if another process keeps it."""
        if _has_locked(fd):
            return
        until_s = time.monotonic() + _LOCK_WAIT_S
        pause_s = _LOCK_POLL_S
        # The kernel's own wait for a lock has no deadline, and a thread in it would keep its process alive.
        while not _has_locked(fd):
            if time.monotonic() > until_s or given_up.is_set():
                raise NotWrittenError(
                    f"could not write {self.path}: {self.path}.lock is held {_spell_holder(fd)} for more than"
                    f" {_LOCK_WAIT_S:g} s; nothing was written. Resume or end that process, and try again."
                    " Do not delete the lock file."
                )
            given_up.wait(pause_s)
            pause_s = min(pause_s * 1.2, _LOCK_POLL_MAX_S)

    def _etag(self) -> str | None:
        current = self._look()
        return _etag_of(current) if current else None

    def _look(self) -> os.stat_result | None:
        with _storage_errors(f"look at {self.path}"):
            return self._stat()

    def _stat(self) -> os.stat_result | None:
        try:
            found = os.lstat(self.path)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            what = {
                stat.S_IFDIR: f"a folder; name a file in it, such as {self.path / 'queue.json'}",
                stat.S_IFLNK: "now a symbolic link. Open the queue again if it is yours",
            }
            kind = stat.S_IFMT(found.st_mode)
            raise UnusableStorageError(f"{self.path} is {what.get(kind, 'not a regular file; name one')}")
        return found


class LocalObjects:
    """The objects beside a file queue: files below a folder of the queue's name.

    Listing also removes the temporary files that crashes have left, once they are a day old.
    """

    def __init__(self, queue: Path, stat_queue: Callable[[], os.stat_result | None]) -> None:
        self._queue = queue
        self._stat_queue = stat_queue
        self._folder = queue.parent / side_prefix(queue.name)

    async def read(self, name: str) -> bytes:
        check_object_name(name)
        if (before_reading := BEFORE_READING.get()) is not None:
            try:
                size = await asyncio.to_thread(self._size, name)
            except OSError:
                size = 0  # `_read` below gives the reason.
            await before_reading(name, size)
        return await asyncio.to_thread(self._read, name)

    async def create(self, name: str, content: bytes) -> None:
        check_object_name(name)
        await asyncio.to_thread(self._create, name, content)

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        walk = self._walk("", prefix)
        while found := await asyncio.to_thread(lambda: list(islice(walk, 1000))):
            for info in found:
                yield info

    async def delete(self, name: str) -> None:
        check_object_name(name)
        await asyncio.to_thread(self._delete, name)

    @contextmanager
    def _folder_of(self, name: str, *, makes: bool = False) -> Iterator[tuple[int, str]]:
        """The folder of an object, opened, and the object's name in it.

        Each folder on the way is opened from the one above it, so that none of them is a link.
        """
        *folders, last = f"{self._folder.name}/{name}".split("/")
        with ExitStack() as opened:
            fd = opened.enter_context(_opened_folder(self._queue.parent))
            for folder in folders:
                if makes:
                    self._make(folder, fd)
                fd = opened.enter_context(_opened_folder(folder, fd))
            yield fd, last

    def _make(self, folder: str, above_fd: int) -> None:
        """Make a folder, unless there is one; it is on disk before it is used."""
        try:
            os.mkdir(folder, dir_fd=above_fd)
        except FileExistsError:
            return
        with _opened_folder(folder, above_fd) as fd:
            _share(fd, self._stat_queue())
        _flush(above_fd)

    def _size(self, name: str) -> int:
        with self._folder_of(name) as (folder_fd, last):
            return os.stat(last, dir_fd=folder_fd, follow_symlinks=False).st_size

    def _read(self, name: str) -> bytes:
        with _storage_errors(f"read {self._folder / name}"):
            try:
                with (
                    self._folder_of(name) as (folder_fd, last),
                    open(last, "rb", opener=partial(_open, folder_fd=folder_fd)) as file,
                ):
                    return file.read()
            except FileNotFoundError:
                raise ObjectNotFoundError(f"no object at {self._folder / name}") from None

    def _create(self, name: str, content: bytes) -> None:
        path = self._folder / name
        with _unwritten_errors(f"create {path}"):
            _make_folder(self._queue.parent)
            with self._folder_of(name, makes=True) as (folder_fd, last):
                # A name that begins with "." is never listed, so nobody sees half an object.
                temporary = f".{uuid.uuid4().hex}.tmp"
                try:
                    queue = self._stat_queue()
                    fd = _open_new(temporary, queue, folder_fd)
                    try:
                        _share(fd, queue)
                        _write_all(fd, content)
                        _flush(fd)
                    finally:
                        os.close(fd)
                    both = {"src_dir_fd": folder_fd, "dst_dir_fd": folder_fd}
                    os.link(temporary, last, **both, follow_symlinks=False)
                    _flush_name(folder_fd, path)
                except FileExistsError:
                    raise ObjectExistsError(f"there is already an object at {path}") from None
                finally:
                    with suppress(FileNotFoundError):
                        os.unlink(temporary, dir_fd=folder_fd)

    def _delete(self, name: str) -> None:
        with (
            _storage_errors(f"delete {self._folder / name}"),
            suppress(FileNotFoundError),
            self._folder_of(name) as (folder_fd, last),
        ):
            os.unlink(last, dir_fd=folder_fd)

    def _walk(self, folder: str, prefix: str) -> Iterator[ObjectInfo]:
        with _storage_errors(f"list {self._folder / folder}"), ExitStack() as opened:
            try:
                folder_fd, _ = opened.enter_context(self._folder_of(folder))
            except FileNotFoundError:
                return
            # With the "/" a folder sorts where its contents' names do. A link to one is an error below.
            named = sorted((f"{e.name}/" if e.is_dir() else e.name, e) for e in os.scandir(folder_fd))
            for name, entry in named:
                full = folder + name
                if name.startswith("."):
                    if _TEMPORARY_NAME.fullmatch(name):
                        _remove_if_old(entry, folder_fd)
                    continue
                if name.endswith("/"):
                    if full.startswith(prefix) or prefix.startswith(full):
                        yield from self._walk(full, prefix)
                elif full.startswith(prefix):
                    # It may have been deleted since the folder was read.
                    with suppress(FileNotFoundError):
                        found = entry.stat(follow_symlinks=False)
                        modified_at = datetime.fromtimestamp(found.st_mtime, UTC)
                        yield ObjectInfo(full, found.st_size, modified_at)


def _remove_if_old(temporary: "os.DirEntry[str]", folder_fd: int) -> None:
    # Quietly: whoever lists has asked for something else.
    with suppress(OSError):
        age_s = time.time() - temporary.stat(follow_symlinks=False).st_mtime
        if age_s > _TEMPORARY_AGE_MAX_S:
            os.unlink(temporary.name, dir_fd=folder_fd)


def _etag_of(found: os.stat_result) -> str:
    return f"{found.st_mtime_ns:x}-{found.st_size:x}"


def _stamp_later_than(fd: int, previous_ns: int) -> None:
    wanted_ns = max(time.time_ns(), previous_ns + 1)
    step_ns = 1
    os.utime(fd, ns=(wanted_ns, wanted_ns))
    # Some file systems keep whole seconds: step further until the stamp really is later.
    while os.fstat(fd).st_mtime_ns <= previous_ns:
        step_ns *= 1000
        os.utime(fd, ns=(previous_ns + step_ns, previous_ns + step_ns))


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def _flush(fd: int) -> None:
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync there does not reach the platter
    else:
        os.fsync(fd)


def _flush_name(folder_fd: int, path: Path) -> None:
    """Bring a new name to the disk. A failure is no OSError: what has the name may stay, or be lost."""
    try:
        _flush(folder_fd)
    except OSError as error:
        raise StorageError(f"could not flush the folder of {path}: {error.strerror}", error) from error


def _make_folder(folder: Path) -> None:
    """Make the folder, and those above it that are missing; each is on disk before it is used."""
    if not folder.exists():
        _make_folder(folder.parent)
        with _opened_folder(folder.parent) as parent_fd:
            folder.mkdir(exist_ok=True)
            _flush(parent_fd)


@contextmanager
def _opened_folder(folder: str | Path, above_fd: int | None = None) -> Iterator[int]:
    """A folder, opened; below another one it must not be a link."""
    if above_fd is None:
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    else:
        fd = _open(str(folder), os.O_RDONLY | os.O_DIRECTORY, folder_fd=above_fd)
    try:
        yield fd
    finally:
        os.close(fd)


def _open(name: str, flags: int, mode: int = 0o666, folder_fd: int | None = None) -> int:
    """Open what has this name, but no link: another user may have made it."""
    try:
        # Of files, O_NONBLOCK changes nothing; without it a pipe that another user made stops us for ever.
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(name, flags, mode, dir_fd=folder_fd)
    except OSError as error:
        # Linux answers ENOTDIR to O_DIRECTORY.
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            found = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                reason = f"{name} is a symbolic link, and none is followed here. Replace it by its target"
                raise OSError(errno.ELOOP, reason) from error
        raise


def _open_new(name: str, queue: os.stat_result | None, folder_fd: int | None = None) -> int:
    # What is private is so from the beginning.
    mode = 0o600 if queue else 0o666
    return _open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, folder_fd)


def _share(fd: int, queue: os.stat_result | None) -> None:
    """Give a new file or folder the mode and group of queue.json, so that the same users can use it."""
    if queue is None:
        return
    made = os.fstat(fd)
    mode = queue.st_mode & 0o777
    if made.st_gid != queue.st_gid:
        try:
            os.fchown(fd, -1, queue.st_gid)
        except OSError:
            # This process is not in that group. Its own group may do what everybody may.
            mode = mode & 0o707 | (mode & 0o007) << 3
    if stat.S_ISDIR(made.st_mode):
        # To read files is to enter their folder.
        mode |= 0o700 | (mode & 0o444) >> 2
    os.fchmod(fd, mode | made.st_mode & 0o7000)


def _has_locked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _spell_holder(fd: int) -> str:
    """Which process holds the lock of an open file, as far as the kernel shows it.

    A process in another container, or on a system without /proc, is not shown.
    """
    found = os.fstat(fd)
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    with suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text().splitlines():
            # "1: FLOCK  ADVISORY  WRITE 4242 fe:00:2146704 0 EOF"; who waits for one has "->" in it.
            match line.split():
                case [_, "FLOCK", _, _, pid, at, *_] if at == place:
                    status = dict(
                        one.split(":\t", 1) for one in Path(f"/proc/{pid}/status").read_text().splitlines()
                    )
                    state = status["State"].partition("(")[2].rstrip(")")
                    return f"by process {pid} ({status['Name']}, {state}) of this machine"
    return "by another process (`fuser` or `lslocks` may name it)"


@contextmanager
def _storage_errors(doing: str) -> Iterator[None]:
    """Raise what the system reports as an error of the storage."""
    try:
        yield
    except PermissionError as error:
        raise AccessDeniedError(f"may not {doing}: {error.strerror}", error) from error
    except _NAMED as error:
        raise UnusableStorageError(f"cannot {doing}: {error.strerror}", error) from error
    except OSError as error:
        kind = UnusableStorageError if error.errno in _LASTING else StorageError
        raise kind(f"could not {doing}: {error.strerror}", error) from error


@contextmanager
def _unwritten_errors(doing: str) -> Iterator[None]:
    """The same where a failure leaves everything as it was."""
    with _storage_errors(doing):
        try:
            yield
        except OSError as error:
            failed = f"could not {doing}: {error.strerror}; nothing was written."
            if error.errno in _FULL:
                advice = "Free some space, or raise the quota or limit, and try again."
                raise StorageFullError(f"{failed} {advice}", error) from error
            if isinstance(error, _NAMED) or error.errno in _LASTING:
                raise
            raise NotWrittenError(failed, error) from error
