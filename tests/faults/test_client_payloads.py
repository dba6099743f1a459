"""Objects that clients name as payloads: they are there, have the size, and are no other job's."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from bucketq import BrokerQueue, ConfigurationError, InMemoryStorage, Job, JobStatus, Settings
from bucketq.broker.access import ANYBODY
from bucketq.broker.broker import Broker
from bucketq.broker.service import Service
from bucketq.errors import PayloadError, StorageError
from bucketq.mint import Mint
from bucketq.object_name import segment_name
from bucketq.operation import Adopt, Enqueue, EnqueueBatch, EnqueueSegments, Transact
from bucketq.segment_lines import SegmentWriter
from bucketq.testing.virtual_time import VirtualClock, virtual_time
from tests.unit.states import NOW

SETTINGS = Settings(payload_inline_max=10, hot_jobs_max=4, hot_bytes_max=2000, segment_jobs_max=10)
LARGE = b"x" * 100
SIZE = 100


class Client:
    """A client of a broker in this process that sends what it likes."""

    def __init__(self, service):
        self.service = service
        self.numbers = iter(range(1, 1000))
        self.mint = Mint()

    async def create(self, content=LARGE, version=0):
        name = f"payloads/{version:012}-{self.mint.token()}"
        await self.service.create_object(name, content)
        return name

    def job(self, name, size=SIZE, **fields):
        return Job(
            id=self.mint.token(),
            entrypoint="mail",
            created_at=NOW,
            payload_object=name,
            payload_size=size,
            **fields,
        )

    async def send(self, *operations):
        """The answers to one batch."""
        return (await self.service.batch("s", next(self.numbers), 0, operations, ANYBODY)).answers

    async def segment(self, *jobs):
        """What adds a segment that it has written."""
        writer = SegmentWriter()
        for number, job in enumerate(jobs, 1):
            writer.add(replace(job, sequence=number))
        segment, content = writer.finish(segment_name(0, self.mint.token()))
        await self.service.create_object(segment.name, content)
        return EnqueueSegments((segment,))


@asynccontextmanager
async def broker(storage):
    leader = Broker(storage, SETTINGS, clock=VirtualClock())
    leader.address = "b:1"
    running = asyncio.create_task(leader.run())
    await leader.wait_changed()
    yield Client(Service(leader))
    leader.stop()
    await running


async def ways(client, name, size=SIZE):
    """Every way in for a job that names an object."""
    job = client.job(name, size)
    small = Job(id=client.mint.token(), entrypoint="mail", created_at=NOW)
    then = replace(job, batch=job.id)
    yield Enqueue((job,))
    yield Transact((Enqueue((job,)),))
    yield EnqueueBatch(then, Enqueue((replace(small, batch=job.id),)), NOW)
    yield EnqueueBatch(replace(small, batch=small.id), Enqueue((replace(job, batch=small.id),)), NOW)
    yield Adopt("load", 1, (job,), NOW)
    yield await client.segment(job)


async def is_refused(client, name, size=SIZE):
    """Whether a job that names an object is refused on every way in."""
    async for operation in ways(client, name, size):
        [answer] = await client.send(operation)
        assert isinstance(answer, ConfigurationError | PayloadError | StorageError), (operation, answer)
        if isinstance(operation, Enqueue | Transact):
            with pytest.raises((ConfigurationError, PayloadError, StorageError)):
                await client.service.apply(operation, ANYBODY)
    return True


@virtual_time
async def test_a_payload_has_to_be_there_with_its_size():
    storage = InMemoryStorage()
    async with broker(storage) as client:
        name = await client.create()
        # One that was created beside the broker, too.
        beside = name[:-1] + ("0" if name[-1] != "0" else "1")
        assert await is_refused(client, beside)
        await storage.objects.create(beside, LARGE)
        for known in (name, beside):
            assert await is_refused(client, known, 99)
            assert await is_refused(client, known, 2**64 - 1)
        for wrong in ("payloads/1", "../queue.json", "backlog/000000000000-00000000000000aa.json"):
            [answer] = await client.send(Enqueue((client.job(wrong),)))
            assert isinstance(answer, ConfigurationError)
        for known in (name, beside):
            [[added]] = await client.send(Enqueue((client.job(known),)))
            assert added.payload_object == known
        assert (await client.service.stats()).queued == 2


@virtual_time
async def test_the_payload_of_a_live_job_is_nobody_elses():
    storage = InMemoryStorage()
    async with broker(storage) as client, BrokerQueue(storage, settings=SETTINGS) as q:
        victims = {}
        for what in ("waits", "runs", "scheduled", "blocked", "dead", "follows"):
            victims[what] = await client.create()
        [[runs, dead]] = await client.send(
            Enqueue((client.job(victims["runs"]), client.job(victims["dead"], priority=1, max_attempts=1)))
        )
        await q.dequeue()
        [claimed] = await q.dequeue()
        assert claimed.id == dead.id
        assert (await q.nack(claimed, "no")).status is JobStatus.DEAD
        follower = client.job(victims["follows"])
        answers = await client.send(
            Enqueue((client.job(victims["waits"]),)),
            Enqueue((client.job(victims["blocked"], after=(runs.id,)),)),
            Enqueue(
                (client.job(victims["scheduled"], status=JobStatus.SCHEDULED, run_at=NOW.replace(year=2999)),)
            ),
            EnqueueBatch(
                replace(follower, batch=follower.id),
                Enqueue((Job(id="of", entrypoint="mail", created_at=NOW, batch=follower.id),)),
                NOW,
            ),
        )
        assert not any(isinstance(answer, Exception) for answer in answers)
        for what, name in victims.items():
            assert await is_refused(client, name), what
        assert {info.name async for info in storage.objects.list("payloads/")} >= set(victims.values())


@virtual_time
async def test_the_payload_of_a_job_in_a_segment_is_nobody_elses():
    storage = InMemoryStorage()
    async with broker(storage) as client:
        names = [await client.create() for _ in range(30)]
        for name in names[:20]:
            await client.send(Enqueue((client.job(name),)))
        await client.send(await client.segment(*map(client.job, names[20:])))
        await asyncio.sleep(1)
        queue = BrokerQueue(storage, settings=SETTINGS)
        state = await queue.read_file()
        assert sum(segment.payloads for segment in state.backlog) > 20
        for name in (names[0], names[19], names[20], names[29]):
            assert await is_refused(client, name)
        # Also two in one segment, and two in one batch.
        name = await client.create()
        [answer] = await client.send(await client.segment(client.job(name), client.job(name)))
        assert isinstance(answer, ConfigurationError)
        _, second = await client.send(Enqueue((client.job(name),)), Enqueue((client.job(name),)))
        assert isinstance(second, ConfigurationError)
        async with queue as q:
            jobs = [job async for job in q.jobs()]
            assert sorted(job.payload_object for job in jobs if job.payload_object in names) == sorted(names)


@virtual_time
async def test_a_batch_that_is_sent_again_is_answered_though_the_payload_is_gone():
    storage = InMemoryStorage()
    async with broker(storage) as client, BrokerQueue(storage, settings=SETTINGS) as q:
        name = await client.create()
        other = await q.enqueue("other", key="k")
        batch = [Enqueue((client.job(name), Job(id="twin", entrypoint="mail", created_at=NOW, key="k")))]
        [[job, _]] = (await client.service.batch("t", 1, 0, batch, ANYBODY)).answers
        await q.ack((await q.dequeue("mail"))[0])
        while [info async for info in storage.objects.list(name)]:
            await asyncio.sleep(0.1)
        client.service.broker._term.queue._created.clear()
        [told] = (await client.service.batch("t", 1, 0, batch, ANYBODY)).answers
        assert [one.id for one in told] == [job.id, other.id]
        [refused] = (await client.service.batch("u", 1, 0, batch, ANYBODY)).answers
        assert isinstance(refused, StorageError)


@virtual_time
async def test_one_list_finds_the_payloads_of_a_whole_batch():
    storage = InMemoryStorage()
    async with broker(storage) as client:
        names = [f"payloads/{number:012}-{client.mint.token()}" for number in range(50)]
        for name in names:
            await storage.objects.create(name, LARGE)
        before = client.service.broker.spending.requests.lists
        answers = await client.send(*(Enqueue((client.job(name),)) for name in names))
        assert all(len(answer) == 1 for answer in answers)
        assert client.service.broker.spending.requests.lists == before + 1
        # What is created through the broker need not be looked for.
        await client.send(Enqueue((client.job(await client.create()),)))
        assert client.service.broker.spending.requests.lists == before + 1
