"""What may be asked of a broker in JSON, by REST and by WebSocket alike."""

from bucketq.broker.calls import batches, claims, control, jobs, looking, schedules, storage
from bucketq.broker.calls.call import Call, Visit

_ROOMS = (jobs, claims, batches, schedules, control, looking, storage)
CALLS: dict[str, Call] = {call.name: call for room in _ROOMS for call in room.CALLS}

__all__ = ["CALLS", "Call", "Visit"]
