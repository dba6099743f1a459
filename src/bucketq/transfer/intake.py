"""Intake: an export, or a queue file, is read into a queue.

    file ──▶ looked through: every line can be read, and the last one is there
         ──▶ part ──▶ commit     with the name of the load, and the line that it has come to
         ──▶ part ──▶ commit
         ──▶ …

The name of the load is made of what the file says. So the same file adds nothing twice, also when
its jobs are finished meanwhile; and after an interruption the next try goes on where the last commit
was. A job whose id the queue or its archive has is left out, whatever file it came from.

Only imports bring jobs that exist elsewhere. So the queue and its archive are searched for the jobs of
the file once; and again, if a commit finds that another import has landed a part since.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from msgspec.structs import replace

from bucketq.archive import Archive, finished_since
from bucketq.batches import NamedBatch
from bucketq.clock import SystemClock
from bucketq.codec import encode
from bucketq.codec.osqueue import decode_osqueue, is_osqueue
from bucketq.embedded import DirectQueue
from bucketq.errors import ConfigurationError, CorruptStateError, JobNotFoundError, PayloadError
from bucketq.job import Job, JobStatus
from bucketq.loads import IMPORT, LoadMark, Loads
from bucketq.operation import Adopt, Holding
from bucketq.operation.adoption import check_holding
from bucketq.queue import Queue
from bucketq.storage.file import LocalFileSystemStorage
from bucketq.storage.memory import InMemoryStorage
from bucketq.storage.port import Bucket, ObjectStoragePort
from bucketq.transfer.export import OnProgress, export, live_jobs
from bucketq.transfer.line import End, Finished, Item, begins_export, decode_line

# What one commit brings: less than what stays in queue.json.
_PART_LINES = 1000
_PART_BYTES = 256 * 1024


class Intake(NamedTuple):
    """What came of an import: jobs that were added, and that were not.

    `before` were added by another import of the same file, `present` are in the queue, its archive, or an
    earlier line of the file, by the same id, and of `refused` ones another job has the unique key.
    `finished` ones are not taken in.
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

    The file is an export, or the queue.json of bucketq, with its segments beside it, of jqueue or of osqueue.
    Raises CorruptStateError if it cannot be read to its end, and ConfigurationError if it has a job, a
    schedule or a limit that no queue takes; then nothing was changed.
    """
    clock = SystemClock()
    with TemporaryDirectory() as folder:
        if not _is_export(path):
            path = await _exported(path, Path(folder) / "queue.jsonl")
        plan = _look_through(path)
        view = await _look(queue, plan)
        intake = Intake(finished=plan.finished, present=len(plan.repeated))
        for part in _parts(path, plan):
            jobs = sum(isinstance(item, Job) for item in part.holdings)
            adopted = None
            while adopted is None and not view.has_landed(plan.load, part.number):
                new = _new(part.holdings, view.known)
                left = sum(isinstance(item, Job) for item in new)
                seen = view.loads.imports_seen()
                adopted = await _adopt(queue, Adopt(plan.load, part.number, new, clock.now(), seen=seen))
                if adopted is None:
                    view = await _look(queue, plan)
            if adopted is None:
                intake = intake._replace(before=intake.before + jobs)
            else:
                view = view._replace(loads=view.loads.remembered(plan.load, LoadMark(part.number)))
                intake = intake._replace(
                    added=intake.added + adopted,
                    present=intake.present + jobs - left,
                    refused=intake.refused + left - adopted,
                )
            on_progress("jobs", part.number, plan.lines)
    return intake


class _View(NamedTuple):
    """How far imports had come, and which jobs and batches of the file the queue or its archive had then."""

    loads: Loads
    known: frozenset[str] = frozenset()

    def has_landed(self, load: str, number: int) -> bool:
        """Whether the part of a load that ends with this line was there."""
        mark = self.loads.marks.get(load)
        return mark is not None and number <= mark.number


async def _look(queue: Queue, plan: "_Plan") -> _View:
    state = await queue.read_file()
    view = _View(state.loads)
    if view.has_landed(plan.load, plan.lines):
        return view
    # In this order: jobs go from the queue to the archive.
    known = {job.id async for job in live_jobs(queue, state) if job.id in plan.ids}
    if isinstance(queue.storage, Bucket):
        async for job in Archive(queue.storage).jobs(since=plan.since):
            if job.id in plan.ids:
                known.add(job.id)
    return view._replace(known=frozenset(known))


async def _adopt(queue: Queue, part: Adopt) -> int | None:
    """Have a part adopted; jobs do not wait for others that were left out."""
    while True:
        try:
            adopted: int | None = await queue.apply(part)
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
    # The lines with a job that an earlier line has already.
    repeated: frozenset[int]
    # The jobs and batches that it has, and since when they can have been finished.
    ids: frozenset[str]
    since: datetime | None
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
        async for line in export(DirectQueue(_source(path))):
            file.write(line)
    return to


def _source(path: Path) -> ObjectStoragePort:
    content = path.read_bytes()
    if not is_osqueue(content):
        return LocalFileSystemStorage(path)
    return InMemoryStorage(encode(decode_osqueue(content, str(path))))


def _look_through(path: Path) -> _Plan:
    digest = blake2b(digest_size=16)
    batches, followers, wanted = Counter[str](), set[str](), set[str]()
    ids, job_ids, repeated = set[str](), set[str](), set[int]()
    lines = finished = jobs = 0
    end: End | None = None
    for lines, line, item in _items(path):
        if end is not None:
            raise CorruptStateError(f"{path} goes on after its end, in line {lines}. Nothing was changed.")
        digest.update(line)
        if not isinstance(item, Finished | End):
            try:
                check_holding(item)
            except (ConfigurationError, PayloadError) as error:
                raise ConfigurationError(f"{path}, line {lines}: {error} Nothing was changed.") from None
        if isinstance(item, Job | NamedBatch):
            ids.add(item.id)
        match item:
            case Job():
                jobs += 1
                if item.id in job_ids:
                    repeated.add(lines)
                    continue
                job_ids.add(item.id)
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
    load = f"{IMPORT}{digest.hexdigest()}"
    return _Plan(
        load,
        lines,
        finished,
        frozenset(repeated),
        frozenset(ids),
        finished_since(ids),
        batches,
        frozenset(followers),
        frozenset(wanted & ids),
    )


def _items(path: Path) -> Iterator[tuple[int, bytes, Item]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number > 1:
                yield number, line, decode_line(line, f"{path}, line {number},")


def _parts(path: Path, plan: _Plan) -> Iterator[_Part]:
    holdings, size = list[Holding](), 0
    number = 0
    for number, line, item in _items(path):
        if isinstance(item, Finished | End) or number in plan.repeated:
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


def _new(holdings: tuple[Holding, ...], known: frozenset[str]) -> tuple[Holding, ...]:
    return tuple(one for one in holdings if not (isinstance(one, Job | NamedBatch) and one.id in known))
