"""Pace: how much time to leave between two commits. It decides; the commit loop sleeps."""

_FIRST_STEP_S = 0.1
_INTERVAL_S_MAX = 10.0


class Pace:
    """The commit interval, wider while the storage asks to slow down.

    GCS, for one, allows about one write a second to one object. Each slow-down doubles
    the interval, each landed commit takes a tenth off, until the wanted one is back.

    >>> pace = Pace(0.0)
    >>> pace.slow_down(); pace.slow_down(); pace.interval_s
    0.2
    """

    def __init__(self, wanted_s: float) -> None:
        self._wanted_s = wanted_s
        self.interval_s = wanted_s

    def slow_down(self) -> None:
        """The storage complained."""
        doubled_s = max(self.interval_s * 2, _FIRST_STEP_S)
        self.interval_s = min(doubled_s, max(_INTERVAL_S_MAX, self._wanted_s))

    def landed(self) -> None:
        """The storage took a commit."""
        if self.interval_s != self._wanted_s:
            narrower_s = self.interval_s * 0.9
            close = narrower_s < max(self._wanted_s, _FIRST_STEP_S / 10)
            self.interval_s = self._wanted_s if close else narrower_s
