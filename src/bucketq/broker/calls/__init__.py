"""What may be asked of a broker in JSON, by REST and by WebSocket alike."""

from bucketq.broker.calls import batches, claims, control, jobs, looking, schedules
from bucketq.broker.calls.call import Call, Visit

CALLS: dict[str, Call] = {
    call.name: call for room in (jobs, claims, batches, schedules, control, looking) for call in room.CALLS
}

__all__ = ["CALLS", "Call", "Visit"]
