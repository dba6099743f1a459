"""Wanted: the entrypoints that somebody wants jobs of: one, several, or (None) any."""

from collections.abc import Collection

from bucketq.errors import ConfigurationError

# Each of them costs a little for every job.
WANTED_MAX = 1000

# Several are sorted, so that two who want the same say the same.
Wanted = str | tuple[str, ...] | None


def wanted_of(entrypoint: str | Collection[str] | None) -> Wanted:
    """What a caller wants. Raises ConfigurationError.

    >>> wanted_of(["resize", "mail"])
    ('mail', 'resize')
    >>> wanted_of(["mail"])
    'mail'
    """
    if entrypoint is None or isinstance(entrypoint, str):
        return entrypoint
    if not isinstance(entrypoint, Collection) or not all(isinstance(name, str) for name in entrypoint):
        raise ConfigurationError(
            f"dequeue takes one entrypoint, a list of some, or None for any, not {entrypoint!r}"
        )
    if not 1 <= len(entrypoint) <= WANTED_MAX:
        raise ConfigurationError(
            f"a list of entrypoints has from 1 to {WANTED_MAX}, not {len(entrypoint)}; None stands for any"
        )
    names = tuple(sorted(set(entrypoint)))
    return names if len(names) > 1 else names[0]


def names_of(wanted: Wanted) -> tuple[str, ...]:
    """The entrypoints by name; none if any is wanted."""
    return (wanted,) if isinstance(wanted, str) else wanted or ()


def is_wanted(entrypoint: str, wanted: Wanted) -> bool:
    """Whether an entrypoint is among those that are wanted."""
    return wanted is None or entrypoint in names_of(wanted)
