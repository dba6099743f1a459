"""Finding: one figure of the benchmark, in two situations, and how the two should compare."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One figure in a first situation, mostly with few jobs waiting, and in a second one, with many.

    A `ratio` above `most`, or below `least`, is not good enough.
    """

    name: str
    shallow: float
    deep: float
    most: float | None = None
    least: float | None = None

    @property
    def ratio(self) -> float:
        """The second to the first."""
        return self.deep / self.shallow

    @property
    def is_met(self) -> bool | None:
        """Whether it is good enough, if that was set."""
        if self.most is not None:
            return self.ratio <= self.most
        return self.ratio >= self.least if self.least is not None else None
