"""QueueState: the queue as a pure state machine.

    enqueue         dequeue               ack
    ────────▶ QUEUED ──────▶ IN_PROGRESS ─────▶ gone (completed)
      │         ▲                 │
      │ later   │ attempts left   │ nack, stale
      │         ├─────────────────┤
      │         │ due             │ not yet
      └───▶ SCHEDULED ◀───────────┤
                                  │ none left
                                  └───────────▶ DEAD

A job that waits for others is BLOCKED first (see `dependents`).

One method a transition. No I/O, clock or chance in here: ids and times are arguments.
Every transition costs O(log n); `apply` makes an operation of several transitions
all-or-nothing, by an undo log of the jobs it touched.

Waiting jobs may also stand in the segments of the backlog. They come in when it is their
turn, from the shelf, where somebody has put the segment's content. A transition that needs
a segment which is not on the shelf raises SegmentNeededError and is to be tried again later.

QueueState is made of parts, each a class that inherits from those it needs:

    contents ◀─ view ◀─ backlog ◀─ endings ◀─┬─ arrivals ◀─ settlements
        ▲         ▲                          ├─ dispatch ◀─┬─ undo ◀─ schedules (and arrivals)
     brokers   archive                       └─ claims     └─ segment_claims
"""

from bucketq.state.queue_state import QueueState
from bucketq.state.view import Stats

__all__ = ["QueueState", "Stats"]
