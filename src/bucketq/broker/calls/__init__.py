"""What may be asked of a broker in JSON, by REST and by WebSocket alike."""

from bucketq.broker.calls import jobs, looking
from bucketq.broker.calls.call import Call, Visit

CALLS: dict[str, Call] = {call.name: call for call in (*jobs.CALLS, *looking.CALLS)}

__all__ = ["CALLS", "Call", "Visit"]
