"""Rpc: the methods of proto/bucketq/v1/queue.proto, whatever carries their messages.

gRPC does, and so do HTTP and WebSocket for clients in Python. Each method says which role it needs.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message
from msgspec.structs import replace

from bucketq.broker.access import Caller, Role
from bucketq.broker.holdings import answered
from bucketq.broker.sent_trace import sent_trace
from bucketq.broker.service import Service
from bucketq.errors import ConfigurationError
from bucketq.job import Claim
from bucketq.mint import Mint
from bucketq.new_job import NAME_MAX
from bucketq.operation import within
from bucketq.v1 import queue_pb2 as pb
from bucketq.wanted import wanted_of
from bucketq.wire import (
    STATUS_OF,
    answer_message,
    claim_of,
    ending_message,
    info_message,
    job_message,
    operation_of,
    spending_message,
    stats_message,
)

M = TypeVar("M", bound=Message)


class Method(NamedTuple):
    """One method: who may call it, what it takes, and what it does."""

    role: Role
    request: type[Message]
    perform: Callable[[Any, Caller], Awaitable[Message]]


class Rpc:
    """The methods that take one message and give one."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._mint = Mint()
        self.methods = {
            "Enqueue": Method(Role.PRODUCER, pb.EnqueueRequest, self._enqueue),
            "Dequeue": Method(Role.WORKER, pb.DequeueRequest, self._dequeue),
            "Heartbeat": Method(Role.WORKER, pb.HeartbeatRequest, self._heartbeat),
            "Ack": Method(Role.WORKER, pb.AckRequest, self._ack),
            "Nack": Method(Role.WORKER, pb.NackRequest, self._nack),
            # Of these two the operations inside are looked at one by one.
            "Transaction": Method(Role.VIEWER, pb.TransactionRequest, self._transaction),
            "Batch": Method(Role.VIEWER, pb.BatchRequest, self._batch),
            "Cancel": Method(Role.PRODUCER, pb.CancelRequest, self._cancel),
            "Redrive": Method(Role.ADMIN, pb.RedriveRequest, self._redrive),
            "Discard": Method(Role.ADMIN, pb.DiscardRequest, self._discard),
            "Stats": Method(Role.VIEWER, pb.StatsRequest, self._stats),
            "ListJobs": Method(Role.VIEWER, pb.ListJobsRequest, self._list_jobs),
            "FindArchived": Method(Role.VIEWER, pb.FindArchivedRequest, self._find_archived),
            "WaitReady": Method(Role.VIEWER, pb.WaitReadyRequest, self._wait_ready),
            # Whoever may read an object may know its name.
            "ListObjects": Method(Role.VIEWER, pb.ListObjectsRequest, self._list_objects),
            "CollectGarbage": Method(Role.ADMIN, pb.CollectGarbageRequest, self._collect_garbage),
            "Spending": Method(Role.VIEWER, pb.SpendingRequest, self._spending),
            "Leader": Method(Role.VIEWER, pb.LeaderRequest, self._leader),
        }

    def known(self, name: str) -> str:
        """The name of a method; of those that there are not, one for all."""
        return name if name in self.methods else "unknown"

    async def call(self, name: str, content: bytes, caller: Caller) -> bytes:
        """Call a method with an encoded message; return the encoded answer. Raises BucketQError."""
        method = self.methods.get(name)
        if method is None:
            raise ConfigurationError(f"there is no method {name!r}; there are {', '.join(self.methods)}")
        caller.need(method.role)
        perform, request = method.perform, parsed(method.request, content)

        async def produce() -> bytes:
            answer: bytes = (await perform(request, caller)).SerializeToString()
            return answer

        # What a viewer may call changes nothing; a batch is applied once, however often, by its number; and
        # a transaction has a short answer.
        return await answered(produce, is_repeatable=method.role is Role.VIEWER)

    async def _enqueue(self, request: pb.EnqueueRequest, caller: Caller) -> pb.Jobs:
        added = await self._apply(pb.Operation(enqueue=request), caller)
        # Whoever sent the payloads has them.
        return pb.Jobs(jobs=[job_message(replace(caller.shown(job), payload=b"")) for job in added])

    async def _dequeue(self, request: pb.DequeueRequest, caller: Caller) -> pb.Jobs:
        wanted = wanted_of(tuple(request.entrypoints) or None)
        wait_s = request.wait_us / 1e6
        if len(request.worker) > NAME_MAX:
            # It would be in queue.json, and written anew with every commit.
            raise ConfigurationError(f"a worker's name has up to {NAME_MAX} characters")
        with self._service.wait(caller, wait_s):
            jobs = await self._service.dequeue(
                wanted, request.batch_size or 1, wait_s, request.worker or None
            )
        jobs = [job if job.payload_object is None else replace(job, payload=b"") for job in jobs]
        return pb.Jobs(jobs=map(job_message, jobs))

    async def _heartbeat(self, request: pb.HeartbeatRequest, caller: Caller) -> pb.Done:
        progress = request.progress if request.HasField("progress") else None
        note = request.note if request.HasField("note") else None
        await self._service.heartbeat(_claim(request, caller), progress, note)
        return pb.Done()

    async def _find_archived(
        self, request: pb.FindArchivedRequest, caller: Caller
    ) -> pb.FindArchivedResponse:
        ending = await self._service.find_archived(request.job_id)
        return pb.FindArchivedResponse(ending=ending_message(ending) if ending is not None else None)

    async def _ack(self, request: pb.AckRequest, caller: Caller) -> pb.Done:
        await self._service.ack(_claim(request, caller), request.result)
        return pb.Done()

    async def _nack(self, request: pb.NackRequest, caller: Caller) -> pb.Job:
        error = request.error if request.HasField("error") else None
        return job_message(await self._service.nack(_claim(request, caller), error, request.retry_in_s))

    async def _transaction(self, request: pb.TransactionRequest, caller: Caller) -> pb.Done:
        await self._apply(pb.Operation(transaction=request), caller)
        return pb.Done()

    async def _cancel(self, request: pb.CancelRequest, caller: Caller) -> pb.Job:
        return job_message(caller.shown(await self._service.cancel(request.job_id)))

    async def _redrive(self, request: pb.RedriveRequest, caller: Caller) -> pb.Job:
        return job_message(await self._service.redrive(request.job_id))

    async def _discard(self, request: pb.DiscardRequest, caller: Caller) -> pb.Done:
        await self._service.discard(request.job_id)
        return pb.Done()

    async def _apply(self, message: pb.Operation, caller: Caller) -> Any:
        operation = operation_of(message, datetime.now(UTC), self._mint)
        return await self._service.apply(within(operation, sent_trace()), caller)

    async def _spending(self, request: pb.SpendingRequest, caller: Caller) -> pb.SpendingResponse:
        return spending_message(self._service.spending())

    async def _stats(self, request: pb.StatsRequest, caller: Caller) -> pb.StatsResponse:
        return stats_message(await self._service.stats())

    async def _list_jobs(self, request: pb.ListJobsRequest, caller: Caller) -> pb.ListJobsResponse:
        status = STATUS_OF.get(request.status) if request.HasField("status") else None
        entrypoint = request.entrypoint if request.HasField("entrypoint") else None
        page = await self._service.list_jobs(
            status, entrypoint, request.page_size, request.page_token, caller
        )
        return pb.ListJobsResponse(jobs=map(job_message, page.jobs), next_page_token=page.next_token)

    async def _batch(self, request: pb.BatchRequest, caller: Caller) -> pb.BatchResponse:
        now = datetime.now(UTC)
        operations = [operation_of(message, now) for message in request.operations]
        version, answers = await self._service.batch(
            request.session, request.number, request.seen_version, operations, caller
        )
        return pb.BatchResponse(version=version, answers=map(answer_message, operations, answers))

    async def _wait_ready(self, request: pb.WaitReadyRequest, caller: Caller) -> pb.Done:
        wanted = wanted_of(tuple(request.entrypoints) or None)
        timeout_s = request.timeout_us / 1e6
        with self._service.wait(caller, timeout_s):
            await self._service.wait_ready(wanted, timeout_s)
        return pb.Done()

    async def _list_objects(self, request: pb.ListObjectsRequest, caller: Caller) -> pb.ListObjectsResponse:
        page = await self._service.list_objects(request.prefix, request.after)
        return pb.ListObjectsResponse(objects=map(info_message, page.objects), has_more=page.has_more)

    async def _collect_garbage(
        self, request: pb.CollectGarbageRequest, caller: Caller
    ) -> pb.CollectGarbageResponse:
        removed = await self._service.collect_garbage(dry_run=request.dry_run)
        return pb.CollectGarbageResponse(removed=map(info_message, removed))

    async def _leader(self, request: pb.LeaderRequest, caller: Caller) -> pb.LeaderResponse:
        broker = self._service.broker
        told = pb.LeaderResponse(caller=caller.name, roles=sorted(caller.roles))
        if (leader := broker.leader) is not None:
            told.address, told.epoch, told.http = leader.address, leader.epoch, leader.http
            told.is_me = broker.is_leading
        return told


def parsed(kind: type[M], content: bytes) -> M:
    """A message, from its bytes. Raises ConfigurationError."""
    message = kind()
    try:
        message.ParseFromString(content)
    except DecodeError as error:
        raise ConfigurationError(f"this is no {kind.DESCRIPTOR.name}: {error}") from error
    return message


def _claim(request: pb.HeartbeatRequest | pb.AckRequest | pb.NackRequest, caller: Caller) -> Claim:
    claim = claim_of(request.claim)
    caller.check_claim(claim)
    return claim
