"""The file adapter on disks that take no write: full, over a limit, read-only; and a lock that stays held.

Each is the real thing: a small file system, a limit of the kernel, a stopped process.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import bucketq.sync
from bucketq import (
    DirectQueue,
    LocalFileSystemStorage,
    NotWrittenError,
    OutcomeUnknownError,
    Settings,
    StorageFullError,
    UnusableStorageError,
)
from bucketq.cli.__main__ import main
from bucketq.storage import file
from bucketq.verify import verify
from tests.acceptance.hosted import hosted
from tests.acceptance.served import WAYS, url_of

SIZE = 256 * 1024


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "bucketq-test", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("mount is not installed")
    if mounted.returncode:
        pytest.skip(f"file systems cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def impatient(storage: LocalFileSystemStorage) -> DirectQueue:
    return DirectQueue(storage, Settings(retry_for_s=0.1))


def fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as stream:
        while True:
            try:
                stream.write(bytes(4096))
            except OSError:
                return filler


async def test_a_full_disk_is_called_full_and_nothing_was_written(small_disk: Path) -> None:
    storage = LocalFileSystemStorage(small_disk / "queue.json")
    queue = impatient(storage)
    first = await queue.enqueue("mail", "x" * 5000)
    before = await storage.read()
    filler = fill(small_disk)
    with pytest.raises(StorageFullError, match=r"No space left on device; nothing was written\. Free"):
        await queue.enqueue("mail", "y" * 5000)
    assert await storage.read() == before
    assert not (small_disk / "queue.json.tmp").exists(), "it would take what little room there is"
    filler.unlink()
    second = await queue.enqueue("mail", "y" * 5000)
    assert [job.id async for job in queue.jobs()] == [first.id, second.id]
    assert (await verify(storage)).is_sound


async def test_a_disk_that_is_freed_in_time_is_no_error(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = LocalFileSystemStorage(small_disk / "queue.json")
    queue = DirectQueue(storage, Settings(retry_for_s=60))
    filler = fill(small_disk)
    enqueue = asyncio.create_task(queue.enqueue("mail", "x" * 5000))
    while "No space left" not in caplog.text:
        await asyncio.sleep(0.01)
    filler.unlink()
    job = await enqueue
    assert [one.id async for one in queue.jobs()] == [job.id]


async def test_a_payload_that_finds_no_room_beside_the_queue_is_called_that(small_disk: Path) -> None:
    storage = LocalFileSystemStorage(small_disk / "queue.json")
    with pytest.raises(StorageFullError, match="nothing was written"):
        await impatient(storage).enqueue("mail", bytes(SIZE))
    assert not [name for _, _, names in os.walk(small_disk) for name in names if name.endswith(".tmp")]


@pytest.mark.parametrize("way", WAYS)
def test_clients_of_a_broker_learn_of_its_full_disk(small_disk: Path, way: str) -> None:
    with hosted(f"file://{small_disk}/queue.json", settings=Settings(retry_for_s=0.1)) as broker:
        filler = fill(small_disk)
        with bucketq.sync.connect(url_of(way, broker)) as q:
            with pytest.raises(StorageFullError, match="nothing was written"):
                q.enqueue("mail", "x" * 5000)
            filler.unlink()
            job = q.enqueue("mail", "x" * 5000)
            assert [one.id for one in q.jobs()] == [job.id]


async def test_a_read_only_disk_is_called_that_at_once(small_disk: Path) -> None:
    storage = LocalFileSystemStorage(small_disk / "queue.json")
    queue = DirectQueue(storage, Settings(retry_for_s=3600))
    await queue.enqueue("mail")
    await asyncio.to_thread(subprocess.run, ["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(UnusableStorageError, match="Read-only file system"):
        await queue.enqueue("mail")


LIMITED = """
import resource, sys
from bucketq.cli.__main__ import main

resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
sys.exit(main())
"""


def test_a_limit_on_the_size_of_files_is_called_that(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/queue.json"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "enqueue", "mail", '"' + "x" * 5000 + '"', "--url", url],
        env={**os.environ, "BUCKETQ_RETRY_FOR_S": "0.1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "File too large; nothing was written" in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["queue.json.lock"]


HOLDER = """
import sys, time
from bucketq import LocalFileSystemStorage

with LocalFileSystemStorage(sys.argv[1])._locked():
    print("locked", flush=True)
    sys.stdin.read()
"""


@contextmanager
def stopped_holder(path: Path) -> "Iterator[subprocess.Popen[str]]":
    """A process that was stopped while it holds the lock of a queue."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        holder.send_signal(signal.SIGSTOP)
        # Until it really stands still.
        os.waitpid(holder.pid, os.WUNTRACED)
        yield holder
    finally:
        holder.send_signal(signal.SIGCONT)
        holder.communicate()


async def test_a_lock_that_a_stopped_process_holds_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "_LOCK_WAIT_S", 0.2)
    path = tmp_path / "queue.json"
    storage = LocalFileSystemStorage(path)
    queue = impatient(storage)
    first = await queue.enqueue("mail")
    with stopped_holder(path) as holder:
        with pytest.raises(
            NotWrittenError, match=r"queue\.json\.lock is held .* nothing was written"
        ) as caught:
            await queue.enqueue("mail")
        assert not isinstance(caught.value, OutcomeUnknownError)
        if sys.platform == "linux":
            assert f"process {holder.pid} (python" in str(caught.value)
            assert "stopped" in str(caught.value)
        # Who only reads needs no lock.
        assert [job.id async for job in queue.jobs()] == [first.id]
    second = await queue.enqueue("mail")
    assert [job.id async for job in queue.jobs()] == [first.id, second.id]


def test_the_command_line_gives_up_on_such_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(file, "_LOCK_WAIT_S", 0.2)
    monkeypatch.setenv("BUCKETQ_RETRY_FOR_S", "0.1")
    path = tmp_path / "queue.json"
    with stopped_holder(path) as holder:
        assert main(["enqueue", "mail", "--url", f"file://{path}"]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "queue.json.lock is held" in err
        if sys.platform == "linux":
            assert f"process {holder.pid} (python" in err
    assert not path.exists()
