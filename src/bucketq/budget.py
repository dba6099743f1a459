"""Budget: how far commits have to be apart so that a month's requests cost no more than they may.

A purse gets the month's money evenly, holds that of an hour, and pays for every request. While it is
more than half full nothing is held back; the emptier it gets, the further commits are apart, up to a
widest interval, because heartbeats and callers wait for them.

    widest  ▲───────╮
            │       │╲
            │       │ ╲
    none    │       │  ╲────────
            └───────┴───┴──────┴─▶  money in the purse
          debt      0  half   full

So the interval settles where as much is spent as comes in. It decides; the commit loop sleeps.
"""

# A burst may spend it at once: of a day's money a twenty-fourth, of a month's next to nothing.
_PURSE_S = 3600.0
# The share of the purse below which commits are held back, and at which that is over: apart,
# so that the log is not full of it.
_HELD_BELOW = 0.5
_OVER_AT = 0.75


class Budget:
    """So many dollars a second; `widest_s` is the most that two commits are held apart.

    >>> budget = Budget(per_s=1.0, widest_s=10.0)
    >>> budget.spend(1000.0, now_s=0.0); budget.interval_s(now_s=0.0)
    0.0
    >>> budget.spend(1700.0, now_s=0.0); budget.interval_s(now_s=0.0)
    5.0
    >>> budget.interval_s(now_s=900.0)
    0.0
    """

    def __init__(self, per_s: float, widest_s: float) -> None:
        self.per_s = per_s
        self.widest_s = widest_s
        self._full = per_s * _PURSE_S
        self._money = self._full
        self._at_s = float("-inf")
        self._is_held = False

    def spend(self, dollars: float, now_s: float) -> None:
        """Something was paid for."""
        # A debt that what is never held back has made must be paid off within half an hour.
        self._money = max(self._money_at(now_s) - dollars, -_HELD_BELOW * self._full)
        self._at_s = max(self._at_s, now_s)

    def interval_s(self, now_s: float) -> float:
        """How far two commits have to be apart."""
        share = self._money_at(now_s) / self._full
        return self.widest_s * min(1.0, max(0.0, 1 - share / _HELD_BELOW))

    def is_held(self, now_s: float) -> bool:
        """Whether commits are held back, or were so lately that they may be again."""
        share = self._money_at(now_s) / self._full
        self._is_held = share < (_OVER_AT if self._is_held else _HELD_BELOW)
        return self._is_held

    def is_spent(self, now_s: float) -> bool:
        """Whether commits are as far apart as they can be."""
        return self._money_at(now_s) <= 0

    def _money_at(self, now_s: float) -> float:
        passed_s = max(0.0, now_s - self._at_s)
        return min(self._full, self._money + passed_s * self.per_s)
