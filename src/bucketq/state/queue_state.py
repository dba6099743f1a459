"""QueueState: all parts of a queue's state, in one."""

from bucketq.state.archive import WithArchive
from bucketq.state.brokers import WithBrokers
from bucketq.state.claims import WithClaims
from bucketq.state.schedules import WithSchedules
from bucketq.state.segment_claims import WithSegmentClaims
from bucketq.state.settlements import WithSettlements


class QueueState(WithSettlements, WithClaims, WithSegmentClaims, WithSchedules, WithArchive, WithBrokers):
    """All jobs of a queue, what has happened to those that are gone, and every transition."""

    def stamp(self, writer: str, number: int) -> None:
        """Make this the next version, signed by a writer's commit number."""
        self.version += 1
        self.signatures.sign(writer, number, self.version)
