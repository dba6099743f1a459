"""Producing: jobs are added, one, many, as a batch, or together with what else is to land."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from msgspec.structs import replace

from bucketq.bulk import BulkLoad, NewJobs
from bucketq.errors import ConfigurationError
from bucketq.job import Job
from bucketq.new_batch import NewBatch, Then
from bucketq.new_job import JobOptions, with_trace
from bucketq.operation import Enqueue, EnqueueBatch, EnqueueSegments, Operation, Transact
from bucketq.queue.channel import Channel
from bucketq.trace_context import TraceContext
from bucketq.tracing.switch import TRACING, enqueuing
from bucketq.transaction import Transaction


class Producing(Channel):
    """Adding jobs."""

    async def enqueue(
        self, entrypoint: str, payload: Any = b"", priority: int = 0, **options: Unpack[JobOptions]
    ) -> Job:
        """Add a job and return it; `JobOptions` tells what may be asked of it.

        The payload is bytes, or anything that JSON can hold: a dict, a list, a
        dataclass, a msgspec Struct. Jobs of a lower priority number are served first.

            job = await q.enqueue("send_email", {"to": "alice@example.com"})

        With a unique `key` it may be another job that is returned: the one that has the key.

            job = await q.enqueue("invoice", {"order": 17}, key="invoice-17")

        Raises PayloadError if the payload is not JSON or too large, QueueFullError if
        queue.json is at its limit, and KeyTakenError as `if_exists` says.
        """
        # Whoever gives the trace makes its spans.
        if TRACING.spans is None or "traceparent" in options:
            return await self._enqueue(entrypoint, payload, priority, options)
        with TRACING.spans.enqueuing(entrypoint) as span:
            job = await self._enqueue(entrypoint, payload, priority, options)
            span.set_attribute("messaging.message.id", job.id)
            return job

    async def _enqueue(self, entrypoint: str, payload: Any, priority: int, options: JobOptions) -> Job:
        job = self._new_job(entrypoint, payload, priority, options)
        if_exists = options.get("if_exists", "return")
        added: list[Job]
        if self._payloads.is_large(job):
            stowed = (await self._payloads.stow(job),)
            added = await self._payloads.submit(Enqueue(stowed, if_exists), stowed)
            if added[0].id != job.id:
                await self._payloads.drop(stowed)
                return added[0]
            return replace(added[0], payload=job.payload)
        added = await self._submit(Enqueue((job,), if_exists))
        return added[0]

    async def enqueue_many(
        self,
        entrypoint: str,
        payloads: Iterable[Any],
        priority: int = 0,
        **options: Unpack[JobOptions],
    ) -> Sequence[str]:
        """Add any number of jobs in one commit, all or none, in the order given; return their ids.

            ids = await q.enqueue_many("resize", ({"image": n} for n in range(1_000_000)))

        Of a long iterable only a part is in memory at a time: the jobs go straight to
        segments of the backlog.
        """
        _check_iterable("enqueue_many", payloads)
        with enqueuing(entrypoint, options) as span:
            ids = await self._enqueue_all(self._new_job(entrypoint, b"", priority, options), payloads)
            if span is not None:
                span.set_attribute("messaging.batch.message_count", len(ids))
        return ids

    async def enqueue_batch(
        self,
        entrypoint: str,
        payloads: Iterable[Any],
        priority: int = 0,
        *,
        then: Then | tuple[str, Any],
        **options: Unpack[JobOptions],
    ) -> NewBatch:
        """Add any number of jobs, and one more that runs when all of them are finished.

            batch = await q.enqueue_batch("resize", images, then=("publish", {"album": 7}))

        All of it is one commit. The job that follows is enqueued by the commit in which the last
        one is finished, be it done, dead or cancelled; its `batch` is the batch's id, and `batch`
        tells it how many have failed. `result(batch.id)` waits for it.
        """
        _check_iterable("enqueue_batch", payloads)
        following = Then.of(then)
        with enqueuing(entrypoint, options) as span:
            model = self._new_job(entrypoint, b"", priority, options)
            job = self._model(following.entrypoint, following.payload, following.priority, following.options)
            job = with_trace(job, TraceContext(model.traceparent, model.tracestate))
            job = await self._payloads.stow(replace(job, batch=job.id))
            ids = await self._enqueue_all(replace(model, batch=job.id), payloads, job)
            if span is not None:
                span.set_attribute("messaging.batch.message_count", len(ids))
        return NewBatch(job.id, ids)

    async def _enqueue_all(
        self, model: Job, payloads: Iterable[Any], then: Job | None = None
    ) -> Sequence[str]:
        def of_batch(part: Enqueue | EnqueueSegments) -> Operation:
            return part if then is None else EnqueueBatch(then, part, self._clock.now())

        if model.key is not None:
            raise ConfigurationError("a key is that of one job: enqueue jobs with keys one by one")
        contents = (self._content(model.entrypoint, payload) for payload in payloads)
        jobs = NewJobs(model, contents, self._clock, self._mint)
        load = BulkLoad(self._objects, self._payloads, self.settings, self._submit, of_batch)
        await load.enqueue(jobs, are_blocked=bool(model.after))
        if then is not None and not jobs.ids and self._objects is not None:
            await self._submit(of_batch(Enqueue(())))
        return list(jobs.ids) if len(jobs.ids) <= self.settings.hot_jobs_max else jobs.ids

    def transaction(self) -> Transaction:
        """Collect enqueues, acks and nacks that land in one commit or not at all.

            async with q.transaction() as t:
                t.ack(job)
                t.enqueue("next_step", {"after": job.id})

        If one of them is refused, none takes effect and the block raises its error.
        """
        return Transaction(self._new_job, self._clock, self._transact)

    async def _transact(self, operations: tuple[Operation, ...]) -> None:
        await self.apply(Transact(operations))


def _check_iterable(method: str, payloads: Any) -> None:
    if isinstance(payloads, str | bytes | Mapping) or not isinstance(payloads, Iterable):
        raise ConfigurationError(
            f"{method} takes an iterable of payloads, not {type(payloads).__name__}; for one there is enqueue"
        )
