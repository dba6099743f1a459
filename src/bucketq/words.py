"""Words: times, numbers and sizes as people read them, alike by the command line, `top` and the doctor."""

from datetime import UTC, datetime, timedelta


def spell_time(span: float | timedelta) -> str:
    """A span of time, or so many seconds, in a few characters.

    >>> [spell_time(s) for s in (0.0042, 0.25, 3.14, 75, 4000, 200_000)]
    ['4 ms', '250 ms', '3.1 s', '75 s', '67 min', '56 h']

    Less than nothing is nothing: the two ends may be times of two clocks.
    """
    seconds = max(0.0, span.total_seconds() if isinstance(span, timedelta) else span)
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


def spell_jobs(count: int, kind: str = "") -> str:
    """So many jobs.

    >>> spell_jobs(1), spell_jobs(1200), spell_jobs(2, "dead")
    ('1 job', '1200 jobs', '2 dead jobs')
    """
    return f"{count} {f'{kind} ' if kind else ''}{'job' if count == 1 else 'jobs'}"


def spell_rate(per_s: float) -> str:
    """How many a second.

    >>> spell_rate(0), spell_rate(0.02), spell_rate(0.25), spell_rate(12.34), spell_rate(4321)
    ('0/s', '< 0.1/s', '0.2/s', '12.3/s', '4,321/s')
    """
    if 0 < per_s < 0.05:
        return "< 0.1/s"
    return f"{per_s:,.1f}/s" if 0 < per_s < 100 else f"{per_s:,.0f}/s"


def spell_size(size_bytes: int) -> str:
    """A size in bytes.

    >>> spell_size(640), spell_size(21_300), spell_size(2_400_000)
    ('640 B', '21 kB', '2.4 MB')
    """
    if size_bytes < 1000:
        return f"{size_bytes} B"
    return f"{size_bytes / 1000:.0f} kB" if size_bytes < 1_000_000 else f"{size_bytes / 1_000_000:.1f} MB"


def spell_moment(moment: datetime) -> str:
    """A time, to the second, in UTC.

    >>> spell_moment(datetime(2026, 2, 15, 10, tzinfo=UTC))
    '2026-02-15 10:00:00Z'
    """
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"


def printable(text: str) -> str:
    """A text without what would move a terminal's cursor, or worse; lines stay lines.

    >>> printable("one\\x1b[2J")
    'one\\\\x1b[2J'
    """
    return "".join(
        one if one.isprintable() or one == "\n" else ascii(one)[1:-1] for one in text.expandtabs(4)
    )


def first_line(text: str | None) -> str:
    """The first line of an error or a note, which may go on over many."""
    return next(iter((text or "").splitlines()), "")
