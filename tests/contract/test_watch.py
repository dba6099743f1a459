"""Whoever waits for another process's write is told at once, and costs nothing until then."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from bucketq import (
    BrokerQueue,
    CASConflictError,
    DirectQueue,
    InMemoryStorage,
    LocalFileSystemStorage,
    Settings,
)
from bucketq.clock import SystemClock
from bucketq.lookout import Lookout
from bucketq.testing.virtual_time import VirtualClock, virtual_time

# Nobody looks by chance: a poll comes long after the test has failed.
PATIENT = Settings(poll_interval_s=60)
SOON_S = 20
ENQUEUE = """
import sys, bucketq.sync
with bucketq.sync.connect(sys.argv[1]) as q:
    q.enqueue("mail", 7)
"""
DEQUEUE = """
import sys, bucketq.sync
with bucketq.sync.connect(sys.argv[1], settings=bucketq.Settings(poll_interval_s=60)) as q:
    q.stats()
    print("waiting", flush=True)
    print(q.dequeue("mail", wait=60)[0].json(), flush=True)
"""
WATCH_WITHOUT_DESCRIPTORS = """
import asyncio, os, resource, sys
from bucketq import LocalFileSystemStorage
async def main():
    storage = LocalFileSystemStorage(sys.argv[1])
    etag = (await storage.read())[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
    try:
        os.open(sys.argv[1], os.O_RDONLY)
    except OSError as error:
        print(error.errno, "waiting", flush=True)
    await storage.watch().changed(etag)
    print("told", flush=True)
asyncio.run(main())
"""


@contextmanager
def took_less_than(limit_s):
    began_s = time.monotonic()
    yield
    assert time.monotonic() - began_s < limit_s


def descriptors():
    found = {}
    for fd in os.listdir("/proc/self/fd"):
        # That of the listing is closed by now.
        with suppress(FileNotFoundError):
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
    return found


@pytest.fixture(params=["file", "memory"])
def two(request, tmp_path):
    """Two adapters of one object."""
    if request.param == "memory":
        storage = InMemoryStorage()
        return storage, storage
    path = tmp_path / "queue.json"
    return LocalFileSystemStorage(path), LocalFileSystemStorage(path)


@pytest.mark.parametrize("kind", [BrokerQueue, DirectQueue])
@pytest.mark.parametrize("folder", ["", "not/there/yet/"])
async def test_a_waiting_dequeue_is_woken_by_another_process(tmp_path, kind, folder):
    storage = LocalFileSystemStorage(f"{tmp_path}/{folder}queue.json")
    async with kind(storage, settings=PATIENT) as q:
        waiting = asyncio.create_task(q.dequeue("mail", wait=60))
        await asyncio.sleep(0.1)
        with took_less_than(SOON_S):
            enqueuing = await asyncio.create_subprocess_exec(sys.executable, "-c", ENQUEUE, storage.url)
            [job] = await waiting
        assert job.json() == 7
        assert await enqueuing.wait() == 0


async def test_all_who_wait_are_told(two):
    here, there = two
    etag = await there.write(b"1")
    watches = [here.watch(), here.watch()]
    waiting = [asyncio.create_task(watch.changed(etag)) for watch in watches for _ in range(3)]
    await asyncio.sleep(0.1)
    assert not any(task.done() for task in waiting)
    waiting.pop().cancel()
    await there.write(b"2", etag)
    await asyncio.wait_for(asyncio.gather(*waiting), SOON_S)
    for watch in watches:
        assert watch.has_changed(etag)
        await asyncio.wait_for(watch.changed(etag), SOON_S)
        watch.close()


async def test_what_happened_before_the_wait_is_told_too(two):
    here, there = two
    watch = here.watch()
    etag = await there.write(b"1")
    await asyncio.wait_for(watch.changed(None), SOON_S)
    later = await there.write(b"2", etag)
    await asyncio.wait_for(watch.changed(etag), SOON_S)
    assert not watch.has_changed(later)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(watch.changed(later), 0.1)
    watch.close()


async def test_another_threads_write_is_told(two):
    here, there = two
    etag = await there.write(b"1")
    watch = here.watch()
    waiting = asyncio.create_task(watch.changed(etag))
    await asyncio.sleep(0.1)
    writing = threading.Thread(target=lambda: asyncio.run(there.write(b"2", etag)))
    writing.start()
    await asyncio.wait_for(waiting, SOON_S)
    writing.join()
    watch.close()


def test_where_the_kernel_has_no_watch_left_the_file_is_looked_at(tmp_path):
    path = tmp_path / "queue.json"
    asyncio.run(LocalFileSystemStorage(path).write(b"1"))
    command = [sys.executable, "-c", WATCH_WITHOUT_DESCRIPTORS, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout.readline() == "24 waiting\n"
        (tmp_path / "other.json").write_bytes(b"22")
        os.replace(tmp_path / "other.json", path)
        with took_less_than(SOON_S):
            assert watching.stdout.readline() == "told\n"


@pytest.fixture
def little_garbage():
    """Leave alone what other tests keep: to look through all of it takes a second, each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.skipif(sys.platform != "linux", reason="it has no /proc")
@pytest.mark.usefixtures("little_garbage")
async def test_a_closed_queue_leaves_no_descriptor(tmp_path):
    def watches():
        return sum("inotify" in what for what in descriptors().values())

    async def wait_once(number):
        # A DirectQueue has no end, but when it is forgotten its watch is gone too.
        gc.collect()
        before = watches()
        async with BrokerQueue(LocalFileSystemStorage(tmp_path / f"{number}.json")) as q:
            await asyncio.gather(*(q.dequeue("mail", wait=0.05) for _ in range(3)))
            waiting = asyncio.create_task(q.dequeue("mail", wait=60))
            await asyncio.sleep(0.05)
            assert watches() == before + 1
        await asyncio.gather(waiting, return_exceptions=True)
        assert watches() == before
        direct = DirectQueue(LocalFileSystemStorage(tmp_path / f"{number}.json"))
        assert await direct.dequeue("mail", wait=0.05) == []

    await wait_once(0)
    gc.collect()
    before = descriptors()
    for number in range(1, 6):
        await wait_once(number)
    gc.collect()
    # Sockets of earlier tests may be closed meanwhile.
    assert descriptors().items() <= before.items()


class Counted(LocalFileSystemStorage):
    """A file at which looks and conflicts are counted."""

    looks = conflicts = 0

    async def read_if_changed(self, etag):
        self.looks += 1
        return await super().read_if_changed(etag)

    async def write(self, content, if_match=None):
        try:
            return await super().write(content, if_match)
        except CASConflictError:
            self.conflicts += 1
            raise


async def test_a_process_does_not_look_at_its_own_writes(tmp_path):
    storage = Counted(tmp_path / "queue.json")
    async with BrokerQueue(storage, settings=PATIENT) as q:
        await q.enqueue("other")
        waiting = asyncio.create_task(q.dequeue("mail", wait=60))
        await asyncio.sleep(0.05)
        looks = storage.looks
        for number in range(50):
            await q.enqueue("other", number)
        await asyncio.sleep(0.05)
        assert storage.looks == looks
        with took_less_than(SOON_S):
            await q.enqueue("mail")
            assert len(await waiting) == 1


async def test_a_producer_that_was_outdated_does_not_run_into_a_conflict(tmp_path):
    storage = Counted(tmp_path / "queue.json")
    async with BrokerQueue(storage) as q, BrokerQueue(storage) as other:
        for number in range(10):
            await q.enqueue("mail", number)
            await other.enqueue("mail", number)
    assert storage.conflicts == 0


class AlwaysNew:
    """A storage to which somebody writes without end."""

    def watch(self):
        return self

    def has_changed(self, etag):
        return True

    async def changed(self, etag):
        await asyncio.sleep(0)

    def close(self):
        pass


@pytest.mark.parametrize(("look_s", "looks"), [(0.0, 2000), (0.001, 99), (0.1, 18)])
@virtual_time
async def test_looking_in_vain_takes_a_hundredth_of_the_time(look_s, looks):
    lookout, count = Lookout(AlwaysNew(), VirtualClock()), 0
    while asyncio.get_running_loop().time() < 10:
        assert await lookout.wait("1", 60)
        with lookout.looking():
            await asyncio.sleep(look_s)
        count += 1
    assert count == pytest.approx(looks, rel=0.05)


@pytest.mark.parametrize("why", ["a rest", "a write"])
@virtual_time
async def test_the_first_change_after_a_rest_or_a_write_is_told_at_once(why):
    lookout, loop = Lookout(AlwaysNew(), VirtualClock()), asyncio.get_running_loop()
    with lookout.looking():
        await asyncio.sleep(0.004)
    if why == "a rest":
        await asyncio.sleep(1)
    else:
        lookout.wrote()
    began_s = loop.time()
    assert await lookout.wait("1", 60)
    assert loop.time() == began_s


async def test_a_storage_that_cannot_tell_is_looked_at_after_a_while():
    class TwoMethods:
        async def read(self):
            return b"", None

        async def write(self, content, if_match=None):
            return "1"

    lookout = Lookout(TwoMethods(), SystemClock())
    assert not lookout.has_changed("1")
    assert not await lookout.wait("1", 0.01)


async def test_a_file_in_trouble_is_left_to_whoever_looks(tmp_path):
    storage = LocalFileSystemStorage(tmp_path / "queue.json")
    storage.path.mkdir()
    lookout = Lookout(storage, SystemClock())
    assert lookout.has_changed("1")
    with took_less_than(SOON_S):
        assert not await lookout.wait("1", 0.05)
    lookout.close()


def test_a_dequeue_without_async_is_woken_too(tmp_path):
    url = f"file://{tmp_path}/queue.json"
    with subprocess.Popen([sys.executable, "-c", DEQUEUE, url], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout.readline() == "waiting\n"
        with took_less_than(SOON_S):
            subprocess.run([sys.executable, "-c", ENQUEUE, url], check=True)
            assert worker.stdout.readline() == "7\n"
    assert worker.returncode == 0
