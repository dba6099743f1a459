"""Contention: several processes write to one object, and take turns. It decides; the commit loop waits.

A writer that has landed can write again one round trip later. A writer that has lost must read first, and
would lose again. So each writer commits a few times and then lets the next one go ahead. The order follows
from the signatures in queue.json, which every writer reads:

    version 41, signed by B      B has signed 40 and 41: the turn is B's until 43
    version 39, signed by A      A had the turn before
    version 35, signed by C      C signed longest ago: it is next
    version 12, signed by D      too long ago: D does not write at the moment

The next writer looks often when the turn is about to end, several looks at a time, and writes as soon as it
sees the last commit. If it does not come, the others continue after a while. Writers that are not in the
file cannot be seen, so even a writer that is alone leaves a short gap now and then.

The last three digits of a commit's number are the milliseconds of its writer's round trip: others have to
know how long they must wait for it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from bucketq.signatures import Signature

# Commits of one turn. With more, the other writers wait longer; with fewer, more time is lost in between.
TURN = 4
# The same for a writer that sees no other one. Its first turns are shorter: the others may just be starting.
LONE_TURN = 32
# A writer that lets its turn pass as often as this is not waited for any more.
CHANCES = 2
# Once in so many seconds, known writers leave a gap long enough for those with a slower way to the storage.
OPEN_EVERY_S = 16.0
OPEN_S_MAX = 0.12
_OPEN_ROUND_TRIPS = 8
# Storages as near as this are left alone: there, a loser reads in no time.
NEAR_S = 0.005
# In round trips: the gap of a lone writer; how long before the end of a turn the next writer begins to look,
# and how often; how long a writer is waited for; how far apart commits are when nobody is in the way.
_GAP = 0.2
_LOOK_AHEAD = 0.8
_LOOK_EVERY = 0.15
_PATIENCE = 2.25
_QUIET = 8
# Of seconds: no timer is finer.
_DIGITS = 6
_COUNT = 1000


class Order(NamedTuple):
    """Whose turn it is, as the signatures have it."""

    holder: str
    held_s: float
    version: int
    # How many commits the holder has left.
    left: int
    # The other writers that are waited for, and their round trips. The last of them is next.
    rivals: dict[str, float]
    # For how long all of these hold back, for the sake of writers that they cannot see.
    open_s: float


def order_of(writers: Mapping[str, Signature], resting: Mapping[str, int]) -> Order | None:
    """The order that follows from signatures, the oldest first; None if nobody has signed.

    `resting` are writers that had nothing more to write, by the version that they signed last.
    """
    if not writers:
        return None
    (holder, held), *older = reversed(list(writers.items()))
    run = held.version - (older[0][1].version if older else 0)
    rivals: dict[str, float] = {}
    for name, (number, version) in older:
        if held.version - run - version > (len(rivals) + CHANCES) * TURN:
            break
        if resting.get(name) != version:
            rivals[name] = _round_trip_s(number)
    # Each turn more than that, the half of them that has signed longest ago is given up.
    turns = -(-run // TURN)
    rivals = dict(list(rivals.items())[: len(rivals) >> max(0, turns - CHANCES)])
    turn = TURN if rivals else min(LONE_TURN, TURN << (turns - 1).bit_length())
    held_s = _round_trip_s(held.number)
    mean_s = (held_s + sum(rivals.values())) / (1 + len(rivals))
    # A power of two, so that round trips that vary a little make no difference.
    every = 1 << int(OPEN_EVERY_S / mean_s).bit_length() - 1
    is_open = held.version // every != (held.version - turn) // every
    open_s = min(OPEN_S_MAX, _OPEN_ROUND_TRIPS * mean_s) if is_open else 0.0
    return Order(holder, held_s, held.version, -run % turn, rivals, open_s)


def _round_trip_s(number: int) -> float:
    return max(1, number % _COUNT) / 1000


class Contention:
    """What one writer makes of the signatures that it sees: when to write, and when to look."""

    def __init__(self, writer: str, is_alone: bool = False) -> None:
        self._writer = writer
        # Whether there is nobody to take turns with, or no need to.
        self._is_alone = is_alone
        # Of the requests that were answered lately.
        self._round_trip_s = 0.0
        self._last: Order | None = None
        self._seen_s = self._refused_s = float("-inf")
        self._resting: dict[str, int] = {}
        # Whether this writer waits for the rest of somebody's turn: if that does not come, they rest.
        self._awaits_holder = False
        # This writer may write from then on, if nothing changes; by then the turn before it may be over.
        self._free_s = self._expected_s = self._look_s = float("-inf")

    @property
    def is_far(self) -> bool:
        """Whether requests take so long that writers have to take turns."""
        return self._round_trip_s >= NEAR_S and not self._is_alone

    def took(self, seconds: float) -> None:
        """Take note of how long a request took."""
        self._round_trip_s += (seconds - self._round_trip_s) / 4 if self._round_trip_s else seconds

    def number_after(self, number: int) -> int:
        """The number of the commit after this one."""
        if not self.is_far:
            return number + 1
        return (number // _COUNT + 1) * _COUNT + min(_COUNT - 1, round(1000 * self._round_trip_s))

    def refused(self, now_s: float) -> None:
        """Take note of a write that did not land: if another commit is found, it was there by now."""
        self._refused_s = now_s

    def saw(self, writers: Mapping[str, Signature], now_s: float) -> None:
        """Take note of the signatures in a state that was read or has landed."""
        last, order = self._last, order_of(writers, self._resting) if self.is_far else None
        if order is None or (last is not None and order.version == last.version):
            return
        commits = max(1, order.version - last.version) if last is not None else 1
        if commits == 1 and self._refused_s > self._seen_s:
            # It was there when the write was refused, and not only now that it is read.
            now_s = self._refused_s
        if self._awaits_holder and last is not None and order.holder == self._writer:
            self._resting[last.holder] = last.version
        at = {name: version for name, (_, version) in writers.items()}
        self._resting = {name: rested for name, rested in self._resting.items() if at.get(name) == rested}
        own_s, rivals, is_own = self._round_trip_s, order.rivals, order.holder == self._writer
        gap_s = 0.0 if order.left else order.open_s
        if is_own:
            # For the next one, and for the one behind it, which goes ahead if that does not come.
            waited_for = [] if order.left else [*rivals.values()][-2:]
            gap_s += 0.0 if rivals or order.left else _GAP * own_s
            ahead_s = TURN * sum(rivals.values())
        else:
            names, is_known = [*rivals], self._writer in rivals
            ahead = [rivals[name] for name in names[names.index(self._writer) + 1 :]] if is_known else []
            waited_for = [order.held_s, *ahead] if order.left else ahead
            gap_s = gap_s if is_known else 0.0
            ahead_s = order.left * order.held_s + TURN * sum(ahead)
        wait_s = gap_s + _PATIENCE * sum(max(own_s, one_s) for one_s in waited_for)
        if not is_own and now_s - self._seen_s > commits * _QUIET * max(own_s, order.held_s):
            wait_s = 0.0
        elif not is_own and len(waited_for) > 1:
            wait_s = max(wait_s, ahead_s)
        self._awaits_holder = not is_own and order.left > 0 and wait_s > 0
        self._last, self._seen_s = order, now_s
        self._free_s, self._expected_s = now_s + wait_s, now_s + ahead_s - own_s
        self._look_s = self._free_s
        if rivals or not is_own:
            self.looked(now_s)

    def wait_s(self, now_s: float) -> float:
        """For how long this writer has to wait, as far as it knows; 0 if it may write."""
        return round(self._free_s - now_s, _DIGITS) if self._free_s > now_s else 0.0

    def look_in_s(self, now_s: float) -> float:
        """When it should look whether the object has changed."""
        return round(self._look_s - now_s, _DIGITS) if self._look_s > now_s else 0.0

    def looked(self, now_s: float) -> None:
        """It looks now; plan the next look."""
        own_s, left_s = self._round_trip_s, self._expected_s - now_s
        # Far from its turn it halves the way; the time that others take is only about known.
        in_s = left_s / 2 if left_s > 1.5 * own_s else left_s - _LOOK_AHEAD * own_s
        soon_s = now_s + _LOOK_EVERY * own_s
        self._look_s = max(soon_s, now_s + in_s)
        # No writer is passed over without a look that would have seen it.
        last_s = self._free_s - (1 + _LOOK_EVERY) * own_s
        if soon_s < last_s < self._look_s:
            self._look_s = last_s
