"""Keeping the archive tidy: small objects of past hours become one, old days are removed.

Compaction only writes and, an hour later, deletes. A reader needs no other word about it than
the names: a compacted object stands for every batch of its hour between two versions. That is
true because all of them are in the archive by then: no batch as old is still sealed. Which line
is of which batch is noted in the lines, for readers that have read, or want, only some of them.
"""

from collections.abc import Iterable
from datetime import date, datetime, timedelta

from bucketq.archive_name import ARCHIVE, ArchiveName, arrived, day_of, hour_ended, needed
from bucketq.archived_job import batch_of, with_batch
from bucketq.ledger import batch_content, batch_lines
from bucketq.operation import Submit
from bucketq.operation.chores import Expire, ForgetExpired, LedgerView, ReadLedger
from bucketq.settings import Settings
from bucketq.side_objects import SideObjects
from bucketq.storage.port import ObjectInfo

# Late jobs, from workers whose clocks are behind, come within this time after their hour.
_LATE = timedelta(minutes=10)
# A reader that has listed an object still finds it for so long.
_GRACE = timedelta(hours=1)
# Smaller objects are compacted, up to a size. Not settings: two processes that drew the lines
# differently would make objects that overlap.
_SMALL_BYTES = 64 * 1024
_COMPACT_BYTES = 8 * 1024 * 1024
# Jobs that finish later than that on an earlier day stay in small objects.
_DAYS_LOOKED_AT = 2


async def tidy(objects: SideObjects, submit: Submit, settings: Settings, now: datetime) -> None:
    """Compact past hours and remove old days."""
    if settings.archive:
        await compact(objects, submit, now)
        await expire(objects, submit, settings, now)


async def compact(objects: SideObjects, submit: Submit, now: datetime) -> None:
    """Make one object of the small ones of each past hour, and remove those that were made one before."""
    ledger: LedgerView = await submit(ReadLedger())
    until = arrived(ledger.sealed, ledger.version)
    for day in _past(ledger.days, now)[-_DAYS_LOOKED_AT:]:
        hours: dict[str, dict[ArchiveName, ObjectInfo]] = {}
        for info in await objects.list(f"{ARCHIVE}{day}"):
            name = ArchiveName.parse(info.name)
            if name is not None and name.last <= until:
                hours.setdefault(name.hour, {})[name] = info
        for hour, found in hours.items():
            if hour_ended(hour) + _LATE < now:
                await _remove_covered(objects, found, now)
                for run in _runs(found):
                    await _compact(objects, run)


async def expire(objects: SideObjects, submit: Submit, settings: Settings, now: datetime) -> None:
    """Remove the days that are older than the archive is kept."""
    ledger: LedgerView = await submit(ReadLedger())
    days = _past(ledger.days, now)
    if settings.archive_keep_days and days:
        # A clock that is ahead must not empty the archive: its newest day counts as well, and,
        # since the same clock may have named that, when it was written by the storage's clock.
        newest = await objects.list(f"{ARCHIVE}{days[-1]}")
        written_at = max((info.modified_at for info in newest), default=now)
        today = min(min(now, written_at).strftime("%Y-%m-%d"), days[-1])
        oldest = date.fromisoformat(today) - timedelta(days=settings.archive_keep_days)
        old = tuple(day for day in days if day < oldest.isoformat())
        if old:
            await submit(Expire(old))
            ledger = await submit(ReadLedger())
        await _remove_strays(objects, ledger, oldest.isoformat())
    for day in ledger.expired:
        await objects.delete([info.name for info in await objects.list(f"{ARCHIVE}{day}")])
    if ledger.expired:
        await submit(ForgetExpired(ledger.expired))


async def _remove_strays(objects: SideObjects, ledger: LedgerView, oldest: str) -> None:
    # Somebody who was compacting a day, or late with a batch, may write it after it was removed.
    kept = {*ledger.days, *map(day_of, ledger.sealed)}
    names = [info.name for info in await objects.list(ARCHIVE)]
    await objects.delete([name for name in names if day_of(name) < oldest and day_of(name) not in kept])


def _past(days: Iterable[str], now: datetime) -> list[str]:
    # Days that have not come yet are those of clocks that are ahead.
    return [day for day in days if day <= now.date().isoformat()]


async def _remove_covered(objects: SideObjects, found: dict[ArchiveName, ObjectInfo], now: datetime) -> None:
    compacted = [name for name, info in found.items() if info.modified_at + _GRACE < now]
    covered = [name for name in found if any(other != name and other.covers(name) for other in compacted)]
    await objects.delete([str(name) for name in covered])


def _runs(found: dict[ArchiveName, ObjectInfo]) -> list[list[ArchiveName]]:
    """Small objects that follow each other, as many as fit into one."""
    runs: list[list[ArchiveName]] = [[]]
    size = 0
    for name in needed(found):
        length = found[name].size_bytes
        is_small = length < _SMALL_BYTES
        if not is_small or size + length > _COMPACT_BYTES:
            runs.append([])
            size = 0
        if is_small:
            runs[-1].append(name)
            size += length
    return [run for run in runs if len(run) > 1]


async def _compact(objects: SideObjects, run: list[ArchiveName]) -> None:
    sound: list[tuple[ArchiveName, list[bytes]]] = []
    for name in run:
        lines = batch_lines(await objects.read(str(name)))
        if lines is not None:
            sound.append((name, lines))
        else:
            # A damaged object is left as it is, for somebody to look at.
            await _join(objects, sound)
            sound = []
    await _join(objects, sound)


async def _join(objects: SideObjects, parts: list[tuple[ArchiveName, list[bytes]]]) -> None:
    if len(parts) > 1:
        first, last = parts[0][0], parts[-1][0]
        whole = batch_content(_stamped(name, line) for name, lines in parts for line in lines)
        await objects.create(str(ArchiveName(first.hour, first.first, last.last)), whole)


def _stamped(name: ArchiveName, line: bytes) -> bytes:
    return line if batch_of(line) is not None else with_batch(line, name.last)
