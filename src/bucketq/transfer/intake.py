"""Intake: an export, or a queue file, is read into a queue.

    file ──▶ looked through: every line can be read, and the last one is there
         ──▶ part ──▶ commit     with the name of the load, and the line that it has come to
         ──▶ part ──▶ commit
         ──▶ …

The name of the load is made of what the file says. So the same file adds nothing twice, also when
its jobs are finished meanwhile; and after an interruption the next try goes on where the last commit
was. A job that is in the queue by the same id stays as it is, whatever file it came from.
"""

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from msgspec.structs import replace

from bucketq.batches import JobBatch, NamedBatch
from bucketq.clock import SystemClock
from bucketq.embedded import DirectQueue
from bucketq.errors import ConfigurationError, CorruptStateError, JobNotFoundError
from bucketq.job import Job, JobStatus
from bucketq.limits import Limits
from bucketq.new_job import check_name
from bucketq.operation import Adopt, Holding
from bucketq.queue import Queue
from bucketq.schedule import Schedule
from bucketq.storage.file import LocalFileSystemStorage
from bucketq.transfer.export import OnProgress, export
from bucketq.transfer.line import End, Finished, Item, begins_export, decode_line

# What one commit brings: less than what stays in queue.json.
_PART_LINES = 1000
_PART_BYTES = 256 * 1024


class Intake(NamedTuple):
    """What came of an import: jobs that were added, and that were not.

    `before` were added by an earlier import of the same file, `present` are in the queue by the same id,
    and of `refused` ones another job has the unique key. `finished` ones are not taken in.
    """

    added: int = 0
    before: int = 0
    present: int = 0
    refused: int = 0
    finished: int = 0


async def take_in(
    queue: Queue,
    path: Path,
    *,
    on_progress: OnProgress = lambda what, done, total: None,
) -> Intake:
    """Bring the jobs, batches, schedules and limits of a file into a queue.

    The file is an export, or the queue.json of bucketq or jqueue, with its segments beside it. Raises
    CorruptStateError if it cannot be read to its end, and ConfigurationError if it has an entrypoint that
    no queue takes; then nothing was changed.
    """
    clock = SystemClock()
    with TemporaryDirectory() as folder:
        if not _is_export(path):
            path = await _exported(path, Path(folder) / "queue.jsonl")
        plan = _look_through(path)
        state = await queue.read_file()
        landed = state.loads.marks.get(plan.load)
        present = {job.id async for job in queue.jobs()}
        intake = Intake(finished=plan.finished)
        for part in _parts(path, plan):
            jobs = sum(isinstance(item, Job) for item in part.holdings)
            if landed is not None and part.number <= landed.number:
                intake = intake._replace(before=intake.before + jobs)
            else:
                new = _new(part.holdings, present)
                adopted = await _adopt(queue, Adopt(plan.load, part.number, new, clock.now()))
                left = sum(isinstance(item, Job) for item in new)
                intake = intake._replace(
                    added=intake.added + adopted,
                    present=intake.present + jobs - left,
                    refused=intake.refused + left - adopted,
                )
            on_progress("jobs", part.number, plan.lines)
    return intake


async def _adopt(queue: Queue, part: Adopt) -> int:
    """Have a part adopted; jobs do not wait for others that were left out."""
    while True:
        try:
            adopted: int = await queue.apply(part)
            return adopted
        except JobNotFoundError as error:
            missing = error.job_id
            part = part.with_jobs(_not_after(job, missing) for job in part.jobs)


def _not_after(job: Job, missing: str) -> Job:
    return replace(job, after=tuple(one for one in job.after if one != missing)) if job.after else job


class _Plan(NamedTuple):
    """What is known of a file once it was looked through."""

    load: str
    lines: int
    finished: int
    # How many jobs of each batch there are, which of those that follow one, and which jobs others wait for.
    batches: Counter[str]
    followers: frozenset[str]
    parents: frozenset[str]


class _Part(NamedTuple):
    """What one commit brings, and the number of its last line."""

    number: int
    holdings: tuple[Holding, ...]


def _is_export(path: Path) -> bool:
    with path.open("rb") as file:
        return begins_export(file.readline(), str(path))


async def _exported(path: Path, to: Path) -> Path:
    """A queue file as an export, which says the same each time."""
    with to.open("wb") as file:
        async for line in export(DirectQueue(LocalFileSystemStorage(path))):
            file.write(line)
    return to


def _look_through(path: Path) -> _Plan:
    digest = blake2b(digest_size=16)
    batches, followers, wanted, there = Counter[str](), set[str](), set[str](), set[str]()
    lines = finished = jobs = 0
    end: End | None = None
    for lines, line, item in _items(path):
        if end is not None:
            raise CorruptStateError(f"{path} goes on after its end, in line {lines}. Nothing was changed.")
        digest.update(line)
        for entrypoint in _entrypoints(item):
            try:
                check_name("an entrypoint", entrypoint)
            except ConfigurationError as error:
                raise ConfigurationError(f"{path}, line {lines}: {error} Nothing was changed.") from None
        match item:
            case Job():
                jobs += 1
                wanted.update(item.after)
                if item.status is JobStatus.DEAD or item.batch is None:
                    continue
                if item.batch == item.id:
                    followers.add(item.id)
                else:
                    batches[item.batch] += 1
            case Finished():
                finished += 1
            case End():
                end = item
    if end != End(jobs=jobs, finished=finished):
        raise CorruptStateError(f"{path} is cut short: its end is missing. Nothing was changed.")
    if wanted:
        there = {
            item.id for _, _, item in _items(path) if isinstance(item, Job | NamedBatch) and item.id in wanted
        }
    load = f"import-{digest.hexdigest()}"
    return _Plan(load, lines, finished, batches, frozenset(followers), frozenset(there))


def _entrypoints(item: Item) -> tuple[str, ...]:
    """Those that a line names."""
    match item:
        case Job():
            return (item.entrypoint,)
        case Schedule():
            return (item.job.entrypoint,)
        case NamedBatch(batch=JobBatch(then=Job() as then)):
            return (then.entrypoint,)
        case Limits():
            return (*item.paused, *item.entrypoints)
    return ()


def _items(path: Path) -> Iterator[tuple[int, bytes, Item]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number > 1:
                yield number, line, decode_line(line, f"{path}, line {number},")


def _parts(path: Path, plan: _Plan) -> Iterator[_Part]:
    holdings, size = list[Holding](), 0
    number = 0
    for number, line, item in _items(path):
        if isinstance(item, Finished | End):
            continue
        if holdings and (len(holdings) == _PART_LINES or size + len(line) > _PART_BYTES):
            yield _Part(number - 1, tuple(holdings))
            holdings, size = [], 0
        holdings.append(_fitted(item, plan))
        size += len(line)
    if holdings:
        yield _Part(number, tuple(holdings))


def _fitted(item: Holding, plan: _Plan) -> Holding:
    """A job that waits only for what the file has; a batch of as many jobs as the file has of it."""
    match item:
        case Job() if item.after:
            return replace(item, after=tuple(one for one in item.after if one in plan.parents))
        case NamedBatch():
            # The one that follows may have been enqueued while the export was written: then it is told, too.
            then = None if item.id in plan.followers else item.batch.then
            return item._replace(batch=replace(item.batch, left=plan.batches[item.id], then=then))
    return item


def _new(holdings: tuple[Holding, ...], present: set[str]) -> tuple[Holding, ...]:
    return tuple(one for one in holdings if not (isinstance(one, Job) and one.id in present))
