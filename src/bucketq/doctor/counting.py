"""Counting: several processes write to one object as fast as they can, and no write may be lost.

    doctor ──▶ counter ──┐
           ──▶ counter ──┼──▶ one probe: {"1": 17, "2": 16, "3": 19}
           ──▶ counter ──┘

A server that looks at a condition, and writes a moment later, is found out here alone.
"""

import asyncio
import json
import os
import pickle
import signal
import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from bucketq.doctor.counter import Order, Tally, numbers_in
from bucketq.doctor.finding import Finding, Level
from bucketq.doctor.room import Room
from bucketq.errors import StorageError
from bucketq.storage.proof import WHY

ABOUT = "concurrent writes"

_PROCESSES = 3
_TIMES = 40
_FOR_S = 5.0
# Beyond that a process hangs: to start takes a second or two, and a request 10 at most.
_GIVE_UP_S = 45.0


async def check_counting(room: Room) -> AsyncIterator[Finding]:
    """Let processes count together; tell what was lost. Raises StorageError."""
    probe = room.open("count")
    await probe.write(b"{}")
    orders = [
        Order(room.url("count"), room.options, str(number), _TIMES, _FOR_S)
        for number in range(1, _PROCESSES + 1)
    ]
    try:
        async with asyncio.timeout(_GIVE_UP_S):
            tallies = await _count(orders)
    except TimeoutError:
        raise StorageError(f"the processes were not ready within {_GIVE_UP_S:g} s") from None
    total = _sum(tallies)
    if not (total.lost or total.garbled):
        # The last writes of one may have been lost to another after its last look.
        numbers = numbers_in((await probe.read())[0]) or {}
        pairs = zip(orders, tallies, strict=True)
        total.lost = sum(max(0, tally.number - numbers.get(order.who, 0)) for order, tally in pairs)
    yield _finding(total)


def _sum(tallies: list[Tally]) -> Tally:
    return Tally(
        landed=sum(tally.landed for tally in tallies),
        refused=sum(tally.refused for tally in tallies),
        lost=sum(tally.lost for tally in tallies),
        garbled=sum(tally.garbled for tally in tallies),
        failure=next((tally.failure for tally in tallies if tally.failure), ""),
    )


def _finding(total: Tally) -> Finding:
    told = f"{_PROCESSES} processes wrote {total.landed} times to one object"
    if total.lost or total.garbled:
        found = f"{told}: {total.lost} of the writes were lost, {total.garbled} reads gave what nobody wrote"
        return Finding(ABOUT, Level.PROBLEM, found, WHY)
    if total.failure:
        raise StorageError(f"{told}, and then could not go on: {total.failure}")
    found = f"{told}, were refused {total.refused} times because another was faster, and lost nothing"
    if not total.refused:
        advice = "They never met, so this proves little. Run it again when the machine has less to do."
        return Finding(ABOUT, Level.NOTE, found, advice)
    return Finding(ABOUT, Level.OK, found)


async def _count(orders: list[Order]) -> list[Tally]:
    pickled = list(map(_pickled, orders))
    async with _started(len(orders)) as processes:
        for process, order in zip(processes, pickled, strict=True):
            _tell(process, order)
        for process in processes:
            await _line(process)
        for process in processes:
            _tell(process, b"go\n")
        tallies = [Tally(**json.loads(await _line(process))) for process in processes]
        for process in processes:
            await process.wait()
        return tallies


@asynccontextmanager
async def _started(count: int) -> AsyncIterator[list[Process]]:
    command = sys.executable, "-m", "bucketq.doctor.counter"
    processes: list[Process] = []
    try:
        for _ in range(count):
            processes += [await create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)]
        yield processes
    finally:
        for process in processes:
            if process.returncode is None:
                # Not by process.kill(), which may take its end away from asyncio, and that complains.
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
            # This also reads what is left in its pipes, so that it can end.
            await process.communicate()


def _pickled(order: Order) -> bytes:
    try:
        return pickle.dumps(order)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        # Such as a session, with its locks; keys and tokens go.
        raise StorageError(f"these storage options cannot go to other processes: {error}") from error


def _tell(process: Process, said: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(said)


async def _line(process: Process) -> bytes:
    assert process.stdout is not None
    assert process.stderr is not None
    if line := await process.stdout.readline():
        return line
    said = (await process.stderr.read()).decode(errors="replace").strip()
    raise StorageError(f"a process that was to write could not: {said.rpartition(chr(10))[2]}")
