"""Pace: how much time to leave between two commits. It decides; the commit loop sleeps."""

_FIRST_STEP_S = 0.1
_INTERVAL_S_MAX = 10.0
# A try that fails costs a write: of twenty-one, that is one.
_COMMITS_BETWEEN_TRIES = 20


class Pace:
    """The commit interval, wider while the storage asks to slow down.

    GCS, for one, allows about one write a second to one object. A slow-down doubles the
    interval, and each commit that lands takes a tenth off, until the wanted one is back. When
    that was a tenth too much, the interval before it is kept for a while, and then tried again.

        interval  ▲      ╮
                  │     ╭╯╲__
        allowed ──│─────│────╲_______________╮╭────────────────╮╭───
                  │   ╭─╯                    ╰╯                ╰╯
                  └───╯   ▲ slow down         ▲                 ▲

    >>> pace = Pace(0.0)
    >>> pace.slow_down(); pace.slow_down(); pace.interval_s
    0.2
    >>> pace.landed(); pace.slow_down(); pace.interval_s
    0.2
    """

    def __init__(self, wanted_s: float) -> None:
        self.wanted_s = wanted_s
        self.interval_s = wanted_s
        # At which a commit has landed; and how many more of them are to, before less is tried.
        self._proven_s = wanted_s
        self._kept_for = 0

    def slow_down(self) -> None:
        """The storage complained."""
        if self.interval_s < self._proven_s:
            self.interval_s, self._kept_for = self._proven_s, _COMMITS_BETWEEN_TRIES
        else:
            doubled_s = max(self.interval_s * 2, _FIRST_STEP_S)
            self.interval_s = min(doubled_s, max(_INTERVAL_S_MAX, self.wanted_s))
            self._kept_for = 0

    def landed(self) -> None:
        """The storage took a commit."""
        if self.interval_s == self.wanted_s:
            self._proven_s = self.wanted_s
        elif self._kept_for:
            self._kept_for -= 1
        else:
            self._proven_s = self.interval_s
            narrower_s = self.interval_s * 0.9
            close = narrower_s < max(self.wanted_s, _FIRST_STEP_S / 10)
            self.interval_s = self.wanted_s if close else narrower_s
