"""Door: whoever asks something of a broker, by whatever way, comes in here."""

from bucketq.broker.access import ANYBODY, Caller


class Door:
    """Lets callers in."""

    def admit(self, authorization: str | None, peer: str) -> Caller:
        """Whoever shows this header, from that address. Raises UnauthenticatedError."""
        return ANYBODY
