"""Pace: how long a job takes, as the last chunks have shown, and so how many make a chunk."""

# Long beside the cost of a task of Spark's; short for whoever waits until all lanes are through.
CHUNK_S = 2.0
# A task that was given too much begins no other job after this long, and gives the rest back.
BEGIN_WITHIN_S = 2 * CHUNK_S
# Before anything is known: few, in case that they take long.
_FIRST_JOBS = 10
# How far what a chunk shows moves what was known before.
_WEIGHT = 0.5


class Pace:
    """The pace of the jobs of one entrypoint, or of several that come together.

    >>> pace = Pace()
    >>> pace.jobs
    10
    >>> pace.learn(10, 0.1)
    >>> pace.jobs
    200
    """

    def __init__(self) -> None:
        self._job_s: float | None = None

    @property
    def jobs(self) -> int:
        """How many jobs make a chunk, at least one."""
        return _FIRST_JOBS if self._job_s is None else max(1, int(CHUNK_S / self._job_s))

    def learn(self, jobs: int, took_s: float) -> None:
        """A chunk of so many jobs has taken so long."""
        job_s = max(took_s / jobs, 1e-6)
        self._job_s = job_s if self._job_s is None else self._job_s + _WEIGHT * (job_s - self._job_s)
