from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATUS_QUEUED: _ClassVar[Status]
    STATUS_IN_PROGRESS: _ClassVar[Status]
    STATUS_DEAD: _ClassVar[Status]
    STATUS_SCHEDULED: _ClassVar[Status]
    STATUS_BLOCKED: _ClassVar[Status]
STATUS_QUEUED: Status
STATUS_IN_PROGRESS: Status
STATUS_DEAD: Status
STATUS_SCHEDULED: Status
STATUS_BLOCKED: Status

class Done(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("error", "message", "job_id", "leader", "version", "may_be_done", "retry_after_s")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    LEADER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MAY_BE_DONE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    error: str
    message: str
    job_id: str
    leader: str
    version: int
    may_be_done: bool
    retry_after_s: float
    def __init__(self, error: _Optional[str] = ..., message: _Optional[str] = ..., job_id: _Optional[str] = ..., leader: _Optional[str] = ..., version: _Optional[int] = ..., may_be_done: _Optional[bool] = ..., retry_after_s: _Optional[float] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("claimed_at_us", "ended_at_us", "outcome", "worker", "error", "trace")
    CLAIMED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_US_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    claimed_at_us: int
    ended_at_us: int
    outcome: str
    worker: str
    error: str
    trace: str
    def __init__(self, claimed_at_us: _Optional[int] = ..., ended_at_us: _Optional[int] = ..., outcome: _Optional[str] = ..., worker: _Optional[str] = ..., error: _Optional[str] = ..., trace: _Optional[str] = ...) -> None: ...

class JobOptions(_message.Message):
    __slots__ = ("max_crashes", "run_at_us", "expires_at_us", "timeout_s", "key", "key_for_s", "tenant", "limit_key", "after", "if_dead", "batch", "redrive_of", "traceparent", "tracestate")
    MAX_CRASHES_FIELD_NUMBER: _ClassVar[int]
    RUN_AT_US_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_US_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    KEY_FOR_S_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    IF_DEAD_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    REDRIVE_OF_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    max_crashes: int
    run_at_us: int
    expires_at_us: int
    timeout_s: float
    key: str
    key_for_s: float
    tenant: str
    limit_key: str
    after: _containers.RepeatedScalarFieldContainer[str]
    if_dead: str
    batch: str
    redrive_of: str
    traceparent: str
    tracestate: str
    def __init__(self, max_crashes: _Optional[int] = ..., run_at_us: _Optional[int] = ..., expires_at_us: _Optional[int] = ..., timeout_s: _Optional[float] = ..., key: _Optional[str] = ..., key_for_s: _Optional[float] = ..., tenant: _Optional[str] = ..., limit_key: _Optional[str] = ..., after: _Optional[_Iterable[str]] = ..., if_dead: _Optional[str] = ..., batch: _Optional[str] = ..., redrive_of: _Optional[str] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "entrypoint", "payload", "payload_object", "payload_size", "status", "priority", "created_at_us", "heartbeat_at_us", "sequence", "attempts", "max_attempts", "claimed_at_us", "token", "worker", "error", "history", "options", "crashes", "turn", "progress", "note", "is_cancelled")
    ID_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_OBJECT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_SIZE_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_US_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_AT_US_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_AT_US_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    CRASHES_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    IS_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    id: str
    entrypoint: str
    payload: bytes
    payload_object: str
    payload_size: int
    status: Status
    priority: int
    created_at_us: int
    heartbeat_at_us: int
    sequence: int
    attempts: int
    max_attempts: int
    claimed_at_us: int
    token: str
    worker: str
    error: str
    history: _containers.RepeatedCompositeFieldContainer[Attempt]
    options: JobOptions
    crashes: int
    turn: int
    progress: float
    note: str
    is_cancelled: bool
    def __init__(self, id: _Optional[str] = ..., entrypoint: _Optional[str] = ..., payload: _Optional[bytes] = ..., payload_object: _Optional[str] = ..., payload_size: _Optional[int] = ..., status: _Optional[_Union[Status, str]] = ..., priority: _Optional[int] = ..., created_at_us: _Optional[int] = ..., heartbeat_at_us: _Optional[int] = ..., sequence: _Optional[int] = ..., attempts: _Optional[int] = ..., max_attempts: _Optional[int] = ..., claimed_at_us: _Optional[int] = ..., token: _Optional[str] = ..., worker: _Optional[str] = ..., error: _Optional[str] = ..., history: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., options: _Optional[_Union[JobOptions, _Mapping]] = ..., crashes: _Optional[int] = ..., turn: _Optional[int] = ..., progress: _Optional[float] = ..., note: _Optional[str] = ..., is_cancelled: _Optional[bool] = ...) -> None: ...

class Jobs(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class NewJob(_message.Message):
    __slots__ = ("entrypoint", "payload", "priority", "max_attempts", "id", "created_at_us", "payload_object", "payload_size", "options")
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_US_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_OBJECT_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_SIZE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    entrypoint: str
    payload: bytes
    priority: int
    max_attempts: int
    id: str
    created_at_us: int
    payload_object: str
    payload_size: int
    options: JobOptions
    def __init__(self, entrypoint: _Optional[str] = ..., payload: _Optional[bytes] = ..., priority: _Optional[int] = ..., max_attempts: _Optional[int] = ..., id: _Optional[str] = ..., created_at_us: _Optional[int] = ..., payload_object: _Optional[str] = ..., payload_size: _Optional[int] = ..., options: _Optional[_Union[JobOptions, _Mapping]] = ...) -> None: ...

class EnqueueRequest(_message.Message):
    __slots__ = ("jobs", "if_exists", "finished")
    class FinishedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bool
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bool] = ...) -> None: ...
    JOBS_FIELD_NUMBER: _ClassVar[int]
    IF_EXISTS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[NewJob]
    if_exists: str
    finished: _containers.ScalarMap[str, bool]
    def __init__(self, jobs: _Optional[_Iterable[_Union[NewJob, _Mapping]]] = ..., if_exists: _Optional[str] = ..., finished: _Optional[_Mapping[str, bool]] = ...) -> None: ...

class AdoptRequest(_message.Message):
    __slots__ = ("load", "number", "lines", "finished", "seen")
    class FinishedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bool
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bool] = ...) -> None: ...
    LOAD_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    FINISHED_FIELD_NUMBER: _ClassVar[int]
    SEEN_FIELD_NUMBER: _ClassVar[int]
    load: str
    number: int
    lines: _containers.RepeatedScalarFieldContainer[bytes]
    finished: _containers.ScalarMap[str, bool]
    seen: str
    def __init__(self, load: _Optional[str] = ..., number: _Optional[int] = ..., lines: _Optional[_Iterable[bytes]] = ..., finished: _Optional[_Mapping[str, bool]] = ..., seen: _Optional[str] = ...) -> None: ...

class EnqueueBatchRequest(_message.Message):
    __slots__ = ("then", "jobs", "segments")
    THEN_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    then: NewJob
    jobs: EnqueueRequest
    segments: EnqueueSegmentsRequest
    def __init__(self, then: _Optional[_Union[NewJob, _Mapping]] = ..., jobs: _Optional[_Union[EnqueueRequest, _Mapping]] = ..., segments: _Optional[_Union[EnqueueSegmentsRequest, _Mapping]] = ...) -> None: ...

class FindBatchRequest(_message.Message):
    __slots__ = ("batch_id",)
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    def __init__(self, batch_id: _Optional[str] = ...) -> None: ...

class BatchCounts(_message.Message):
    __slots__ = ("total", "left", "failed")
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    total: int
    left: int
    failed: int
    def __init__(self, total: _Optional[int] = ..., left: _Optional[int] = ..., failed: _Optional[int] = ...) -> None: ...

class LookUpRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class Ending(_message.Message):
    __slots__ = ("status", "error", "result")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    status: str
    error: str
    result: bytes
    def __init__(self, status: _Optional[str] = ..., error: _Optional[str] = ..., result: _Optional[bytes] = ...) -> None: ...

class FindArchivedRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class FindArchivedResponse(_message.Message):
    __slots__ = ("ending",)
    ENDING_FIELD_NUMBER: _ClassVar[int]
    ending: Ending
    def __init__(self, ending: _Optional[_Union[Ending, _Mapping]] = ...) -> None: ...

class EnqueueSegmentsRequest(_message.Message):
    __slots__ = ("segments",)
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, segments: _Optional[_Iterable[bytes]] = ...) -> None: ...

class DequeueRequest(_message.Message):
    __slots__ = ("entrypoints", "batch_size", "token", "worker", "wait_us", "at_hand")
    ENTRYPOINTS_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    WAIT_US_FIELD_NUMBER: _ClassVar[int]
    AT_HAND_FIELD_NUMBER: _ClassVar[int]
    entrypoints: _containers.RepeatedScalarFieldContainer[str]
    batch_size: int
    token: str
    worker: str
    wait_us: int
    at_hand: bool
    def __init__(self, entrypoints: _Optional[_Iterable[str]] = ..., batch_size: _Optional[int] = ..., token: _Optional[str] = ..., worker: _Optional[str] = ..., wait_us: _Optional[int] = ..., at_hand: _Optional[bool] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("job_id", "token")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    token: str
    def __init__(self, job_id: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class AckRequest(_message.Message):
    __slots__ = ("claim", "result")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    result: bytes
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ..., result: _Optional[bytes] = ...) -> None: ...

class AckManyRequest(_message.Message):
    __slots__ = ("claims", "results")
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    results: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ..., results: _Optional[_Iterable[bytes]] = ...) -> None: ...

class NackRequest(_message.Message):
    __slots__ = ("claim", "error", "retry_in_s", "trace")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RETRY_IN_S_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    error: str
    retry_in_s: float
    trace: str
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ..., error: _Optional[str] = ..., retry_in_s: _Optional[float] = ..., trace: _Optional[str] = ...) -> None: ...

class BuryRequest(_message.Message):
    __slots__ = ("claim", "error", "trace")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    error: str
    trace: str
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ..., error: _Optional[str] = ..., trace: _Optional[str] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("claim", "progress", "note")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    progress: float
    note: str
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ..., progress: _Optional[float] = ..., note: _Optional[str] = ...) -> None: ...

class HeartbeatManyRequest(_message.Message):
    __slots__ = ("beats",)
    BEATS_FIELD_NUMBER: _ClassVar[int]
    beats: _containers.RepeatedCompositeFieldContainer[HeartbeatRequest]
    def __init__(self, beats: _Optional[_Iterable[_Union[HeartbeatRequest, _Mapping]]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("claims", "left")
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    left: bool
    def __init__(self, claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ..., left: _Optional[bool] = ...) -> None: ...

class CrashRequest(_message.Message):
    __slots__ = ("claim",)
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...

class DequeueSegmentRequest(_message.Message):
    __slots__ = ("entrypoint", "token", "worker")
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    entrypoint: str
    token: str
    worker: str
    def __init__(self, entrypoint: _Optional[str] = ..., token: _Optional[str] = ..., worker: _Optional[str] = ...) -> None: ...

class SegmentClaim(_message.Message):
    __slots__ = ("segment", "version")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    segment: bytes
    version: int
    def __init__(self, segment: _Optional[bytes] = ..., version: _Optional[int] = ...) -> None: ...

class HeartbeatSegmentRequest(_message.Message):
    __slots__ = ("claim",)
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...

class ReleaseSegmentRequest(_message.Message):
    __slots__ = ("claim",)
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...

class SettleSegmentRequest(_message.Message):
    __slots__ = ("claim", "completed", "failed", "rest")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    REST_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    completed: _containers.RepeatedScalarFieldContainer[bytes]
    failed: _containers.RepeatedCompositeFieldContainer[Operation]
    rest: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ..., completed: _Optional[_Iterable[bytes]] = ..., failed: _Optional[_Iterable[_Union[Operation, _Mapping]]] = ..., rest: _Optional[_Iterable[bytes]] = ...) -> None: ...

class RequeueStaleRequest(_message.Message):
    __slots__ = ("timeout_us",)
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    timeout_us: int
    def __init__(self, timeout_us: _Optional[int] = ...) -> None: ...

class FindRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("job_id", "where")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    where: str
    def __init__(self, job_id: _Optional[str] = ..., where: _Optional[str] = ...) -> None: ...

class RedriveRequest(_message.Message):
    __slots__ = ("job_id", "new_id", "where")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    NEW_ID_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    new_id: str
    where: str
    def __init__(self, job_id: _Optional[str] = ..., new_id: _Optional[str] = ..., where: _Optional[str] = ...) -> None: ...

class DiscardRequest(_message.Message):
    __slots__ = ("job_id", "where")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    where: str
    def __init__(self, job_id: _Optional[str] = ..., where: _Optional[str] = ...) -> None: ...

class SettleManyRequest(_message.Message):
    __slots__ = ("operations",)
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    operations: _containers.RepeatedCompositeFieldContainer[Operation]
    def __init__(self, operations: _Optional[_Iterable[_Union[Operation, _Mapping]]] = ...) -> None: ...

class PauseRequest(_message.Message):
    __slots__ = ("entrypoint",)
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    entrypoint: str
    def __init__(self, entrypoint: _Optional[str] = ...) -> None: ...

class ResumeRequest(_message.Message):
    __slots__ = ("entrypoint",)
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    entrypoint: str
    def __init__(self, entrypoint: _Optional[str] = ...) -> None: ...

class Limit(_message.Message):
    __slots__ = ("max_running", "rate", "burst")
    MAX_RUNNING_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    max_running: int
    rate: float
    burst: int
    def __init__(self, max_running: _Optional[int] = ..., rate: _Optional[float] = ..., burst: _Optional[int] = ...) -> None: ...

class SetLimitRequest(_message.Message):
    __slots__ = ("entrypoint", "limit_key", "limit")
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    entrypoint: str
    limit_key: str
    limit: Limit
    def __init__(self, entrypoint: _Optional[str] = ..., limit_key: _Optional[str] = ..., limit: _Optional[_Union[Limit, _Mapping]] = ...) -> None: ...

class LimitsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LimitsResponse(_message.Message):
    __slots__ = ("is_paused", "paused", "entrypoints", "limit_keys")
    class EntrypointsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Limit
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Limit, _Mapping]] = ...) -> None: ...
    class LimitKeysEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Limit
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Limit, _Mapping]] = ...) -> None: ...
    IS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINTS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_KEYS_FIELD_NUMBER: _ClassVar[int]
    is_paused: bool
    paused: _containers.RepeatedScalarFieldContainer[str]
    entrypoints: _containers.MessageMap[str, Limit]
    limit_keys: _containers.MessageMap[str, Limit]
    def __init__(self, is_paused: _Optional[bool] = ..., paused: _Optional[_Iterable[str]] = ..., entrypoints: _Optional[_Mapping[str, Limit]] = ..., limit_keys: _Optional[_Mapping[str, Limit]] = ...) -> None: ...

class StatsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class VersionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Schedule(_message.Message):
    __slots__ = ("name", "cron", "tz", "every_s", "missed", "next_at_us", "last_at_us", "job")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CRON_FIELD_NUMBER: _ClassVar[int]
    TZ_FIELD_NUMBER: _ClassVar[int]
    EVERY_S_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    NEXT_AT_US_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_US_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    name: str
    cron: str
    tz: str
    every_s: float
    missed: str
    next_at_us: int
    last_at_us: int
    job: NewJob
    def __init__(self, name: _Optional[str] = ..., cron: _Optional[str] = ..., tz: _Optional[str] = ..., every_s: _Optional[float] = ..., missed: _Optional[str] = ..., next_at_us: _Optional[int] = ..., last_at_us: _Optional[int] = ..., job: _Optional[_Union[NewJob, _Mapping]] = ...) -> None: ...

class RemoveScheduleRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListSchedulesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Schedules(_message.Message):
    __slots__ = ("schedules",)
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    schedules: _containers.RepeatedCompositeFieldContainer[Schedule]
    def __init__(self, schedules: _Optional[_Iterable[_Union[Schedule, _Mapping]]] = ...) -> None: ...

class TransactionRequest(_message.Message):
    __slots__ = ("operations",)
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    operations: _containers.RepeatedCompositeFieldContainer[Operation]
    def __init__(self, operations: _Optional[_Iterable[_Union[Operation, _Mapping]]] = ...) -> None: ...

class Operation(_message.Message):
    __slots__ = ("enqueue", "dequeue", "ack", "ack_many", "nack", "heartbeat", "heartbeat_many", "release", "bury", "transaction", "enqueue_segments", "requeue_stale", "find", "stats", "version", "cancel", "redrive", "discard", "settle_many", "enqueue_batch", "find_batch", "look_up", "put_schedule", "remove_schedule", "list_schedules", "pause", "resume", "set_limit", "limits", "crash", "dequeue_segment", "heartbeat_segment", "release_segment", "settle_segment", "adopt")
    ENQUEUE_FIELD_NUMBER: _ClassVar[int]
    DEQUEUE_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    ACK_MANY_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MANY_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    BURY_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    REQUEUE_STALE_FIELD_NUMBER: _ClassVar[int]
    FIND_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    REDRIVE_FIELD_NUMBER: _ClassVar[int]
    DISCARD_FIELD_NUMBER: _ClassVar[int]
    SETTLE_MANY_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_BATCH_FIELD_NUMBER: _ClassVar[int]
    FIND_BATCH_FIELD_NUMBER: _ClassVar[int]
    LOOK_UP_FIELD_NUMBER: _ClassVar[int]
    PUT_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    REMOVE_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    LIST_SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    SET_LIMIT_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    CRASH_FIELD_NUMBER: _ClassVar[int]
    DEQUEUE_SEGMENT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_SEGMENT_FIELD_NUMBER: _ClassVar[int]
    RELEASE_SEGMENT_FIELD_NUMBER: _ClassVar[int]
    SETTLE_SEGMENT_FIELD_NUMBER: _ClassVar[int]
    ADOPT_FIELD_NUMBER: _ClassVar[int]
    enqueue: EnqueueRequest
    dequeue: DequeueRequest
    ack: AckRequest
    ack_many: AckManyRequest
    nack: NackRequest
    heartbeat: HeartbeatRequest
    heartbeat_many: HeartbeatManyRequest
    release: ReleaseRequest
    bury: BuryRequest
    transaction: TransactionRequest
    enqueue_segments: EnqueueSegmentsRequest
    requeue_stale: RequeueStaleRequest
    find: FindRequest
    stats: StatsRequest
    version: VersionRequest
    cancel: CancelRequest
    redrive: RedriveRequest
    discard: DiscardRequest
    settle_many: SettleManyRequest
    enqueue_batch: EnqueueBatchRequest
    find_batch: FindBatchRequest
    look_up: LookUpRequest
    put_schedule: Schedule
    remove_schedule: RemoveScheduleRequest
    list_schedules: ListSchedulesRequest
    pause: PauseRequest
    resume: ResumeRequest
    set_limit: SetLimitRequest
    limits: LimitsRequest
    crash: CrashRequest
    dequeue_segment: DequeueSegmentRequest
    heartbeat_segment: HeartbeatSegmentRequest
    release_segment: ReleaseSegmentRequest
    settle_segment: SettleSegmentRequest
    adopt: AdoptRequest
    def __init__(self, enqueue: _Optional[_Union[EnqueueRequest, _Mapping]] = ..., dequeue: _Optional[_Union[DequeueRequest, _Mapping]] = ..., ack: _Optional[_Union[AckRequest, _Mapping]] = ..., ack_many: _Optional[_Union[AckManyRequest, _Mapping]] = ..., nack: _Optional[_Union[NackRequest, _Mapping]] = ..., heartbeat: _Optional[_Union[HeartbeatRequest, _Mapping]] = ..., heartbeat_many: _Optional[_Union[HeartbeatManyRequest, _Mapping]] = ..., release: _Optional[_Union[ReleaseRequest, _Mapping]] = ..., bury: _Optional[_Union[BuryRequest, _Mapping]] = ..., transaction: _Optional[_Union[TransactionRequest, _Mapping]] = ..., enqueue_segments: _Optional[_Union[EnqueueSegmentsRequest, _Mapping]] = ..., requeue_stale: _Optional[_Union[RequeueStaleRequest, _Mapping]] = ..., find: _Optional[_Union[FindRequest, _Mapping]] = ..., stats: _Optional[_Union[StatsRequest, _Mapping]] = ..., version: _Optional[_Union[VersionRequest, _Mapping]] = ..., cancel: _Optional[_Union[CancelRequest, _Mapping]] = ..., redrive: _Optional[_Union[RedriveRequest, _Mapping]] = ..., discard: _Optional[_Union[DiscardRequest, _Mapping]] = ..., settle_many: _Optional[_Union[SettleManyRequest, _Mapping]] = ..., enqueue_batch: _Optional[_Union[EnqueueBatchRequest, _Mapping]] = ..., find_batch: _Optional[_Union[FindBatchRequest, _Mapping]] = ..., look_up: _Optional[_Union[LookUpRequest, _Mapping]] = ..., put_schedule: _Optional[_Union[Schedule, _Mapping]] = ..., remove_schedule: _Optional[_Union[RemoveScheduleRequest, _Mapping]] = ..., list_schedules: _Optional[_Union[ListSchedulesRequest, _Mapping]] = ..., pause: _Optional[_Union[PauseRequest, _Mapping]] = ..., resume: _Optional[_Union[ResumeRequest, _Mapping]] = ..., set_limit: _Optional[_Union[SetLimitRequest, _Mapping]] = ..., limits: _Optional[_Union[LimitsRequest, _Mapping]] = ..., crash: _Optional[_Union[CrashRequest, _Mapping]] = ..., dequeue_segment: _Optional[_Union[DequeueSegmentRequest, _Mapping]] = ..., heartbeat_segment: _Optional[_Union[HeartbeatSegmentRequest, _Mapping]] = ..., release_segment: _Optional[_Union[ReleaseSegmentRequest, _Mapping]] = ..., settle_segment: _Optional[_Union[SettleSegmentRequest, _Mapping]] = ..., adopt: _Optional[_Union[AdoptRequest, _Mapping]] = ...) -> None: ...

class StatsResponse(_message.Message):
    __slots__ = ("queued", "in_progress", "dead", "enqueued_total", "completed_total", "dead_total", "scheduled", "blocked", "cancelled_total")
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    DEAD_TOTAL_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    queued: int
    in_progress: int
    dead: int
    enqueued_total: int
    completed_total: int
    dead_total: int
    scheduled: int
    blocked: int
    cancelled_total: int
    def __init__(self, queued: _Optional[int] = ..., in_progress: _Optional[int] = ..., dead: _Optional[int] = ..., enqueued_total: _Optional[int] = ..., completed_total: _Optional[int] = ..., dead_total: _Optional[int] = ..., scheduled: _Optional[int] = ..., blocked: _Optional[int] = ..., cancelled_total: _Optional[int] = ...) -> None: ...

class Sequences(_message.Message):
    __slots__ = ("sequences",)
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    sequences: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, sequences: _Optional[_Iterable[int]] = ...) -> None: ...

class Segments(_message.Message):
    __slots__ = ("segments",)
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, segments: _Optional[_Iterable[bytes]] = ...) -> None: ...

class Refusals(_message.Message):
    __slots__ = ("refusals",)
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    refusals: _containers.RepeatedCompositeFieldContainer[Refusal]
    def __init__(self, refusals: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("done", "refusal", "added", "jobs", "job", "refusals", "number", "stats", "segments", "schedules", "ending", "batch", "limits", "segment_claim")
    DONE_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    STATS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULES_FIELD_NUMBER: _ClassVar[int]
    ENDING_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_CLAIM_FIELD_NUMBER: _ClassVar[int]
    done: Done
    refusal: Refusal
    added: Sequences
    jobs: Jobs
    job: Job
    refusals: Refusals
    number: int
    stats: StatsResponse
    segments: Segments
    schedules: Schedules
    ending: Ending
    batch: BatchCounts
    limits: LimitsResponse
    segment_claim: SegmentClaim
    def __init__(self, done: _Optional[_Union[Done, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ..., added: _Optional[_Union[Sequences, _Mapping]] = ..., jobs: _Optional[_Union[Jobs, _Mapping]] = ..., job: _Optional[_Union[Job, _Mapping]] = ..., refusals: _Optional[_Union[Refusals, _Mapping]] = ..., number: _Optional[int] = ..., stats: _Optional[_Union[StatsResponse, _Mapping]] = ..., segments: _Optional[_Union[Segments, _Mapping]] = ..., schedules: _Optional[_Union[Schedules, _Mapping]] = ..., ending: _Optional[_Union[Ending, _Mapping]] = ..., batch: _Optional[_Union[BatchCounts, _Mapping]] = ..., limits: _Optional[_Union[LimitsResponse, _Mapping]] = ..., segment_claim: _Optional[_Union[SegmentClaim, _Mapping]] = ...) -> None: ...

class BatchRequest(_message.Message):
    __slots__ = ("session", "number", "seen_version", "operations")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SEEN_VERSION_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    session: str
    number: int
    seen_version: int
    operations: _containers.RepeatedCompositeFieldContainer[Operation]
    def __init__(self, session: _Optional[str] = ..., number: _Optional[int] = ..., seen_version: _Optional[int] = ..., operations: _Optional[_Iterable[_Union[Operation, _Mapping]]] = ...) -> None: ...

class BatchResponse(_message.Message):
    __slots__ = ("version", "answers")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    version: int
    answers: _containers.RepeatedCompositeFieldContainer[Answer]
    def __init__(self, version: _Optional[int] = ..., answers: _Optional[_Iterable[_Union[Answer, _Mapping]]] = ...) -> None: ...

class WaitReadyRequest(_message.Message):
    __slots__ = ("entrypoints", "timeout_us")
    ENTRYPOINTS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    entrypoints: _containers.RepeatedScalarFieldContainer[str]
    timeout_us: int
    def __init__(self, entrypoints: _Optional[_Iterable[str]] = ..., timeout_us: _Optional[int] = ...) -> None: ...

class ReadObjectRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    def __init__(self, content: _Optional[bytes] = ...) -> None: ...

class CreateObjectRequest(_message.Message):
    __slots__ = ("name", "content", "size_bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    content: bytes
    size_bytes: int
    def __init__(self, name: _Optional[str] = ..., content: _Optional[bytes] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class CollectGarbageRequest(_message.Message):
    __slots__ = ("dry_run",)
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    dry_run: bool
    def __init__(self, dry_run: _Optional[bool] = ...) -> None: ...

class ObjectInfo(_message.Message):
    __slots__ = ("name", "size_bytes", "modified_at_us")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_AT_US_FIELD_NUMBER: _ClassVar[int]
    name: str
    size_bytes: int
    modified_at_us: int
    def __init__(self, name: _Optional[str] = ..., size_bytes: _Optional[int] = ..., modified_at_us: _Optional[int] = ...) -> None: ...

class ListObjectsRequest(_message.Message):
    __slots__ = ("prefix", "after")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    after: str
    def __init__(self, prefix: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class ListObjectsResponse(_message.Message):
    __slots__ = ("objects", "has_more")
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    HAS_MORE_FIELD_NUMBER: _ClassVar[int]
    objects: _containers.RepeatedCompositeFieldContainer[ObjectInfo]
    has_more: bool
    def __init__(self, objects: _Optional[_Iterable[_Union[ObjectInfo, _Mapping]]] = ..., has_more: _Optional[bool] = ...) -> None: ...

class CollectGarbageResponse(_message.Message):
    __slots__ = ("removed",)
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    removed: _containers.RepeatedCompositeFieldContainer[ObjectInfo]
    def __init__(self, removed: _Optional[_Iterable[_Union[ObjectInfo, _Mapping]]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("status", "entrypoint", "page_size", "page_token")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ENTRYPOINT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    status: Status
    entrypoint: str
    page_size: int
    page_token: str
    def __init__(self, status: _Optional[_Union[Status, str]] = ..., entrypoint: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    next_page_token: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class SpendingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SpendingResponse(_message.Message):
    __slots__ = ("requests", "per_second", "prices_of", "per_1000_reads", "per_1000_writes", "per_1000_lists", "per_1000_deletes", "dollars", "dollars_per_month", "budget_per_month", "is_held_back", "interval_s", "least_per_month")
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    PRICES_OF_FIELD_NUMBER: _ClassVar[int]
    PER_1000_READS_FIELD_NUMBER: _ClassVar[int]
    PER_1000_WRITES_FIELD_NUMBER: _ClassVar[int]
    PER_1000_LISTS_FIELD_NUMBER: _ClassVar[int]
    PER_1000_DELETES_FIELD_NUMBER: _ClassVar[int]
    DOLLARS_FIELD_NUMBER: _ClassVar[int]
    DOLLARS_PER_MONTH_FIELD_NUMBER: _ClassVar[int]
    BUDGET_PER_MONTH_FIELD_NUMBER: _ClassVar[int]
    IS_HELD_BACK_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    LEAST_PER_MONTH_FIELD_NUMBER: _ClassVar[int]
    requests: StorageRequests
    per_second: StorageRequests
    prices_of: str
    per_1000_reads: float
    per_1000_writes: float
    per_1000_lists: float
    per_1000_deletes: float
    dollars: float
    dollars_per_month: float
    budget_per_month: float
    is_held_back: bool
    interval_s: float
    least_per_month: float
    def __init__(self, requests: _Optional[_Union[StorageRequests, _Mapping]] = ..., per_second: _Optional[_Union[StorageRequests, _Mapping]] = ..., prices_of: _Optional[str] = ..., per_1000_reads: _Optional[float] = ..., per_1000_writes: _Optional[float] = ..., per_1000_lists: _Optional[float] = ..., per_1000_deletes: _Optional[float] = ..., dollars: _Optional[float] = ..., dollars_per_month: _Optional[float] = ..., budget_per_month: _Optional[float] = ..., is_held_back: _Optional[bool] = ..., interval_s: _Optional[float] = ..., least_per_month: _Optional[float] = ...) -> None: ...

class StorageRequests(_message.Message):
    __slots__ = ("reads", "writes", "object_reads", "object_writes", "lists", "deletes")
    READS_FIELD_NUMBER: _ClassVar[int]
    WRITES_FIELD_NUMBER: _ClassVar[int]
    OBJECT_READS_FIELD_NUMBER: _ClassVar[int]
    OBJECT_WRITES_FIELD_NUMBER: _ClassVar[int]
    LISTS_FIELD_NUMBER: _ClassVar[int]
    DELETES_FIELD_NUMBER: _ClassVar[int]
    reads: float
    writes: float
    object_reads: float
    object_writes: float
    lists: float
    deletes: float
    def __init__(self, reads: _Optional[float] = ..., writes: _Optional[float] = ..., object_reads: _Optional[float] = ..., object_writes: _Optional[float] = ..., lists: _Optional[float] = ..., deletes: _Optional[float] = ...) -> None: ...

class LeaderRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LeaderResponse(_message.Message):
    __slots__ = ("address", "epoch", "is_me", "http", "caller", "roles")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    IS_ME_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    address: str
    epoch: int
    is_me: bool
    http: str
    caller: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, address: _Optional[str] = ..., epoch: _Optional[int] = ..., is_me: _Optional[bool] = ..., http: _Optional[str] = ..., caller: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...

class Frame(_message.Message):
    __slots__ = ("id", "method", "body", "refusal")
    ID_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    id: int
    method: str
    body: bytes
    refusal: Refusal
    def __init__(self, id: _Optional[int] = ..., method: _Optional[str] = ..., body: _Optional[bytes] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...
