"""Chronicle: every write that real processes tried, kept, and the ones that landed, found.

A process that is killed cannot tell whether its last write landed, but the queue can: each
version names the writer of the one before. So each attempt is put down before it is sent, and
afterwards the chain is followed back from the last version.
"""

import pickle
import struct
import time
from dataclasses import dataclass

from bucketq import QueueState
from bucketq.codec import decode
from tests.sim.record import Version

_HEAD = struct.Struct("<dq")


class Chronicle:
    """A storage that puts each write down in a log before it sends it."""

    def __init__(self, storage, log):
        self._storage = storage
        self._log = open(log, "ab", buffering=0)  # noqa: SIM115 (open as long as the process lives)
        self.objects = _Objects(storage.objects, log.with_suffix(".objects"))

    def close(self):
        self._log.close()
        self.objects.close()

    async def read(self):
        return await self._storage.read()

    async def read_if_changed(self, etag):
        return await self._storage.read_if_changed(etag)

    async def write(self, content, if_match=None):
        whole = content if isinstance(content, bytes) else b"".join(content)
        self._log.write(_HEAD.pack(time.monotonic(), len(whole)) + whole)
        return await self._storage.write(whole, if_match)


class _Objects:
    """The objects beside the queue; each is put down before it is created."""

    def __init__(self, objects, log):
        self._objects = objects
        self._log = open(log, "ab", buffering=0)  # noqa: SIM115 (open as long as the process lives)
        self.read, self.list, self.delete = objects.read, objects.list, objects.delete

    def close(self):
        self._log.close()

    async def create(self, name, content):
        self._log.write(pickle.dumps((name, content)))
        await self._objects.create(name, content)


@dataclass
class _Attempt:
    at_s: float
    by: str
    content: bytes
    state: QueueState


def read_versions(folder, final):
    """The versions that landed, first to last, given the last one's content."""
    attempts = {}
    for log in sorted(folder.glob("*.writes")):
        for at_s, content in _entries(log):
            state = decode(content)
            [(writer, mark)] = [
                item for item in state.signatures.writers.items() if item[1].version == state.version
            ]
            tries = attempts.setdefault((state.version, writer), {})
            tries[mark.number] = _Attempt(at_s, writer, content, state)
    state = decode(final)
    [writer] = _authors(state, state.version)
    versions = [attempts[state.version, writer][state.signatures.writers[writer].number]]
    while versions[-1].state.version > 1:
        following = versions[-1]
        wanted = following.state.version - 1
        authors = [
            name for name, mark in following.state.signatures.writers.items() if mark.version == wanted
        ]
        # No such name: it wrote the following version too, and its name moved on with it.
        author = authors[0] if authors else following.by
        tries = attempts[wanted, author]
        number = following.state.signatures.writers[author].number if authors else max(tries)
        versions.append(tries[number])
    objects = dict(entry for log in folder.glob("*.objects") for entry in read_pickles(log))
    whole = [Version.of(landed.at_s, landed.by, landed.content, objects) for landed in reversed(versions)]
    return [Version(0.0, "nobody", QueueState()), *whole]


def _authors(state, version):
    return [writer for writer, mark in state.signatures.writers.items() if mark.version == version]


def read_pickles(log):
    """What a process put down one after another; a kill may have cut the last one short."""
    with log.open("rb") as entries:
        while True:
            try:
                yield pickle.load(entries)
            except (EOFError, pickle.UnpicklingError):
                return


def _entries(log):
    content = log.read_bytes()
    at = 0
    while at + _HEAD.size <= len(content):
        at_s, length = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        # A kill may have cut the last one short; then it was never sent.
        if at + length <= len(content):
            yield at_s, content[at : at + length]
        at += length
