"""The gRPC shell of a broker's service: messages in, messages out, nothing of its own.

See proto/bucketq/v1/queue.proto. Beside the queue's own service stand the standard ones for
health (serving while this broker leads) and reflection.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status as RpcStatus
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from grpc_status import rpc_status
from msgspec.structs import replace

from bucketq.broker.service import Service
from bucketq.errors import (
    BucketQError,
    ClaimLostError,
    ConfigurationError,
    CorruptStateError,
    JobNotFoundError,
    KeyTakenError,
    NotLeaderError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    PayloadError,
    QueueFullError,
    ScheduleNotFoundError,
    SessionForgottenError,
    StorageError,
)
from bucketq.mint import Mint
from bucketq.v1 import queue_pb2 as pb
from bucketq.wanted import wanted_of
from bucketq.wire import (
    CHUNK_BYTES,
    STATUS_OF,
    answer_message,
    claim_of,
    ending_message,
    info_message,
    job_message,
    operation_of,
    refusal_message,
    stats_message,
)

log = logging.getLogger("bucketq")

SERVICE = pb.DESCRIPTOR.services_by_name["Queue"].full_name
_MESSAGE_BYTES_MAX = 64 * 1024 * 1024
_OPTIONS = [
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", -1),
    # Two brokers must not share a port, each taking some of the calls.
    ("grpc.so_reuseport", 0),
    # Clients look by pings whether the broker is still there.
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
]

# The first that fits. Clients go by the Refusal in the details.
_CODES: list[tuple[type[Exception], grpc.StatusCode]] = [
    (ClaimLostError, grpc.StatusCode.FAILED_PRECONDITION),
    (JobNotFoundError, grpc.StatusCode.NOT_FOUND),
    (KeyTakenError, grpc.StatusCode.ALREADY_EXISTS),
    (ScheduleNotFoundError, grpc.StatusCode.NOT_FOUND),
    (NotLeaderError, grpc.StatusCode.UNAVAILABLE),
    (SessionForgottenError, grpc.StatusCode.ABORTED),
    (QueueFullError, grpc.StatusCode.RESOURCE_EXHAUSTED),
    (PayloadError, grpc.StatusCode.INVALID_ARGUMENT),
    (ConfigurationError, grpc.StatusCode.INVALID_ARGUMENT),
    (CorruptStateError, grpc.StatusCode.DATA_LOSS),
    (ObjectNotFoundError, grpc.StatusCode.NOT_FOUND),
    (ObjectExistsError, grpc.StatusCode.ALREADY_EXISTS),
    (OutcomeUnknownError, grpc.StatusCode.UNKNOWN),
    (StorageError, grpc.StatusCode.UNAVAILABLE),
    (BucketQError, grpc.StatusCode.INTERNAL),
]

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class GrpcShell:
    """A gRPC server for a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._mint = Mint()
        self._server = grpc.aio.server(options=_OPTIONS)
        self._health = health.aio.HealthServicer()

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port, which is a free one if 0 was given. Raises ConfigurationError."""
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, self._handlers()),)
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        try:
            bound = self._server.add_insecure_port(f"{in_brackets(host)}:{port}")
        except RuntimeError as error:
            raise ConfigurationError(
                f"cannot listen on {host}:{port}; is another program there? {error}"
            ) from error
        await self._server.start()
        await self.tell_health()
        return bound

    async def tell_health(self) -> None:
        """Say whether this broker leads, to those who ask for its health."""
        statuses = health_pb2.HealthCheckResponse
        leads = statuses.SERVING if self._service.is_leading else statuses.NOT_SERVING
        await self._health.set(SERVICE, leads)
        # The process as such is well either way.
        await self._health.set("", statuses.SERVING)

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, and give those under way some time."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace_s)

    def _handlers(self) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
        def unary(
            call: Callable[[Any], Awaitable[Any]], request: type[Message]
        ) -> "grpc.RpcMethodHandler[Any, Any]":
            async def handle(message: Any, context: Context) -> Any:
                try:
                    return await call(message)
                except BucketQError as error:
                    await _refuse(context, error)

            return grpc.unary_unary_rpc_method_handler(
                handle,
                request_deserializer=request.FromString,
                response_serializer=_serialized,
            )

        return {
            "Enqueue": unary(self._enqueue, pb.EnqueueRequest),
            "Dequeue": unary(self._dequeue, pb.DequeueRequest),
            "Heartbeat": unary(self._heartbeat, pb.HeartbeatRequest),
            "Ack": unary(self._ack, pb.AckRequest),
            "Nack": unary(self._nack, pb.NackRequest),
            "Transaction": unary(self._transaction, pb.TransactionRequest),
            "Cancel": unary(self._cancel, pb.CancelRequest),
            "Redrive": unary(self._redrive, pb.RedriveRequest),
            "Discard": unary(self._discard, pb.DiscardRequest),
            "Stats": unary(self._stats, pb.StatsRequest),
            "ListJobs": unary(self._list_jobs, pb.ListJobsRequest),
            "FindArchived": unary(self._find_archived, pb.FindArchivedRequest),
            "Batch": unary(self._batch, pb.BatchRequest),
            "WaitReady": unary(self._wait_ready, pb.WaitReadyRequest),
            "CollectGarbage": unary(self._collect_garbage, pb.CollectGarbageRequest),
            "Leader": unary(self._leader, pb.LeaderRequest),
            "ReadObject": grpc.unary_stream_rpc_method_handler(
                self._read_object,
                request_deserializer=pb.ReadObjectRequest.FromString,
                response_serializer=_serialized,
            ),
            "CreateObject": grpc.stream_unary_rpc_method_handler(
                self._create_object,
                request_deserializer=pb.CreateObjectRequest.FromString,
                response_serializer=_serialized,
            ),
        }

    async def _enqueue(self, request: pb.EnqueueRequest) -> pb.Jobs:
        added = await self._apply(pb.Operation(enqueue=request))
        # Whoever sent the payloads has them.
        return pb.Jobs(jobs=[job_message(replace(job, payload=b"")) for job in added])

    async def _dequeue(self, request: pb.DequeueRequest) -> pb.Jobs:
        wanted = wanted_of(tuple(request.entrypoints) or None)
        jobs = await self._service.dequeue(
            wanted, request.batch_size or 1, request.wait_us / 1e6, request.worker or None
        )
        jobs = [job if job.payload_object is None else replace(job, payload=b"") for job in jobs]
        return pb.Jobs(jobs=map(job_message, jobs))

    async def _heartbeat(self, request: pb.HeartbeatRequest) -> pb.Done:
        progress = request.progress if request.HasField("progress") else None
        note = request.note if request.HasField("note") else None
        await self._service.heartbeat(claim_of(request.claim), progress, note)
        return pb.Done()

    async def _find_archived(self, request: pb.FindArchivedRequest) -> pb.FindArchivedResponse:
        ending = await self._service.find_archived(request.job_id)
        return pb.FindArchivedResponse(ending=ending_message(ending) if ending is not None else None)

    async def _ack(self, request: pb.AckRequest) -> pb.Done:
        await self._service.ack(claim_of(request.claim), request.result)
        return pb.Done()

    async def _nack(self, request: pb.NackRequest) -> pb.Job:
        error = request.error if request.HasField("error") else None
        return job_message(await self._service.nack(claim_of(request.claim), error, request.retry_in_s))

    async def _transaction(self, request: pb.TransactionRequest) -> pb.Done:
        await self._apply(pb.Operation(transaction=request))
        return pb.Done()

    async def _cancel(self, request: pb.CancelRequest) -> pb.Job:
        return job_message(await self._service.cancel(request.job_id))

    async def _redrive(self, request: pb.RedriveRequest) -> pb.Job:
        return job_message(await self._service.redrive(request.job_id))

    async def _discard(self, request: pb.DiscardRequest) -> pb.Done:
        await self._service.discard(request.job_id)
        return pb.Done()

    async def _apply(self, message: pb.Operation) -> Any:
        return await self._service.apply(operation_of(message, datetime.now(UTC), self._mint))

    async def _stats(self, request: pb.StatsRequest) -> pb.StatsResponse:
        return stats_message(await self._service.stats())

    async def _list_jobs(self, request: pb.ListJobsRequest) -> pb.ListJobsResponse:
        status = STATUS_OF.get(request.status) if request.HasField("status") else None
        entrypoint = request.entrypoint if request.HasField("entrypoint") else None
        page = await self._service.list_jobs(status, entrypoint, request.page_size, request.page_token)
        return pb.ListJobsResponse(jobs=map(job_message, page.jobs), next_page_token=page.next_token)

    async def _batch(self, request: pb.BatchRequest) -> pb.BatchResponse:
        now = datetime.now(UTC)
        operations = [operation_of(message, now) for message in request.operations]
        version, answers = await self._service.batch(
            request.session, request.number, request.seen_version, operations
        )
        return pb.BatchResponse(version=version, answers=map(answer_message, operations, answers))

    async def _wait_ready(self, request: pb.WaitReadyRequest) -> pb.Done:
        wanted = wanted_of(tuple(request.entrypoints) or None)
        await self._service.wait_ready(wanted, request.timeout_us / 1e6)
        return pb.Done()

    async def _collect_garbage(self, request: pb.CollectGarbageRequest) -> pb.CollectGarbageResponse:
        removed = await self._service.collect_garbage(dry_run=request.dry_run)
        return pb.CollectGarbageResponse(removed=map(info_message, removed))

    async def _leader(self, request: pb.LeaderRequest) -> pb.LeaderResponse:
        leader = self._service.leader
        if leader is None:
            return pb.LeaderResponse()
        return pb.LeaderResponse(address=leader.address, epoch=leader.epoch, is_me=self._service.is_leading)

    async def _read_object(self, request: pb.ReadObjectRequest, context: Context) -> AsyncIterator[pb.Chunk]:
        try:
            content = await self._service.read_object(request.name)
        except BucketQError as error:
            await _refuse(context, error)
            return
        for start in range(0, len(content), CHUNK_BYTES):
            yield pb.Chunk(content=content[start : start + CHUNK_BYTES])

    async def _create_object(
        self, requests: AsyncIterator[pb.CreateObjectRequest], context: Context
    ) -> pb.Done:
        first: pb.CreateObjectRequest | None = None
        content = bytearray()
        async for request in requests:
            first = first or request
            content += request.content
            if len(content) > min(first.size_bytes, self._service.object_bytes_max):
                break
        try:
            # A connection that broke looks like a stream that has ended.
            if first is None or len(content) != first.size_bytes:
                raise ConfigurationError("an object comes with its name and, exactly, its size_bytes")
            await self._service.create_object(first.name, bytes(content))
        except BucketQError as error:
            await _refuse(context, error)
        return pb.Done()


def in_brackets(host: str) -> str:
    """A host as it stands before a port: an IPv6 address needs brackets.

    >>> in_brackets("::1")
    '[::1]'
    """
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _serialized(message: Any) -> bytes:
    content: bytes = message.SerializeToString()
    return content


async def _refuse(context: Context, error: BucketQError) -> None:
    code = next(code for kind, code in _CODES if isinstance(error, kind))
    detail = AnyMessage()
    detail.Pack(refusal_message(error))
    status = RpcStatus(code=code.value[0], message=str(error), details=[detail])
    await context.abort_with_status(rpc_status.to_status(status))
