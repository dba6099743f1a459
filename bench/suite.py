"""The suite: which workloads are measured on which storage, and what each should reach."""

from dataclasses import dataclass, replace

from bench.workloads import Workload

ENQUEUE_1 = Workload(name="enqueue, 1 caller", kind="enqueue")
ENQUEUE_10 = Workload(name="enqueue, 10 callers", kind="enqueue", callers=10)
ENQUEUE_50 = Workload(name="enqueue, 50 callers", kind="enqueue", callers=50)
WORK_1 = Workload(name="dequeue+ack, 1 caller", kind="work", filled=1000)
MIXED_50 = Workload(name="mixed, 50 callers", kind="mixed", callers=50, filled=50)

WAITING = 10_000
_SMALL = {"payload_bytes": 200, "operations": 100, "filled": WAITING}


@dataclass(frozen=True)
class Aim:
    """A workload, how many times jqueue's speed it should reach (if that was set), and its turns.

    Short workloads get more turns: theirs are over in milliseconds, and easily disturbed.
    """

    workload: Workload
    target: float | None
    turns: int = 5


@dataclass(frozen=True)
class Series:
    """Workloads for one table. With `one_file` they follow each other on the same file."""

    key: str
    title: str
    storage: str
    aims: tuple[Aim, ...]
    one_file: bool = False

    def shortened(self) -> "Series":
        """The same for a quick look: few operations, once."""
        aims = tuple(Aim(aim.workload.shortened(), aim.target, turns=1) for aim in self.aims)
        return replace(self, aims=aims)

    def repeated(self, turns: int) -> "Series":
        """The same with another number of turns."""
        return replace(self, aims=tuple(replace(aim, turns=turns) for aim in self.aims))


_MEMORY_AIMS = (
    Aim(ENQUEUE_1, 10),
    Aim(ENQUEUE_10, 6, turns=25),
    Aim(ENQUEUE_50, 5, turns=25),
    Aim(WORK_1, 40),
    Aim(MIXED_50, 5, turns=25),
)
_FILE_AIMS = (
    Aim(ENQUEUE_1, 5),
    Aim(ENQUEUE_10, None, turns=25),
    Aim(ENQUEUE_50, 20, turns=25),
    Aim(WORK_1, 20),
    Aim(MIXED_50, 50, turns=25),
)
_WAITING_AIMS = (
    Aim(Workload(name="enqueue, 1 caller", kind="enqueue", **_SMALL), 50),
    Aim(Workload(name="dequeue+ack, 1 caller", kind="work", **_SMALL), 100),
)

SUITE = (
    Series(
        "memory",
        "In memory, 1 KB payloads, an empty queue each",
        "memory",
        _MEMORY_AIMS,
    ),
    Series(
        "file",
        "Local file, 1 KB payloads, a new file each (bucketq with fsync, jqueue without)",
        "file",
        _FILE_AIMS,
    ),
    Series(
        "waiting",
        f"In memory, {WAITING:,} jobs of 200 bytes waiting",
        "memory",
        _WAITING_AIMS,
    ),
    Series(
        "one-file",
        "Local file, one file for all, never emptied, as jqueue's own benchmark does it",
        "file",
        _FILE_AIMS,
        one_file=True,
    ).repeated(2),
)
