"""Errors <-> messages."""

from bucketq.errors import BucketQError, NotLeaderError, SessionForgottenError, TooManyRequestsError
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
        retry_after_s=error.retry_after_s if isinstance(error, TooManyRequestsError) else 0,
    )


def http_refusal_message(error: Exception) -> pb.Refusal:
    """The same for those who came by HTTP: where the leader is, they hear its address for HTTP."""
    message = refusal_message(error)
    if isinstance(error, NotLeaderError):
        message.leader = error.http
    return message


def error_of(message: pb.Refusal) -> BucketQError:
    """An error, from the wire."""
    if message.error == NotLeaderError.__name__:
        return NotLeaderError(message.leader, may_be_done=message.may_be_done)
    if message.error == SessionForgottenError.__name__:
        return SessionForgottenError(message.version)
    if message.error == TooManyRequestsError.__name__:
        return TooManyRequestsError(message.message, message.retry_after_s)
    return Refusal(message.error, message.message, message.job_id).exception()
