"""Settling: jobs that are not wanted any more, and dead ones, which are done again or forgotten.

Such a job may be in a segment of the backlog. Then that is found first, and the operation names it.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

from bucketq.dead_letters import DeadLetter, dead_letters
from bucketq.errors import JobNotFoundError, ObjectNotFoundError
from bucketq.job import Claim, Job
from bucketq.operation import Operation
from bucketq.operation.settlements import Cancel, Discard, Redrive, SettleMany
from bucketq.queue.looking import Looking, find_in
from bucketq.side_objects import LiveSegments

# Dead jobs in one commit.
_SETTLED_AT_ONCE = 100


class Settling(Looking):
    """Cancelling jobs; redriving and discarding dead ones."""

    async def cancel(self, job: Job | Claim | str) -> Job:
        """The job is not wanted any more. One that waits is gone at once, and archived as cancelled.

        Of one that runs the worker is told by its next heartbeat, which raises
        JobCancelledError. If it acknowledges the job all the same, that is completed; however
        else the attempt ends, there is no other one. Returns the job as it stands, or stood.
        Raises JobNotFoundError if it is finished already, or dead. By the id of a batch the job that
        follows is cancelled, and nothing is counted any more; the jobs of the batch are done.

            await q.cancel(job)
        """
        job_id = Claim.of(job).job_id
        now = self._clock.now()
        cancelled: Job = await self._settle(job_id, lambda where: Cancel(job_id, now, where))
        return cancelled

    async def dead(self, entrypoint: str | None = None) -> AsyncIterator[Job]:
        """The dead jobs, of one entrypoint or of all: those that will not be tried again.

            async for job in q.dead("send_email"):
                print(job.id, job.error)

        They stay until they are redriven or discarded. A large payload is left where it is;
        `fetch_payload` gets it.
        """
        async for letter in self._dead_letters(entrypoint):
            yield letter.job

    async def redrive(self, job: Job | str) -> Job:
        """Do a dead job again: a new job, which names it in `redrive_of`, takes its place.

            again = await q.redrive(job)

        Raises JobNotFoundError if it is not dead, or not there, and KeyTakenError if another job
        has its unique key now.
        """
        job_id, now = Claim.of(job).job_id, self._clock.now()
        new_id = self._mint.job_id(now)
        new: Job = await self._settle(job_id, lambda where: Redrive(job_id, new_id, now, where))
        return new

    async def redrive_many(
        self, entrypoint: str | None = None, *, error: str | None = None, limit: int | None = None
    ) -> int:
        """Redrive the dead jobs of an entrypoint, or of all; return how many.

        `error` takes only those whose last error has this text in it, `limit` no more than so
        many. They are redriven a hundred in a commit. One whose unique key another job has now
        stays dead.

            await q.redrive_many("send_email", error="Connection refused")
        """
        now = self._clock.now()

        def redrive(letter: DeadLetter) -> Redrive:
            return Redrive(letter.job.id, self._mint.job_id(now), now, letter.where)

        return await self._settle_many(redrive, entrypoint, error, limit)

    async def discard(self, job: Job | str) -> None:
        """Forget a dead job; the archive keeps what it was. Raises JobNotFoundError."""
        job_id = Claim.of(job).job_id
        await self._settle(job_id, lambda where: Discard(job_id, where))

    async def discard_many(
        self, entrypoint: str | None = None, *, error: str | None = None, limit: int | None = None
    ) -> int:
        """Forget dead jobs, chosen as `redrive_many` does; return how many."""

        def discard(letter: DeadLetter) -> Discard:
            return Discard(letter.job.id, letter.where)

        return await self._settle_many(discard, entrypoint, error, limit)

    def _dead_letters(self, entrypoint: str | None) -> AsyncIterator[DeadLetter]:
        return dead_letters(self.read_file, self.read_segment, entrypoint)

    async def _settle(self, job_id: str, operation: Callable[[str], Operation]) -> Any:
        """Have something done to a job; `operation` makes it of the segment in which the job is."""
        where, segments = "", LiveSegments(self.read_segment)
        while True:
            answer = await self._submit(operation(where))
            if answer is None:
                continue  # it went through a broker twice, and nobody knows where the job was
            if not isinstance(answer, list):
                return answer
            try:
                found = await find_in(answer, segments, job_id)
            except ObjectNotFoundError:
                continue
            if found is None:
                raise JobNotFoundError(job_id)
            where = found[1].name

    async def _settle_many(
        self,
        operation: Callable[[DeadLetter], Redrive | Discard],
        entrypoint: str | None,
        error: str | None,
        limit: int | None,
    ) -> int:
        done = 0
        while True:
            before, parts = done, list[Redrive | Discard]()
            missed = 0
            async for letter in self._dead_letters(entrypoint):
                if not letter.matches(error):
                    continue
                if limit is not None and done + len(parts) >= limit:
                    break
                parts.append(operation(letter))
                if len(parts) == _SETTLED_AT_ONCE:
                    count = await self._submit(SettleMany(tuple(parts)))
                    done, missed, parts = done + count, missed + len(parts) - count, []
            if parts:
                count = await self._submit(SettleMany(tuple(parts)))
                done, missed = done + count, missed + len(parts) - count
            # Some may have moved to another segment before their turn came.
            if not missed or done == before:
                return done
