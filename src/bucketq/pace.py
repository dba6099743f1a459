"""Pace: how much time to leave between two commits. It decides; the commit loop sleeps."""

_FIRST_STEP_S = 0.1
_INTERVAL_S_MAX = 10.0
# A try that fails costs a write: of twenty-one, that is one. Where commits are far apart, it is more at
# first, because twenty of them would outlive most slow-downs.
_COMMITS_BETWEEN_TRIES = 20
_KEPT_S = 15.0
# So long after the last slow-down, and the time that it counts for, half of the interval is left.
_HALVED_AFTER_S = 4.0


class Pace:
    """The commit interval, wider while the storage asks to slow down.

    GCS, for one, allows about one write a second to one object. A slow-down doubles the interval. Without
    another one it falls with time, slowly at first, whether commits land or not. When that was a little too
    much, the interval before it is kept for a while, and longer each time. Where the commits of other writers
    land closer together, so may these.

        interval  ▲      ╮
                  │     ╭╯╲__
        allowed ──│─────│────╲_______________╮╭────────────────╮╭───
                  │   ╭─╯                    ╰╯                ╰╯
                  └───╯   ▲ slow down         ▲                 ▲

    >>> pace = Pace(0.0)
    >>> pace.slow_down(0.0); pace.slow_down(0.0); pace.interval_s(0.0)
    0.2
    >>> pace.landed(0.3); pace.slow_down(1.0); pace.interval_s(1.0) > 0.19, pace.interval_s(30.0)
    (True, 0.0)
    """

    def __init__(self, wanted_s: float, most_s: float = _INTERVAL_S_MAX) -> None:
        self.wanted_s = wanted_s
        self._most_s = max(wanted_s, min(most_s, _INTERVAL_S_MAX))
        # The interval, as it is kept until a moment; the one that the next commit waits for; and the last one
        # at which a commit has landed.
        self._kept_s = self._next_s = self._proven_s = wanted_s
        self._until_s = 0.0
        self._patience_s = _KEPT_S
        # Commits of others since the last slow-down.
        self._others = 0

    def interval_s(self, now_s: float) -> float:
        """The time from one commit to the next."""
        if now_s <= self._until_s:
            return self._kept_s
        narrower_s = self._kept_s * 0.5 ** min(((now_s - self._until_s) / _HALVED_AFTER_S) ** 2, 99.0)
        return narrower_s if narrower_s > max(self.wanted_s, _FIRST_STEP_S / 10) else self.wanted_s

    def slow_down(self, now_s: float) -> None:
        """The storage complained."""
        self._others = 0
        if self._next_s < self._proven_s:
            self._keep(self._proven_s, now_s + min(_COMMITS_BETWEEN_TRIES * self._proven_s, self._patience_s))
            self._patience_s = min(2 * self._patience_s, _COMMITS_BETWEEN_TRIES * _INTERVAL_S_MAX)
        else:
            doubled_s = min(max(self.interval_s(now_s) * 2, _FIRST_STEP_S), self._most_s)
            self._keep(doubled_s, now_s + doubled_s)

    def landed(self, now_s: float) -> None:
        """The storage took a commit."""
        self._proven_s, self._next_s = self._next_s, self.interval_s(now_s)
        if self._proven_s == self.wanted_s:
            self._patience_s = _KEPT_S

    def others_landed(self, commits: int, within_s: float, now_s: float) -> None:
        """The storage took so many commits of others meanwhile: enough of them prove what it bears."""
        self._others += commits
        if self._others >= _COMMITS_BETWEEN_TRIES:
            self._until_s = min(self._until_s, now_s)
        if commits >= _COMMITS_BETWEEN_TRIES and within_s / commits < self.interval_s(now_s):
            self._proven_s = max(self.wanted_s, within_s / commits)
            self._keep(self._proven_s, now_s)

    def _keep(self, interval_s: float, until_s: float) -> None:
        self._kept_s = self._next_s = interval_s
        self._until_s = until_s
