"""RecordedQueue: a queue that writes down what its callers ask and are told."""

import asyncio
from contextlib import ExitStack, contextmanager
from itertools import count

from bucketq.archive import Archive
from bucketq.job import Claim
from bucketq.operation import Crash
from bucketq.remote.storage import RemoteStorage
from bucketq.segment_claim import CompletedJobs
from tests.sim.record import Call


class RecordedQueue:
    """Wraps a queue for the actors of one process.

    The world is told when a call begins and when it ends. A payload names the call that
    enqueued it, so that a job which appears twice gives itself away.
    """

    def __init__(self, queue, world, process, stale_after_s):
        self.stale_after_s = stale_after_s
        self._queue = queue
        self._world = world
        self._process = process
        self._numbers = count()

    async def enqueue(self, entrypoint, count, priority, max_attempts):
        with self._call("enqueue", entrypoint, count, priority) as call:
            payloads = [{"call": call.number, "n": n} for n in range(count)]
            ids = await self._queue.enqueue_many(
                entrypoint, payloads, priority=priority, max_attempts=max_attempts
            )
            call.result = list(ids)

    async def dequeue(self, wanted, batch_size, wait):
        with self._call("dequeue", wanted, batch_size) as call:
            jobs = await self._queue.dequeue(wanted, batch_size=batch_size, wait=wait)
            call.result = [(job.id, job.token) for job in jobs]
            call.payloads = {job.id: job.payload for job in jobs}
            return jobs

    async def find(self, job):
        with self._call("find", job.id) as call:
            found = await self._queue.find(job.id)
            call.result = [(found.id, found.token)] if found else []

    async def read_archive(self):
        if isinstance(self._queue.storage, RemoteStorage):
            return  # a client that does not reach the storage
        with self._call("read archive") as call:
            damages = []
            archive = Archive(self._queue.storage, damages.append, self._queue._clock)
            call.result = [job.id async for job in archive.jobs()]
            call.damages = damages

    async def collect(self):
        with self._call("collect"):
            await self._queue.collect_garbage()

    async def ack(self, job):
        with self._call("ack", (job.id, job.token)):
            await self._queue.ack(job)

    async def nack(self, job, error):
        with self._call("nack", (job.id, job.token)):
            await self._queue.nack(job, error=error)

    async def dequeue_segment(self, entrypoint):
        with self._call("dequeue_segment", entrypoint) as call:
            claim = await self._queue.dequeue_segment(entrypoint)
            if claim is not None:
                # Only to write down what was claimed: its holder has to read it by itself.
                jobs = claim.jobs(self._world.bucket.created[claim.segment.name])
                call.result = claims_of(jobs)
                call.payloads = {job.id: job.payload for job in jobs}
            return claim

    async def read_segment(self, claim):
        return claim.jobs(await self._queue._objects.read(claim.segment.name))

    async def heartbeat_segment(self, claim, jobs):
        with self._call("heartbeat_segment", *claims_of(jobs)):
            await self._queue.heartbeat_segment(claim)

    async def release_segment(self, claim, jobs):
        with self._call("release_segment", *claims_of(jobs)) as call:
            call.given_back = claims_of(jobs)
            await self._queue.release_segment(claim)

    async def settle_segment(self, claim, done, failed, rest):
        """`failed` are jobs, each with what makes an outcome of its claim."""
        objects, completed = self._queue._objects, CompletedJobs()
        for job in done:
            completed.add(job, self.now())
        parts = await objects.create_staged(completed, claim.version)
        segments = await objects.create_rest(rest, claim.version)
        outcomes = [outcome(Claim.of(job)) for job, outcome in failed]
        with self._call("settle_segment", *claims_of(done)) as call:
            call.given_back = claims_of(rest)
            crashed = {outcome.claim.job_id for outcome in outcomes if isinstance(outcome, Crash)}
            call.crashed = claims_of(job for job, _ in failed if job.id in crashed)
            await self._queue.settle_segment(claim, parts, outcomes, segments)

    def now(self):
        return self._queue._clock.now()

    async def heartbeat(self, job):
        with self._call("heartbeat", (job.id, job.token)):
            await self._queue.heartbeat(job)

    async def ack_many(self, jobs):
        await self._call_many("ack", jobs, self._queue.ack_many(jobs, [job.id for job in jobs]))

    async def heartbeat_many(self, jobs):
        return await self._call_many("heartbeat", jobs, self._queue.heartbeat_many(jobs))

    async def _call_many(self, kind, jobs, answer):
        """Write down a call for each job."""
        with ExitStack() as stack:
            calls = {job.id: stack.enter_context(self._call(kind, (job.id, job.token))) for job in jobs}
            refused = await answer
            for error in refused:
                calls[error.job_id].error = error
            return refused

    async def transaction(self, job, follow_up):
        with self._call("transaction", (job.id, job.token)) as call:
            async with self._queue.transaction() as t:
                # First what can always be done: it must not outlive the refusal of the second.
                added = t.enqueue(follow_up, {"call": call.number, "n": 0})
                t.ack(job)
            call.result = [added.id]

    async def plan(self, entrypoint, options):
        with self._call("plan", entrypoint) as call:
            job = await self._queue.enqueue(entrypoint, {"call": call.number, "n": 0}, **options)
            call.result = [job.id]
            return job.id

    async def cancel(self, job_id):
        with self._call("cancel", job_id) as call:
            job = await self._queue.cancel(job_id)
            # Who still holds it: one that waits is gone.
            call.result = [job.token] if job.token else []

    async def see_to_the_dead(self, how):
        dead = [job.id async for job in self._queue.dead()]
        for job_id in dead[:3]:
            with self._call(how, job_id) as call:
                again = await getattr(self._queue, how)(job_id)
                call.result = [again.id] if again is not None else []

    async def control(self, what, *about, **options):
        with self._call("control", what, *about):
            await getattr(self._queue, what)(*about, **options)

    async def unschedule_if_there(self, name):
        if name in {schedule.name for schedule in await self._queue.schedules()}:
            await self.control("unschedule", name)

    @contextmanager
    def _call(self, kind, *about):
        number = f"{self._process}.{next(self._numbers)}"
        call = Call(number, self._process, kind, about, self._world.now_s())
        self._world.began(call)
        try:
            yield call
        except asyncio.CancelledError:
            if not self._world.is_over:
                call.is_cancelled = True
            raise
        except BaseException as error:
            self._end(call, error)
            raise
        else:
            self._end(call, call.error)

    def _end(self, call, error):
        if not self._world.is_over:
            call.ended_s, call.error = self._world.now_s(), error
            self._world.ended(call)


def claims_of(jobs):
    return [(job.id, job.token) for job in jobs]
