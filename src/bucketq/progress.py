"""Progress: what a worker says of the job it is busy with, and whether that makes sense."""

from bucketq.errors import ConfigurationError
from bucketq.new_job import is_text

NOTE_MAX = 500


def check_progress(progress: float | None, note: str | None) -> None:
    """Raise ConfigurationError for what is no progress.

    >>> check_progress(0.4, "halfway")
    """
    is_number = isinstance(progress, int | float) and not isinstance(progress, bool)
    if progress is not None and not (is_number and 0 <= progress <= 1):
        raise ConfigurationError(f"progress is a number from 0 to 1, not {progress!r}")
    if note is not None and not (is_text(note) and len(note) <= NOTE_MAX):
        raise ConfigurationError(f"a note is a text of up to {NOTE_MAX} characters")
