"""Queue: what a user does with a queue, wherever it is."""

from bucketq.queue.consuming import Consuming
from bucketq.queue.control import Control
from bucketq.queue.producing import Producing
from bucketq.queue.results import Results
from bucketq.queue.segments import Segments
from bucketq.queue.settling import Settling


class Queue(Producing, Consuming, Segments, Results, Settling, Control):
    """A durable job queue.

    Every method returns only after its change is safely stored; only the heartbeats of a
    BrokerQueue may return sooner and ride along with the next write. A job is given either
    as the `Job` that `dequeue` returned, which is refused if the claim on it was lost, or
    as its id, which stands for whoever holds the job.
    """
