"""Toll: what a kill has cost, counted from the tapes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from bench.peers.tape import Event


@dataclass(frozen=True)
class Toll:
    """Of so many jobs that were acknowledged: how many never ended, or not yet, and how many ended twice."""

    kills: int
    jobs: int
    lost: int
    late: int
    doubled: int
    # Jobs that a worker was at when it was killed, and how long each then took to be done.
    interrupted: int = 0
    recovered_s: list[float] = field(default_factory=list)

    @property
    def recovered_median_s(self) -> float | None:
        """How long it took until an interrupted job was done."""
        return median(self.recovered_s) if self.recovered_s else None

    @property
    def recovered_max_s(self) -> float | None:
        """How long it took until the last one was."""
        return max(self.recovered_s, default=None)


def unfinished(acked: Iterable[int], events: Iterable[Event]) -> set[int]:
    """The acknowledged jobs that no handler has got to the end of."""
    return set(acked) - {event.number for event in events if event.what == "ended"}


def count_toll(
    acked: Iterable[int], events: Sequence[Event], killed_at_s: Sequence[float], is_over: bool = True
) -> Toll:
    """What was lost and what was doubled, by kills at these times.

    A job that ends twice was doubled. One that only begins twice was not: its first worker died. What has
    not ended is lost, unless others were still coming back when the tape was cut off.
    """
    acked = set(acked)
    ends = [event for event in events if event.what == "ended"]
    times_ended = Counter(event.number for event in ends if event.number in acked)
    interrupted, recovered_s = 0, []
    for started_s, killed_s in zip([0.0, *killed_at_s], killed_at_s, strict=False):
        lived = [event for event in events if started_s < event.at_s <= killed_s]
        begun = {event.number for event in lived if event.what == "begun"}
        for number in begun - {event.number for event in lived if event.what == "ended"}:
            interrupted += 1
            later = [event.at_s for event in ends if event.number == number and event.at_s > killed_s]
            recovered_s += [later[0] - killed_s] if later else []
    missing = len(unfinished(acked, events))
    return Toll(
        kills=len(killed_at_s),
        jobs=len(acked),
        lost=missing if is_over else 0,
        late=0 if is_over else missing,
        doubled=sum(count > 1 for count in times_ended.values()),
        interrupted=interrupted,
        recovered_s=recovered_s,
    )
