"""Errors <-> messages."""

from bucketq.errors import BucketQError, NotLeaderError, SessionForgottenError
from bucketq.refusal import Refusal
from bucketq.v1 import queue_pb2 as pb


def refusal_message(error: Exception) -> pb.Refusal:
    """An error, for the wire."""
    refusal = Refusal.of(error)
    return pb.Refusal(
        error=refusal.error,
        message=refusal.message,
        job_id=refusal.job_id,
        leader=error.address if isinstance(error, NotLeaderError) else "",
        may_be_done=isinstance(error, NotLeaderError) and error.may_be_done,
        version=error.version if isinstance(error, SessionForgottenError) else 0,
    )


def error_of(message: pb.Refusal) -> BucketQError:
    """An error, from the wire."""
    if message.error == NotLeaderError.__name__:
        return NotLeaderError(message.leader, may_be_done=message.may_be_done)
    if message.error == SessionForgottenError.__name__:
        return SessionForgottenError(message.version)
    return Refusal(message.error, message.message, message.job_id).exception()
