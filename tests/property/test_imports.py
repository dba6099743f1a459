"""Files that share jobs, imported in any order and at once, while jobs are finished: each comes once."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from bucketq import BrokerQueue, InMemoryStorage, Job, Settings
from bucketq.archive import Archive
from bucketq.mint import Mint
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from bucketq.transfer import intake, take_in
from bucketq.transfer.line import FORMAT, Beginning, End, encode_line
from bucketq.verify import verify
from tests.property.machine import examples

TINY = Settings(hot_jobs_max=4, hot_bytes_max=800, segment_jobs_max=5, archive_jobs_max=5, retry_for_s=600)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
POOL = [
    Job(id=Mint(Random(number)).job_id(NOW + timedelta(minutes=number)), entrypoint="mail", created_at=NOW)
    for number in range(60)
]
FILE = st.sets(st.integers(0, len(POOL) - 1), min_size=1)
# Files that are imported together, and how many jobs are finished meanwhile.
STEPS = st.lists(st.tuples(st.lists(FILE, max_size=3), st.integers(0, 20)), min_size=1, max_size=4)


def written(folder, numbers):
    path = Path(folder) / "-".join(map(str, sorted(numbers)))[:200]
    lines = [
        Beginning(bucketq_export=FORMAT),
        *(POOL[number] for number in sorted(numbers)),
        End(jobs=len(numbers)),
    ]
    path.write_bytes(b"".join(encode_line(line) + b"\n" for line in lines))
    return path


def queue(storage):
    return BrokerQueue(storage, settings=TINY, clock=VirtualClock())


async def imported(storage, path):
    async with queue(storage) as q:
        return await take_in(q, path)


async def finished(storage, count):
    async with queue(storage) as q:
        for _ in range(count):
            await q.ack_many(await q.dequeue(wait=0.1))


@settings(max_examples=examples(40))
@given(STEPS, st.integers(0, 1000))
@virtual_time
async def test_each_job_of_some_files_comes_into_the_queue_once(steps, seed):
    with TemporaryDirectory() as folder, patch.object(intake, "_PART_LINES", 7):
        storage, told = InMemoryStorage(), list[intake.Intake]()
        for files, count in steps:
            imports = (imported(storage, written(folder, numbers)) for numbers in files)
            *more, _ = await asyncio.gather(*imports, finished(storage, count))
            told += more
        wanted = {POOL[number].id for files, _ in steps for numbers in files for number in numbers}
        state = await queue(storage).read_state()
        there = Counter(job.id for job in state.jobs)
        there.update([job.id async for job in Archive(storage).jobs()])
        assert there == Counter(wanted)
        assert state.enqueued_total == sum(one.added for one in told) == len(wanted)
        assert (await verify(storage)).is_sound or not wanted
