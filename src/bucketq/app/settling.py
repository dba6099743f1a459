"""Settling: the queue is told how attempts ended."""

from msgspec import Raw

from bucketq.app.outcome import Completed, Failed, Interrupted, Outcome, Rejected
from bucketq.job import Job
from bucketq.queue import Queue
from bucketq.retry import Decision, Failure, GiveUp


async def settle(queue: Queue, job: Job, outcome: Outcome) -> None:
    """Tell how one attempt ended. Raises what `ack` and `nack` raise, ClaimLostError among them."""
    match outcome:
        case Completed(result, ()):
            await queue.ack(job, Raw(result) if result else None)
        case Completed(result, calls):
            async with queue.transaction() as transaction:
                transaction.ack(job, Raw(result) if result else None)
                for call in calls:
                    transaction.enqueue(call.entrypoint, call.payload, call.priority, **call.options)
        case Failed(error, trace, retry_in_s):
            await queue.nack(job, error, retry_in=retry_in_s, trace=trace)
        case Rejected(error, trace):
            await queue.nack(job, error, retry=_give_up, trace=trace)
        case Interrupted():
            await queue.release(job)


def _give_up(failure: Failure) -> Decision:
    return GiveUp()
