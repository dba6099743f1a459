"""Words: how far a job has got, in a few characters."""

_BAR = 4


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
