"""The archive: what is finished is sealed, copied, and let go of."""

from datetime import datetime, timedelta

from bucketq.archived_job import kept_payloads, payloads_of_dead
from bucketq.ledger import SealedBatch
from bucketq.state.view import View


class WithArchive(View):
    """The steps of finished jobs on their way to the archive, and out of it."""

    def seal(self) -> None:
        """Fix name and content of the batches that go to the archive next, with the next version."""
        if self.ledger.seal(self.version + 1):
            self.changes += 1

    def is_seal_due(self, now: datetime) -> bool:
        """Whether enough jobs are finished for a batch, or one has waited long enough for it."""
        return (
            len(self.ledger.finished) >= self.settings.archive_jobs_max
            or self.ledger.finished_size >= self.settings.archive_bytes_max
            or self.ledger.is_older_than(now - timedelta(seconds=self.settings.archive_after_s))
        )

    def drop_archived(self, name: str) -> None:
        """Let go of a batch whose object is there."""
        lines, parts = self.ledger.sealed.get(name, SealedBatch())
        if self.ledger.drop(name):
            self.changes += 1
            self.dropped += [part.name for part in parts]
            if copied := kept_payloads(lines):
                # A dead job still needs its own, and so does the one that does it again.
                needed = {job.payload_object for job in self._table} | self._on_its_way()
                if any(segment.payloads for segment in self.backlog):
                    # Perhaps in a segment; if not, it will be collected.
                    needed |= payloads_of_dead(lines)
                self.dropped += [payload for payload, _ in copied if payload not in needed]

    def expire(self, day: str) -> None:
        """Count the archived jobs of a day out, before they are removed."""
        if self.ledger.expire(day):
            self.changes += 1

    def forget_expired(self, day: str) -> None:
        """The objects of an expired day are removed."""
        if self.ledger.forget(day):
            self.changes += 1
