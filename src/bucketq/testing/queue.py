"""QueueContract: what every queue does, whatever is behind it.

Subclass it and give `open`; run it with pytest and pytest-asyncio:

    class TestMyQueue(QueueContract):
        def open(self):
            return BrokerQueue(MyStorage())

SegmentContract is the same for what only queues with objects beside them can do: to give out whole
segments.
"""

from bucketq.testing.contract.attempts import Attempts
from bucketq.testing.contract.claims import Claims
from bucketq.testing.contract.dead_letters import DeadLetters
from bucketq.testing.contract.flow import Flow
from bucketq.testing.contract.keys import Keys
from bucketq.testing.contract.limits import Limits
from bucketq.testing.contract.listing import Listing
from bucketq.testing.contract.order import Order
from bucketq.testing.contract.payloads import Payloads
from bucketq.testing.contract.schedules import Schedules
from bucketq.testing.contract.segments import Segments
from bucketq.testing.contract.transactions import Transactions


class QueueContract(
    Order,
    Claims,
    Attempts,
    Payloads,
    Transactions,
    Keys,
    DeadLetters,
    Listing,
    Flow,
    Schedules,
    Limits,
):
    """The behaviour of a queue, as tests. Every call of `open` gives a new, empty queue."""


class SegmentContract(Segments):
    """How whole segments are claimed and settled, as tests. `open` is as for QueueContract."""
