"""ArchiveLines: some lines of the archive, and where they are, so that damage is told by its place."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Self

from bucketq.ledger import FinishedLine


class ArchiveLines(NamedTuple):
    """Lines of an object, or of queue.json, each with its number there."""

    name: str
    lines: Sequence[bytes]
    numbers: Sequence[int]

    @classmethod
    def of(cls, name: str, lines: Sequence[bytes]) -> Self:
        """All lines of an object."""
        return cls(name, lines, range(2, 2 + len(lines)))

    @classmethod
    def of_finished(cls, finished: Iterable[FinishedLine]) -> Self:
        """The lines of jobs in queue.json that are not sealed yet."""
        return cls.of("queue.json, finished", [entry.line for entry in finished])

    def numbered(self) -> Iterator[tuple[int, bytes]]:
        """Each line, after its number."""
        return zip(self.numbers, self.lines, strict=True)

    def backwards(self, size: int) -> Iterator["ArchiveLines"]:
        """The last of them, up to `size`, in reverse order; then those before, and so on."""
        for end in range(len(self.lines), 0, -size):
            some = slice(max(0, end - size), end)
            yield ArchiveLines(self.name, self.lines[some][::-1], self.numbers[some][::-1])

    def where(self, is_wanted: Callable[[bytes], bool]) -> "ArchiveLines":
        """Some of them."""
        chosen = [(number, line) for number, line in self.numbered() if is_wanted(line)]
        return ArchiveLines(self.name, [line for _, line in chosen], [number for number, _ in chosen])


class Damage(NamedTuple):
    """Something in the archive that cannot be read: where, and why."""

    name: str
    # 1 is the line of the opening bracket; None if it is the whole object.
    line: int | None
    reason: str

    def __str__(self) -> str:
        return f"{self.name}{f', line {self.line}' if self.line else ''}: {self.reason}"
