"""The file adapter: crashes at any point, full disks, clocks that go back, links and permissions."""

import errno
import os
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from types import SimpleNamespace
from typing import Any

import pytest

from bucketq import BrokerQueue, DirectQueue
from bucketq.errors import (
    AccessDeniedError,
    CASConflictError,
    NotWrittenError,
    ObjectExistsError,
    StorageError,
    UnusableStorageError,
)
from bucketq.storage import LocalFileSystemStorage, file
from tests.contract.endless_writer import number_of, version


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "queue.json"


class Crash(BaseException):
    """The process ends here: nothing that catches errors sees it."""


class FaultyOS:
    """The `os` module, but `before` is called with the name and arguments of each system call."""

    CALLS = ("open", "write", "fchmod", "utime", "fsync", "rename", "link", "unlink")

    def __init__(self, before: Callable[..., Any]) -> None:
        self._before = before

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)
        if name not in self.CALLS:
            return function

        def call(*arguments: Any, **options: Any) -> Any:
            answer = self._before(name, *arguments)
            return function(*arguments, **options) if answer is None else answer

        return call


def _crash_at(number: int) -> Callable[..., None]:
    calls = iter(range(1000))

    def before(*call: Any) -> None:
        if next(calls) == number:
            raise Crash

    return before


def _count_calls(monkeypatch: pytest.MonkeyPatch, calls: list[str]) -> None:
    def before(name: str, *arguments: Any) -> None:
        calls.append(name)

    monkeypatch.setattr(file, "os", FaultyOS(before))


async def test_crash_between_any_two_system_calls_leaves_old_or_new(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    storage = LocalFileSystemStorage(path)
    etag = await storage.write(b"0")
    _count_calls(monkeypatch, calls)
    etag = await storage.write(b"1", etag)
    assert {"open", "write", "utime", "fsync", "rename"} <= set(calls)
    seen = set()
    for number in range(len(calls)):
        old, new = f"old {number}".encode() * 10, f"new {number}".encode()
        monkeypatch.setattr(file, "os", os)
        etag = await storage.write(old, etag)
        monkeypatch.setattr(file, "os", FaultyOS(_crash_at(number)))
        with pytest.raises(Crash):
            await storage.write(new, etag)
        monkeypatch.setattr(file, "os", os)
        successor = LocalFileSystemStorage(path)
        content, found = await successor.read()
        assert content in (old, new), f"crashed before {calls[number]}, call {number} of {calls}"
        assert (found == etag) == (content == old)
        etag = await successor.write(b"next", found)
        assert await successor.read() == (b"next", etag)
        seen.add(content == old)
    assert seen == {True, False}, "crashes before the rename leave the old, and after it the new"


async def test_content_reaches_the_disk_before_its_name_does(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    storage = LocalFileSystemStorage(path)
    etag = await storage.write(b"0")
    _count_calls(monkeypatch, calls)
    await storage.write(b"1", etag)
    steps = [call for call in calls if call in ("write", "fsync", "rename")]
    assert steps == ["write", "fsync", "rename", "fsync"]


@pytest.mark.parametrize("failing", ["open", "write", "fchmod", "utime", "fsync", "rename"])
async def test_full_disk_leaves_the_old_content(
    path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    storage = LocalFileSystemStorage(path)
    etag = await storage.write(b"old")

    def before(name: str, *arguments: Any) -> None:
        if name == failing:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file, "os", FaultyOS(before))
    with pytest.raises(
        StorageError, match=r"could not write .*queue\.json: No space left on device"
    ) as caught:
        await storage.write(b"new", etag)
    assert isinstance(caught.value.cause, OSError)
    monkeypatch.setattr(file, "os", os)
    assert await storage.read() == (b"old", etag)
    await storage.write(b"new", etag)


async def test_a_failure_after_the_rename_is_not_called_unwritten(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalFileSystemStorage(path)
    etag = await storage.write(b"old")
    flushed = []

    def before(name: str, *arguments: Any) -> None:
        if name == "fsync":
            flushed.append(arguments)
            if len(flushed) == 2:
                raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(file, "os", FaultyOS(before))
    with pytest.raises(StorageError, match="could not flush the folder") as caught:
        await storage.write(b"new", etag)
    assert not isinstance(caught.value, NotWrittenError)
    monkeypatch.setattr(file, "os", os)
    assert (await storage.read())[0] == b"new"


async def test_disk_that_fills_up_halfway_leaves_the_old_content(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalFileSystemStorage(path)
    etag = await storage.write(b"old")
    written = []

    def before(name: str, *arguments: Any) -> int | None:
        if name != "write":
            return None
        if written:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(os.write(arguments[0], arguments[1][:2]))
        return written[0]

    monkeypatch.setattr(file, "os", FaultyOS(before))
    with pytest.raises(StorageError, match="No space left"):
        await storage.write(b"new", etag)
    monkeypatch.setattr(file, "os", os)
    assert written == [2]
    assert await storage.read() == (b"old", etag)


async def test_short_writes_are_continued(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def before(name: str, *arguments: Any) -> int | None:
        return os.write(arguments[0], arguments[1][:3]) if name == "write" else None

    storage = LocalFileSystemStorage(path)
    monkeypatch.setattr(file, "os", FaultyOS(before))
    etag = await storage.write(b"ten bytes.")
    assert await storage.read() == (b"ten bytes.", etag)


async def test_forbidden_folder_is_access_denied(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # By a fault and not by chmod, because root may write everywhere.
    def before(name: str, *arguments: Any) -> None:
        if name == "open":
            raise PermissionError(errno.EACCES, "Permission denied")

    storage = LocalFileSystemStorage(path)
    monkeypatch.setattr(file, "os", FaultyOS(before))
    with pytest.raises(AccessDeniedError, match=r"may not write .*queue\.json: Permission denied"):
        await storage.write(b"new")
    with pytest.raises(AccessDeniedError, match=r"may not create .*name: Permission denied"):
        await storage.objects.create("name", b"new")


def _write_until_killed(path: Path, when: float) -> None:
    """Let a process write to the file, and kill it in the midst of its third write: 0 early, 1 late."""
    script = Path(__file__).with_name("endless_writer.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(script), str(path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.read(1) == b"."
        started_s = time.monotonic()
        assert writer.stdout.read(1) == b"."
        time.sleep(when * (time.monotonic() - started_s))
        writer.kill()


async def test_killed_writer_leaves_a_whole_file_and_no_lock(path: Path) -> None:
    number = 0
    for when in range(12):
        _write_until_killed(path, when / 12)
        storage = LocalFileSystemStorage(path)
        content, etag = await storage.read()
        assert number_of(content) >= number + 2, "an acknowledged write is gone"
        number = number_of(content)
        assert content == version(number), "the file is torn"
        await storage.write(content, etag)


async def test_leftover_of_a_crash_does_no_harm(path: Path) -> None:
    leftover = path.with_name("queue.json.tmp")
    leftover.write_bytes(b"left over, and longer than what comes next")
    storage = LocalFileSystemStorage(path)
    assert await storage.read() == (b"", None)
    etag = await storage.write(b"new")
    assert await storage.read() == (b"new", etag)
    assert not leftover.exists()


@pytest.mark.parametrize("clock", ["stands still", "goes back"])
async def test_etags_never_repeat(path: Path, monkeypatch: pytest.MonkeyPatch, clock: str) -> None:
    nanoseconds = iter(range(10**18, 0, -(10**12) if clock == "goes back" else -1))
    monkeypatch.setattr(file, "time", SimpleNamespace(time_ns=lambda: next(nanoseconds)))
    storage = LocalFileSystemStorage(path)
    etags = [await storage.write(b"equal")]
    for _ in range(20):
        etags.append(await storage.write(b"equal", etags[-1]))
    assert len(set(etags)) == len(etags)
    with pytest.raises(CASConflictError):
        await storage.write(b"equal", etags[-2])


async def test_etags_never_repeat_where_times_are_whole_seconds(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CoarseOS(FaultyOS):
        @staticmethod
        def utime(fd: int, ns: tuple[int, int]) -> None:
            whole_ns = ns[0] // 10**9 * 10**9
            os.utime(fd, ns=(whole_ns, whole_ns))

    monkeypatch.setattr(file, "os", CoarseOS(lambda *call: None))
    storage = LocalFileSystemStorage(path)
    etags = [await storage.write(b"equal")]
    for _ in range(5):
        etags.append(await storage.write(b"equal", etags[-1]))
    assert len(set(etags)) == len(etags)


async def test_write_returns_the_etag_that_a_later_process_reads(path: Path) -> None:
    etag = await LocalFileSystemStorage(path).write(b"content")
    time_ns = os.stat(path).st_mtime_ns
    assert await LocalFileSystemStorage(path).read() == (b"content", etag)
    assert os.stat(path).st_mtime_ns == time_ns <= time.time_ns()


async def test_permissions_are_kept(path: Path) -> None:
    storage = LocalFileSystemStorage(path)
    etag = await storage.write(b"1")
    os.chmod(path, 0o604)
    _, etag = await storage.read()
    await storage.write(b"2", etag)
    assert os.stat(path).st_mode & 0o777 == 0o604


async def test_link_is_kept_and_its_target_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "disk" / "real.json", tmp_path / "link.json"
    target.parent.mkdir()
    link.symlink_to(target)
    etag = await LocalFileSystemStorage(link).write(b"by the link")
    assert link.is_symlink()
    assert await LocalFileSystemStorage(target).read() == (b"by the link", etag)
    assert sorted(os.listdir(tmp_path)) == ["disk", "link.json"]


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file that only the broker may read and write."""
    victim = tmp_path / "elsewhere" / "victim"
    victim.parent.mkdir()
    victim.write_bytes(b"secret")
    return victim


def _is_untouched(victim: Path) -> bool:
    return os.listdir(victim.parent) == ["victim"] and victim.read_bytes() == b"secret"


async def test_a_link_in_the_place_of_the_temporary_file_is_removed_and_not_followed(
    path: Path, victim: Path
) -> None:
    path.with_name("queue.json.tmp").symlink_to(victim)
    storage = LocalFileSystemStorage(path)
    etag = await storage.write(b"new")
    assert await storage.read() == (b"new", etag)
    assert _is_untouched(victim)


async def test_a_link_in_the_place_of_the_lock_is_refused(path: Path, victim: Path) -> None:
    path.with_name("queue.json.lock").symlink_to(victim.with_name("new"))
    storage = LocalFileSystemStorage(path)
    with pytest.raises(UnusableStorageError, match=r"queue\.json\.lock is a symbolic link"):
        await storage.write(b"new")
    assert not victim.with_name("new").exists()
    assert storage.lock_holder() is None


async def test_a_link_that_replaces_the_queue_is_refused(path: Path, victim: Path) -> None:
    storage = LocalFileSystemStorage(path)
    etag = await storage.write(b"old")
    os.unlink(path)
    os.symlink(victim, path)
    for request in (
        storage.read(),
        storage.read_if_changed(etag),
        storage.write(b"new", etag),
        storage.objects.create("name", b""),
    ):
        with pytest.raises(UnusableStorageError, match="now a symbolic link"):
            await request
    assert _is_untouched(victim)


async def test_a_queue_is_a_link_only_if_its_user_or_root_made_it(
    path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.symlink(victim, path)
    assert LocalFileSystemStorage(path).path == victim
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    # Links that root made are followed by everybody.
    if os.lstat(path).st_uid == 0:
        assert LocalFileSystemStorage(path).path == victim
        os.chown(path, 4712, -1, follow_symlinks=False)
    with pytest.raises(UnusableStorageError, match=r"queue\.json is a symbolic link that another user made"):
        LocalFileSystemStorage(path)


async def test_the_folder_of_a_queue_may_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "mounted").symlink_to(tmp_path / "volume")
    storage = LocalFileSystemStorage(tmp_path / "mounted" / "queue.json")
    await storage.write(b"1")
    await storage.objects.create("payloads/1", b"content")
    assert await storage.objects.read("payloads/1") == b"content"
    assert [info.name async for info in storage.objects.list()] == ["payloads/1"]


async def test_links_below_the_queue_are_never_followed(path: Path, victim: Path) -> None:
    objects = LocalFileSystemStorage(path).objects
    await objects.create("payloads/1", b"content")
    folder = path.with_suffix("")
    (folder / "payloads" / "link").symlink_to(victim)
    (folder / "archive").symlink_to(victim.parent)
    for name in ("payloads/link", "archive/victim"):
        with pytest.raises(UnusableStorageError, match="is a symbolic link, and none is followed here"):
            await objects.read(name)
    for request in (
        objects.create("archive/new", b""),
        objects.create("archive/folder/new", b""),
        objects.delete("archive/victim"),
        anext(objects.list("archive/")),
    ):
        with pytest.raises(UnusableStorageError, match="archive is a symbolic link"):
            await request
    with pytest.raises(ObjectExistsError):
        await objects.create("payloads/link", b"")
    # A link is removed like any object that nothing refers to; what it leads to stays.
    assert [(info.name, info.size_bytes) async for info in objects.list("payloads/")] == [
        ("payloads/1", 7),
        ("payloads/link", os.lstat(folder / "payloads" / "link").st_size),
    ]
    await objects.delete("payloads/link")
    assert not (folder / "payloads" / "link").is_symlink()
    assert _is_untouched(victim)


async def test_a_side_folder_that_is_a_link_is_refused(path: Path, victim: Path) -> None:
    path.with_suffix("").symlink_to(victim.parent)
    objects = LocalFileSystemStorage(path).objects
    for request in (objects.read("victim"), objects.create("new", b""), anext(objects.list())):
        with pytest.raises(UnusableStorageError, match="queue is a symbolic link"):
            await request


@pytest.mark.parametrize(
    ("mode", "of_folder"), [(0o600, 0o700), (0o640, 0o750), (0o664, 0o775), (0o444, 0o755)]
)
async def test_side_objects_take_the_mode_of_the_queue(path: Path, mode: int, of_folder: int) -> None:
    storage = LocalFileSystemStorage(path)
    await storage.write(b"1")
    os.chmod(path, mode)
    await storage.objects.create("payloads/1", b"content")
    found = [path.parent / "queue", path.parent / "queue" / "payloads", path.parent / "queue/payloads/1"]
    assert [stat.S_IMODE(one.stat().st_mode) for one in found] == [of_folder, of_folder, mode]


async def test_what_is_written_takes_the_group_of_the_queue_or_less(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[tuple[int, int]] = []
    storage = LocalFileSystemStorage(path)
    etag = await storage.write(b"1")
    os.chmod(path, 0o660)
    group = os.stat(path).st_gid + 1

    class OtherGroupOS(FaultyOS):
        """Where queue.json belongs to another group."""

        @staticmethod
        def lstat(path: Path) -> Any:
            fields = {name: getattr(os.lstat(path), name) for name in ("st_mode", "st_size", "st_mtime_ns")}
            return SimpleNamespace(**fields, st_gid=group)

        @staticmethod
        def fchown(fd: int, user: int, group: int) -> None:
            chosen.append((user, group))
            if len(chosen) > 4:
                raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(file, "os", OtherGroupOS(lambda *call: None))
    etag = await storage.write(b"2", etag)
    await storage.objects.create("payloads/1", b"content")
    assert chosen == [(-1, group)] * 4, "queue.json, two folders and an object"
    assert stat.S_IMODE((path.parent / "queue/payloads/1").stat().st_mode) == 0o660
    # Not a member of that group: its own group must not read what it could not read before.
    await storage.objects.create("payloads/2", b"content")
    assert stat.S_IMODE((path.parent / "queue/payloads/2").stat().st_mode) == 0o600


async def test_private_content_is_never_readable_by_others_while_it_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalFileSystemStorage(path)
    etag = await storage.write(b"1")
    os.chmod(path, 0o600)
    modes: list[int] = []

    def before(name: str, *arguments: Any) -> None:
        if name in ("write", "fchmod"):
            modes.append(os.fstat(arguments[0]).st_mode & 0o077)

    monkeypatch.setattr(file, "os", FaultyOS(before))
    await storage.write(b"2", etag)
    await storage.objects.create("1", b"content")
    # The new folder, too, is empty until its mode is that of the queue.
    assert len(modes) == 5
    assert sum(map(bool, modes)) <= 1


async def test_crash_in_a_create_shows_nothing_or_all(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    objects = LocalFileSystemStorage(path).objects
    await objects.create("first", b"content")
    _count_calls(monkeypatch, calls)
    await objects.create("second/object", b"content")
    assert "link" in calls
    for number in range(len(calls)):
        folder = f"crash {number}/"
        monkeypatch.setattr(file, "os", FaultyOS(_crash_at(number)))
        with pytest.raises(Crash):
            await objects.create(f"{folder}object", b"content")
        monkeypatch.setattr(file, "os", os)
        names = [info.name async for info in objects.list(folder)]
        assert set(names) <= {f"{folder}object"}
        if names:
            with pytest.raises(ObjectExistsError):
                await objects.create(f"{folder}object", b"other")
        else:
            await objects.create(f"{folder}object", b"content")
        assert await objects.read(f"{folder}object") == b"content"


async def test_new_folders_reach_the_disk_before_what_is_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalFileSystemStorage(tmp_path / "a" / "b" / "queue.json")
    queue_folder, side_folder = tmp_path / "a" / "b", tmp_path / "a" / "b" / "queue"
    steps: list[str | int] = []

    def before(name: str, *arguments: Any) -> None:
        if name in ("rename", "link"):
            steps.append(name)
        elif name == "fsync" and stat.S_ISDIR((found := os.fstat(arguments[0])).st_mode):
            steps.append(found.st_ino)

    def inodes(*folders: Path) -> list[int]:
        return [os.stat(folder).st_ino for folder in folders]

    monkeypatch.setattr(file, "os", FaultyOS(before))
    etag = await storage.write(b"1")
    assert steps == [*inodes(tmp_path, tmp_path / "a"), "rename", *inodes(queue_folder)]
    steps.clear()
    await storage.write(b"2", etag)
    assert steps == ["rename", *inodes(queue_folder)]
    steps.clear()
    await storage.objects.create("c/d/object", b"")
    made_in = inodes(queue_folder, side_folder, side_folder / "c")
    assert steps == [*made_in, "link", *inodes(side_folder / "c" / "d")]
    steps.clear()
    await storage.objects.create("c/d/another", b"")
    assert steps == ["link", *inodes(side_folder / "c" / "d")]


async def test_half_made_objects_are_not_listed(path: Path) -> None:
    objects = LocalFileSystemStorage(path).objects
    await objects.create("folder/whole", b"")
    (path.with_suffix("") / "folder" / ".1234.tmp").write_bytes(b"half")
    assert [info.name async for info in objects.list()] == ["folder/whole"]


async def _leave_temporary(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Crash in a create, before its temporary file is removed."""

    def crash(name: str, *arguments: Any) -> None:
        if name == "unlink":
            raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(file, "os", FaultyOS(crash))
        await LocalFileSystemStorage(path).objects.create("folder/object", b"content")
    (left,) = (path.with_suffix("") / "folder").glob(".*")
    return left


def _set_age(path: Path, hours: float) -> None:
    modified_s = time.time() - hours * 3600
    os.utime(path, (modified_s, modified_s), follow_symlinks=False)


async def test_temporary_that_a_crash_left_is_removed_after_a_day(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = LocalFileSystemStorage(path).objects
    left = await _leave_temporary(path, monkeypatch)
    for hours, is_kept in ((-1, True), (0, True), (23.9, True), (24.1, False)):
        _set_age(left, hours)
        assert [info.name async for info in objects.list()] == ["folder/object"]
        assert left.exists() == is_kept, f"{hours} hours old"
    assert await objects.read("folder/object") == b"content"


async def test_nothing_else_that_is_hidden_is_ever_removed(path: Path) -> None:
    objects = LocalFileSystemStorage(path).objects
    await objects.create("object", b"content")
    folder, token = path.with_suffix(""), "0123456789abcdef" * 2
    others = [".keep", ".1234.tmp", f".{token}", f".{token}.tmp~", f".{token.upper()}.tmp", f"{token}.tmp"]
    for name in others:
        (folder / name).touch()
    (folder / f".{token}.tmp").mkdir()
    for entry in folder.iterdir():
        _set_age(entry, hours=1000)
    before = sorted(os.listdir(folder))
    assert [info.name async for info in objects.list()] == [f"{token}.tmp", "object"]
    assert sorted(os.listdir(folder)) == before


async def test_listing_does_without_removing_what_it_may_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = await _leave_temporary(path, monkeypatch)
    _set_age(left, hours=25)
    refused = []

    def before(name: str, *arguments: Any) -> None:
        if name == "unlink":
            refused.append(arguments[0])
            raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(file, "os", FaultyOS(before))
    objects = LocalFileSystemStorage(path).objects
    assert [info.name async for info in objects.list()] == ["folder/object"]
    assert refused == [left.name]


async def test_a_long_listing_is_complete(tmp_path: Path) -> None:
    objects = LocalFileSystemStorage(tmp_path / "queue.json").objects
    folder = tmp_path / "queue" / "many"
    folder.mkdir(parents=True)
    for number in range(2500):
        (folder / f"{number:04}").touch()
    assert [info.name async for info in objects.list()] == [f"many/{number:04}" for number in range(2500)]


async def test_a_folder_that_cannot_be_flushed_is_found_out_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = LocalFileSystemStorage(tmp_path / "queue.json")
    etag = await storage.write(b"old")
    open_file = os.open

    def refuse_folder(path: str, *args: int, **options: Any) -> int:
        if Path(path) == tmp_path:
            raise PermissionError(13, "Permission denied")
        return open_file(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse_folder)
    with pytest.raises(AccessDeniedError):
        await storage.write(b"new", etag)
    assert (await storage.read())[0] == b"old"


async def test_a_file_without_content_is_an_empty_queue(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.mknod(path)
    async with BrokerQueue(LocalFileSystemStorage(path)) as q:
        assert await q.dequeue() == []
        await q.enqueue("mail")
        assert not caplog.records
        os.truncate(path, 0)
        assert (await q.stats()).queued == 0
        assert "queue.json is empty: somebody emptied it" in caplog.text
    assert (await DirectQueue(LocalFileSystemStorage(path)).enqueue("mail")).status == "queued"


async def test_a_pipe_of_another_user_stops_no_one(tmp_path):
    storage = LocalFileSystemStorage(tmp_path / "queue.json")
    (tmp_path / "queue/payloads").mkdir(parents=True)
    for name in ("queue.json.lock", "queue/payloads/a"):
        os.mkfifo(tmp_path / name)
    pipes = [one for one in tmp_path.rglob("*") if one.is_fifo()]
    # A reader that waits is let in by a writer, and then reads the end.
    rescue = Timer(2, lambda: [os.close(os.open(one, os.O_RDWR)) for one in pipes])
    rescue.start()
    try:
        await storage.write(b"{}")
        assert rescue.is_alive()
        assert await storage.objects.read("payloads/a") == b""
    finally:
        rescue.cancel()
