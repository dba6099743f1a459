"""LocalFileSystemStorage: a queue in a local file, safe between processes and crashes.

    lock queue.json.lock            one writer at a time, freed by the kernel on death
      etag still the expected one?  else CASConflictError
      write queue.json.tmp          fixed name: a crash leaves at most one, reused
      stamp its mtime, fsync it     the content is on disk before it has the name
      rename onto queue.json        readers see the old file or the new, never a mix
      fsync the folder              the name is on disk before anyone is answered
    unlock

The etag is the file's mtime and size. Each write stamps an mtime later than the one
it replaces, whatever the clock says, so no etag ever comes back, and checking one
costs a `stat` instead of reading and hashing the whole file.
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
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
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
from bucketq.storage.port import ObjectInfo, check_object_name, side_prefix

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
# Reading so much takes about as long as asking a thread to.
_AT_ONCE_BYTES = 128 * 1024

log = logging.getLogger("bucketq")


class LocalFileSystemStorage:
    """A queue in one local file; parent folders are made on the first write.

    For POSIX systems (Linux, macOS), on a local disk, not on NFS.

    >>> storage = LocalFileSystemStorage("/var/lib/myapp/queue.json")
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        # Resolved, because renaming onto a symlink would replace the link, not its target.
        self.path = Path(path).expanduser().resolve()
        self.url = f"file://{self.path}"
        if not self.path.name:
            raise StorageError(f"{self.path} is not a file name")
        # How many renames there were, and how many are certainly on the disk. Until all are, nothing is read.
        self._renames = self._flushed = 0
        self.objects = LocalObjects(self.path.parent / side_prefix(self.path.name))

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
            fd = os.open(f"{self.path}.lock", os.O_RDONLY | os.O_CLOEXEC)
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
            with open(self.path, "rb") as file:
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
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            try:
                # One copy of some hundred kilobytes is cheaper than a system call for each piece.
                _write_all(fd, b"".join(pieces))
                if current:
                    os.fchmod(fd, current.st_mode & 0o7777)
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
        fd = os.open(f"{self.path}.lock", os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
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
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(found.st_mode):
            meant = f"a folder; name a file in it, such as {self.path / 'queue.json'}"
            raise UnusableStorageError(
                f"{self.path} is {meant if stat.S_ISDIR(found.st_mode) else 'not a regular file; name one'}"
            )
        return found


class LocalObjects:
    """The objects beside a file queue: files below a folder of the queue's name.

    Listing also removes the temporary files that crashes have left, once they are a day old.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self, name: str) -> bytes:
        return await asyncio.to_thread(self._read, self._path(name))

    async def create(self, name: str, content: bytes) -> None:
        await asyncio.to_thread(self._create, self._path(name), content)

    async def list(self, prefix: str = "") -> AsyncIterator[ObjectInfo]:
        walk = self._walk("", prefix)
        while found := await asyncio.to_thread(lambda: list(islice(walk, 1000))):
            for info in found:
                yield info

    async def delete(self, name: str) -> None:
        await asyncio.to_thread(self._delete, self._path(name))

    def _path(self, name: str) -> Path:
        check_object_name(name)
        return self._folder / name

    def _read(self, path: Path) -> bytes:
        with _storage_errors(f"read {path}"):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                raise ObjectNotFoundError(f"no object at {path}") from None

    def _create(self, path: Path, content: bytes) -> None:
        with _unwritten_errors(f"create {path}"):
            _make_folder(path.parent)
            # A name that begins with "." is never listed, so nobody sees half an object.
            temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
            try:
                fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
                try:
                    _write_all(fd, content)
                    _flush(fd)
                finally:
                    os.close(fd)
                with _opened_folder(path.parent) as folder_fd:
                    os.link(temporary, path)
                    _flush_name(folder_fd, path)
            except FileExistsError:
                raise ObjectExistsError(f"there is already an object at {path}") from None
            finally:
                temporary.unlink(missing_ok=True)

    def _delete(self, path: Path) -> None:
        with _storage_errors(f"delete {path}"):
            path.unlink(missing_ok=True)

    def _walk(self, folder: str, prefix: str) -> Iterator[ObjectInfo]:
        with _storage_errors(f"list {self._folder / folder}"):
            try:
                entries = list(os.scandir(self._folder / folder))
            except FileNotFoundError:
                return
            # With the "/" a folder sorts where its contents' names do.
            named = sorted((f"{e.name}/" if e.is_dir() else e.name, e) for e in entries)
            for name, entry in named:
                full = folder + name
                if name.startswith("."):
                    if _TEMPORARY_NAME.fullmatch(name):
                        _remove_if_old(entry)
                    continue
                if name.endswith("/"):
                    if full.startswith(prefix) or prefix.startswith(full):
                        yield from self._walk(full, prefix)
                elif full.startswith(prefix):
                    # It may have been deleted since the folder was read.
                    with suppress(FileNotFoundError):
                        found = entry.stat()
                        modified_at = datetime.fromtimestamp(found.st_mtime, UTC)
                        yield ObjectInfo(full, found.st_size, modified_at)


def _remove_if_old(temporary: "os.DirEntry[str]") -> None:
    # Quietly: whoever lists has asked for something else.
    with suppress(OSError):
        age_s = time.time() - temporary.stat(follow_symlinks=False).st_mtime
        if age_s > _TEMPORARY_AGE_MAX_S:
            os.unlink(temporary)


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
def _opened_folder(folder: Path) -> Iterator[int]:
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


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
        kind = UnusableStorageError if error.errno == errno.EROFS else StorageError
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
            if isinstance(error, _NAMED) or error.errno == errno.EROFS:
                raise
            raise NotWrittenError(failed, error) from error
