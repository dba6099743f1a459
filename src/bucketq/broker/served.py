"""ServedQueue: the queue that a leading broker serves."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from heapq import nsmallest
from typing import Any

from msgspec.structs import replace

from bucketq.account import Account
from bucketq.archive import Archive
from bucketq.archived_job import ArchivedJob
from bucketq.broker.inspection import check_sizes, inspect_segment
from bucketq.broker.sent_trace import sent_trace
from bucketq.broker.write_watch import WriteWatch
from bucketq.clock import Clock
from bucketq.election import Election, Leader, Result
from bucketq.embedded import BrokerQueue
from bucketq.ending import Ending
from bucketq.errors import (
    CASConflictError,
    ClaimLostError,
    ConfigurationError,
    JobNotFoundError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from bucketq.figures import Figures
from bucketq.glance import Glance
from bucketq.job import Claim, Job, JobStatus
from bucketq.listing import Chosen, Page
from bucketq.mint import Mint
from bucketq.new_job import JobOptions, with_trace
from bucketq.object_name import is_payload_name
from bucketq.operation import (
    Answers,
    Batch,
    Beat,
    Elect,
    EnqueueSegments,
    Heartbeat,
    HeartbeatMany,
    Listed,
    ListInFile,
    Operation,
    Refresh,
    Release,
    SettleSegment,
    StepDown,
)
from bucketq.segment_claim import SettlementCheck
from bucketq.segment_lines import SegmentLines
from bucketq.settings import Settings
from bucketq.state import Stats
from bucketq.storage.port import Bucket, ObjectPage
from bucketq.wanted import Wanted

# Each page is a listing of all: better few of them.
_OBJECTS_AT_ONCE = 10_000
_JOBS_AT_A_STRETCH = 50
# Segments that clients wrote and that are in memory, to be checked.
_CHECKS_MAX = 4
_CREATED_MAX = 10_000
# Pages of jobs that are collected, looks into the archive, and states that are shown. Each holds much.
_LOOKS_MAX = 8


class ServedQueue(BrokerQueue):
    """A BrokerQueue that takes part in elections and takes in the batches of clients."""

    _leads = True

    def __init__(
        self,
        storage: Bucket,
        settings: Settings | None = None,
        clock: Clock | None = None,
        mint: Mint | None = None,
        figures: Figures | None = None,
        account: Account | None = None,
    ) -> None:
        self.writes = WriteWatch(storage)
        super().__init__(self.writes, settings=settings, clock=clock, mint=mint, account=account)
        self._figures = figures
        self._checking = asyncio.Semaphore(_CHECKS_MAX)
        # The sizes of the payloads that clients created here, the last ones: they need not be looked for.
        self._created: dict[str, int] = {}
        self.looking = asyncio.Semaphore(_LOOKS_MAX)

    def _new_job(self, entrypoint: str, payload: Any, priority: int, options: JobOptions) -> Job:
        job, sent = super()._new_job(entrypoint, payload, priority, options), sent_trace()
        return job if job.traceparent or not sent.traceparent else with_trace(job, sent)

    def glance(self) -> Glance | None:
        """How the queue stands; None if nobody has read it yet. It costs no request."""
        return self._group.glance() if self._group is not None else None

    async def stand(self, broker: str, address: str, stale: Leader | None, http: str = "") -> Result:
        """Let a broker stand for election."""
        try:
            result: Result = await self._submit(Elect(broker, address, stale, self._clock.now(), http))
        except CASConflictError:
            return Result(Election.CONFLICT, None)
        return result

    async def beat(self, broker: str) -> Leader | None:
        """Say that the broker lives; tell who leads."""
        leader: Leader | None = await self._submit(Beat(broker, self._clock.now()))
        return leader

    @property
    def landed_sent_s(self) -> float:
        """When the write that landed last was sent for the first time, by the monotonic clock."""
        return self._opened().landed_sent_s

    def make_haste(self) -> None:
        """Leave no more time between commits: this is about to end."""
        self._opened().make_haste()

    async def resign(self, broker: str, within_s: float) -> None:
        """Finish what was begun, let nobody lead, and close. Raises StorageError, TimeoutError."""
        self.make_haste()
        group = self._opened()
        try:
            async with asyncio.timeout(within_s):
                await self._submit(StepDown(broker))
                await self.__aexit__(None, None, None)
        finally:
            group.abandon()
            self._group = None

    def abandon(self) -> None:
        """Close without finishing what was begun; whoever waits is cancelled."""
        group, self._group = self._group, None
        if group is not None:
            group.abandon()

    async def perform(
        self, session: str, number: int, seen_version: int, operations: Sequence[Operation]
    ) -> Answers:
        """Apply a client's numbered batch, once. Its heartbeats may ride along with a later write."""
        left = [await self._stowed(one) if (one := self._left_of(sent)) else None for sent in operations]
        if not any(left):
            return Answers(0, [None] * len(left))
        batch = Batch(session, number, seen_version, tuple(left), self._clock.now())
        answers: Answers = await self._submit(batch)
        return answers

    def _left_of(self, operation: Operation) -> Operation | None:
        """The operation without the heartbeats that ride along; None if nothing is left."""
        match operation:
            case Heartbeat():
                return operation if self._without_riders([operation]) else None
            case HeartbeatMany():
                beats = self._without_riders(list(operation.beats))
                return HeartbeatMany(tuple(beats)) if beats else None
        return operation

    async def wait_ready(self, wanted: Wanted, timeout_s: float) -> None:
        """Return once a dequeue may find something, or when the time is up."""
        await self._wait_ready(wanted, timeout_s)

    async def claim_of(self, job_id: str, worker: str) -> Claim:
        """The claim that a worker of this name holds. Raises ClaimLostError and JobNotFoundError.

        It has its token, so that nobody else's is settled should it be lost in the next moment.
        """
        found = await self.find(job_id)
        if found is None:
            raise JobNotFoundError(job_id)
        if found.status is not JobStatus.IN_PROGRESS or found.token is None:
            raise ClaimLostError(job_id, f"it is {found.status.value}, not in progress")
        if found.worker != worker:
            raise ClaimLostError(job_id, "another worker holds it now")
        return Claim.of(found)

    def give_back(self, claimed: list[Job]) -> None:
        """Undo claims that never reached a worker."""
        self._make_amends(Release(tuple(map(Claim.of, claimed))) if claimed else None)

    async def checked_segments(self, operation: EnqueueSegments, batch: str | None = None) -> EnqueueSegments:
        """The operation that adds segments of jobs, of a batch or of none, that a client wrote.

        Raises what is wrong with them.
        """
        payloads: dict[str, int] = {}
        last = sum(segment.count for segment in operation.segments)
        for segment in operation.segments:
            async with self._checking:
                lines = SegmentLines(segment, await self.read_object(segment.name))
                lines.check_new()
                await _in_turns(inspect_segment(segment, lines.jobs(segment), batch, last, payloads))
        check_sizes(payloads.items(), await self.payload_sizes(payloads))
        return replace(operation, payloads=tuple(payloads))

    async def payload_sizes(self, names: Iterable[str]) -> dict[str, int]:
        """The bytes of payloads that clients name, by name, of those that are there. At most one list."""
        wanted = {name for name in names if is_payload_name(name)}
        sizes = {name: self._created[name] for name in wanted & self._created.keys()}
        if self._objects is not None and (others := wanted - sizes.keys()):
            sizes |= await self._objects.sizes(others)
        return sizes

    async def check_settlement(self, operation: SettleSegment) -> None:
        """Raise what is wrong with a settlement whose objects a client wrote: see `SettlementCheck`.

        The claim is looked up here, so that none that comes in the same batch escapes the check.
        """
        segment = self._opened().held_segment(operation.claim)
        if segment is None:
            # After a commit that failed, this process does not know the queue.
            await self._submit(Refresh())
            segment = self._opened().held_segment(operation.claim)
        if segment is None:
            raise ClaimLostError(
                operation.claim.job_id, "this segment was given back, or to another worker; drop its results"
            )
        count = sum(part.count for part in operation.completed) + sum(part.count for part in operation.rest)
        count += len(operation.failed)
        if count != segment.count:
            raise ConfigurationError(
                f"a settlement must account for the {segment.count} jobs of {segment.name}, got {count}."
                " Nothing was changed."
            )
        async with self._checking:
            check = SettlementCheck(segment)
            await _in_turns(check.load(await self.read_object(segment.name)))
            check.failed(outcome.claim.job_id for outcome in operation.failed)
            for part in operation.completed:
                content = await self.read_object(part.name)
                await _in_turns(check.completed(part, content, self._clock.now()))
            for rest in operation.rest:
                await _in_turns(check.rest(rest, await self.read_object(rest.name)))
            check.end()

    @property
    def known_stats(self) -> Stats | None:
        """The numbers as this process knows them, without asking the storage."""
        return self._group.stats if self._group else None

    @property
    def archive(self) -> Archive:
        """The finished jobs."""
        if not isinstance(self._storage, Bucket):
            raise ConfigurationError("a broker serves a storage with objects beside the queue")
        return Archive(self._storage, clock=self._clock)

    async def look_up(self, job_id: str, wait_s: float) -> Job | Ending:
        """How a job ended; or how it stands, if it has not within some seconds. Raises JobNotFoundError."""
        found = await self._look_up(job_id)
        if isinstance(found, Job) and wait_s:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    return await self._ending(job_id)
            found = await self._look_up(job_id)
        return found

    async def find_archived(self, job_id: str) -> Ending | None:
        """How a job ended that is not in the queue any more; None if there never was one."""
        return await self._find_archived(job_id)

    async def _find_archived(self, job_id: str) -> Ending | None:
        async with self.looking:
            return await super()._find_archived(job_id)

    async def find_in_archive(self, job_id: str) -> ArchivedJob | None:
        """A finished job; None if the archive has none of this id."""
        async with self.looking:
            return await self.archive.find(job_id)

    async def served_page(
        self, token: str, size: int, status: JobStatus | None, entrypoint: str | None
    ) -> Page:
        """One page of the jobs, for a client."""
        async with self.looking:
            return await self.page(token, size=size, status=status, entrypoint=entrypoint)

    async def _list_in_file(self, chosen: Chosen) -> Listed:
        # As the leader knows it: that costs no request.
        listed: Listed = await self._submit(ListInFile(chosen.status, chosen.entrypoint))
        return listed

    async def read_object(self, name: str) -> bytes:
        """The content of an object, or of queue.json, whose name is empty. Raises ObjectNotFoundError."""
        if not name:
            return (await self._read_queue())[0]
        if self._objects is None:
            raise ObjectNotFoundError(f"no object {name!r}: this storage has none")
        return await self._objects.read(name)

    async def list_objects(self, prefix: str, after: str) -> ObjectPage:
        """The first objects behind `after`, by name, of those whose name begins with `prefix`."""
        found = [] if self._objects is None else await self._objects.list(prefix)
        behind = (info for info in found if info.name > after)
        # One more than fits tells whether there is another page.
        page = nsmallest(_OBJECTS_AT_ONCE + 1, behind, key=lambda info: info.name)
        return ObjectPage(page[:_OBJECTS_AT_ONCE], len(page) > _OBJECTS_AT_ONCE)

    async def create_object(self, name: str, content: bytes) -> None:
        """Create an object. Raises ObjectExistsError."""
        if self._objects is None or not await self._objects.create(name, content):
            raise ObjectExistsError(f"there is an object {name!r} already")
        self._created[name] = len(content)
        if len(self._created) > _CREATED_MAX:
            del self._created[next(iter(self._created))]


async def _in_turns(checking: Iterator[None]) -> None:
    """Go through jobs, and let others on the event loop have their turn."""
    for number, _ in enumerate(checking):
        if number % _JOBS_AT_A_STRETCH == 0:
            await asyncio.sleep(0)
