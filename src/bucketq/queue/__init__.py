"""Queue: what a user does with a queue, wherever it is.

Its parts, by what they are for: `producing`, `consuming`, `segments`, `results`, `looking`,
`settling`, `control`. All of them send operations through `channel`; `bucketq.embedded` and
`bucketq.remote` say where to.
"""

from bucketq.queue.queue import Queue

__all__ = ["Queue"]
