"""Call: a handler with its arguments, ready to be enqueued."""

from typing import NamedTuple

from bucketq.new_job import JobOptions


class Call(NamedTuple):
    """What `handler.call(...)` makes: a job that is not in any queue yet.

    Enqueue it with `app.enqueue`, several of them in one commit; or give it to `Running.enqueue`, and
    the commit that completes the running job enqueues it too.
    """

    entrypoint: str
    # JSON already, and seen to fit the handler.
    payload: bytes
    priority: int
    options: JobOptions
