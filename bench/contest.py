"""The contest: both libraries play every workload in turn, and the ratios are collected.

They alternate within each repetition (bucketq, jqueue, bucketq, jqueue, …) so that
whatever else the machine does slows both. A third takes a turn too. For a file it is the
floor: the bare system calls of the same commits. In memory it is bucketq on a storage that
wants each commit in one piece, as jqueue's does: bucketq's own memory is content with the
pieces, which flatters it.
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.floor import commit_sizes, floor_s
from bench.side import Side
from bench.suite import Aim, Series


@dataclass
class Figure:
    """What one workload took, in seconds, each time that it was played."""

    aim: Aim
    bucketq_s: list[float] = field(default_factory=list)
    jqueue_s: list[float] = field(default_factory=list)
    floor_s: list[float] = field(default_factory=list)
    one_piece_s: list[float] = field(default_factory=list)

    @property
    def bucketq_per_s(self) -> float:
        """Bucketq's operations a second: the median."""
        return self._per_s(self.bucketq_s) or 0.0

    @property
    def jqueue_per_s(self) -> float | None:
        """Jqueue's operations a second: the median, if it took part."""
        return self._per_s(self.jqueue_s)

    @property
    def floor_per_s(self) -> float | None:
        """What the file system alone allows, if a file was used."""
        return self._per_s(self.floor_s)

    @property
    def one_piece_per_s(self) -> float | None:
        """Bucketq's operations a second where each commit is put together, if that was tried."""
        return self._per_s(self.one_piece_s)

    @property
    def ratio(self) -> float | None:
        """How many times faster than jqueue: the median of each turn's ratio."""
        return self._ratio(self.bucketq_s)

    @property
    def ratio_at_floor(self) -> float | None:
        """The ratio of a bucketq that computes nothing and only waits for the disk."""
        return self._ratio(self.floor_s)

    @property
    def ratio_in_one_piece(self) -> float | None:
        """The ratio where each commit is put together."""
        return self._ratio(self.one_piece_s)

    @property
    def is_met(self) -> bool | None:
        """Whether the target was reached, where there is one and a ratio to compare."""
        return None if self.ratio is None or self.aim.target is None else self.ratio >= self.aim.target

    def _per_s(self, took_s: list[float]) -> float | None:
        return self.aim.workload.operations / median(took_s) if took_s else None

    def _ratio(self, took_s: list[float]) -> float | None:
        if not took_s or not self.jqueue_s:
            return None
        return median(theirs / ours for ours, theirs in zip(took_s, self.jqueue_s, strict=True))


def compare(
    series: Series, bucketq: Side, jqueue: Side | None, folder: Path, say: Callable[[str], None]
) -> list[Figure]:
    """Play the series on both sides, each workload as often as its aim says."""
    figures = [Figure(aim) for aim in series.aims]
    on_file = series.storage == "file"
    sizes = commit_sizes([aim.workload for aim in series.aims], series.one_file) if on_file else []
    for turn in range(1, max(aim.turns for aim in series.aims) + 1):
        with tempfile.TemporaryDirectory(dir=folder) as home:
            for number, figure in enumerate(figures):
                workload = figure.aim.workload
                if turn > figure.aim.turns:
                    continue
                say(f"{series.key}: {workload.name} ({turn} of {figure.aim.turns})")
                name = "queue.json" if series.one_file else f"{number}.json"
                place = Path(home)
                # What one leaves for the disk to write must not delay the next one's fsync.
                os.sync()
                figure.bucketq_s.append(bucketq.play(workload, series.storage, place / f"bucketq-{name}"))
                if jqueue:
                    os.sync()
                    figure.jqueue_s.append(jqueue.play(workload, series.storage, place / f"jqueue-{name}"))
                if on_file:
                    os.sync()
                    figure.floor_s.append(floor_s(sizes[number], place / f"floor-{name}"))
                else:
                    figure.one_piece_s.append(bucketq.play(workload, "port", place))
    return figures
