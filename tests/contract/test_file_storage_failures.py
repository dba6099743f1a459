"""What the file storage says, and does not say, when the system fails after the rename."""

import asyncio
import errno
import fcntl
import os
import stat
import time

import pytest

from bucketq import DirectQueue, LocalFileSystemStorage, OutcomeUnknownError, Settings, StorageError
from bucketq.storage import file


@pytest.fixture
def storage(tmp_path):
    return LocalFileSystemStorage(tmp_path / "queue.json")


@pytest.fixture
def no_folder_is_flushed(monkeypatch):
    flush = os.fsync

    def fsync(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        flush(fd)

    monkeypatch.setattr(os, "fsync", fsync)


async def test_a_name_that_is_not_on_the_disk_is_not_read_as_if_it_were(
    storage, no_folder_is_flushed, monkeypatch
):
    with pytest.raises(StorageError, match="could not flush the folder"):
        await storage.write(b"new")
    with pytest.raises(StorageError, match="could not flush the folder"):
        await storage.read()
    with pytest.raises(StorageError, match="could not flush the folder"):
        await storage.read_if_changed(None)
    monkeypatch.undo()
    assert (await storage.read())[0] == b"new"


async def test_a_job_whose_name_is_not_on_the_disk_is_not_acknowledged(storage, no_folder_is_flushed):
    queue = DirectQueue(storage, Settings(retry_for_s=0.1))
    with pytest.raises(OutcomeUnknownError):
        await queue.enqueue("mail")


async def test_what_was_written_is_not_called_unwritten_because_unlocking_failed(storage, monkeypatch):
    lock = fcntl.flock

    def flock(fd, how):
        if how == fcntl.LOCK_UN:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        lock(fd, how)

    monkeypatch.setattr(file.fcntl, "flock", flock)
    etag = await storage.write(b"one")
    assert await storage.read() == (b"one", etag)
    # Closing the file has freed the lock.
    await storage.write(b"two", if_match=etag)


async def test_a_write_that_is_cancelled_waits_for_the_lock_no_longer(storage):
    with storage._locked():
        write = asyncio.create_task(storage.write(b"x"))
        await asyncio.sleep(0.1)
        write.cancel()
        with pytest.raises(asyncio.CancelledError):
            await write
        began_s = time.monotonic()
        # As the end of a process does.
        await asyncio.get_running_loop().shutdown_default_executor()
        assert time.monotonic() - began_s < 1
    assert not storage.path.exists()
