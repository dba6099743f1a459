"""Words: numbers as they are read on a small screen."""

from bucketq.job import Job, JobStatus

_BAR = 4


def spell_time(seconds: float) -> str:
    """A span of time in a few characters.

    >>> [spell_time(s) for s in (0.0042, 0.25, 3.14, 75, 4000, 200_000)]
    ['4 ms', '250 ms', '3.1 s', '75 s', '67 min', '56 h']
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    for limit, unit_s, unit in ((120, 1, "s"), (5970, 60, "min"), (259_200, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit_s:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def spell_count(count: int) -> str:
    """A number in a few characters.

    >>> [spell_count(count) for count in (312, 9876, 48_200, 999_999, 1_203_441)]
    ['312', '9,876', '48k', '999k', '1.2M']
    """
    if count < 10_000:
        return f"{count:,}"
    return f"{count // 1000}k" if count < 1_000_000 else f"{count // 100_000 / 10:,.1f}M"


def spell_rate(per_s: float) -> str:
    """How many a second.

    >>> spell_rate(0), spell_rate(0.25), spell_rate(12.34), spell_rate(4321)
    ('0/s', '0.2/s', '12.3/s', '4,321/s')
    """
    return f"{per_s:,.1f}/s" if 0 < per_s < 100 else f"{per_s:,.0f}/s"


def spell_size(size_bytes: int) -> str:
    """A size in bytes.

    >>> spell_size(640), spell_size(21_300), spell_size(2_400_000)
    ('640 B', '21 kB', '2.4 MB')
    """
    if size_bytes < 1000:
        return f"{size_bytes} B"
    return f"{size_bytes / 1000:.0f} kB" if size_bytes < 1_000_000 else f"{size_bytes / 1_000_000:.1f} MB"


def spell_progress(progress: float | None) -> str:
    """A bar, and how much of it is full.

    >>> spell_progress(0.4)
    '━╸    40%'
    """
    if progress is None:
        return ""
    halves = round(max(0.0, min(1.0, progress)) * 2 * _BAR)
    bar = "━" * (halves // 2) + "╸" * (halves % 2)
    return f"{bar:<{_BAR}} {progress:>4.0%}"


def spell_status(job: Job) -> str:
    """What a job is doing, in a word."""
    if job.status is JobStatus.IN_PROGRESS:
        return "cancelling" if job.is_cancelled else "running"
    return job.status.value


def short_id(job_id: str) -> str:
    """The end of an id: ids of the same time begin alike."""
    return job_id[-8:]


def printable(text: str) -> str:
    """The text without what a terminal would obey; lines stay lines.

    >>> printable("red\\x1b[31m\\nnext")
    'red·[31m\\nnext'
    """
    return "".join(one if one.isprintable() or one == "\n" else "·" for one in text.expandtabs(4))
