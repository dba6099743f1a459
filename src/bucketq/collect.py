"""Collection: the objects that nothing refers to are removed, in time and never too early.

An object is created before a commit refers to it, so "nothing refers to it" may mean "not
yet". Two things keep such an object safe. It is left alone until it is old; that is a matter
of clocks, and clocks may be wrong. Therefore the collector first commits the version up to
which it will collect. From then on no commit may begin to refer to an object of before
(`QueueState.collect`), so what nothing refers to in that very commit nothing ever will.
"""

from datetime import datetime

from bucketq.errors import ObjectNotFoundError
from bucketq.object_name import PAYLOADS, SEGMENTS, STAGED, version_of
from bucketq.operation import Submit
from bucketq.operation.chores import Collect, References
from bucketq.side_objects import LiveSegments, SideObjects
from bucketq.storage.port import ObjectInfo


async def collect(
    objects: SideObjects,
    submit: Submit,
    *,
    older_than: datetime,
    dry_run: bool,
) -> list[ObjectInfo]:
    """Remove the unreferenced objects that are older than a time; return them.

    A dry run returns what would be removed.
    """
    listed = [info for folder in (SEGMENTS, PAYLOADS, STAGED) for info in await objects.list(folder)]
    if not listed:
        return []
    newest, referred = await _referred(objects, submit, before=0)
    # One from after this version was begun for a queue.json that somebody has since deleted or
    # replaced by an older one. Collecting it would keep new objects out until that version comes.
    loose = [
        (version, info)
        for info in listed
        if info.name not in referred and (version := version_of(info.name)) is not None and version <= newest
    ]
    # What is younger may be about to be referred to, and so may what was begun together with it.
    spared = min((version for version, info in loose if info.modified_at >= older_than), default=None)
    old = [(version, info) for version, info in loose if spared is None or version < spared]
    if not dry_run and old:
        _, referred = await _referred(objects, submit, before=1 + max(version for version, _ in old))
        old = [(version, info) for version, info in old if info.name not in referred]
        await objects.delete(info.name for _, info in old)
    return [info for _, info in old]


async def _referred(objects: SideObjects, submit: Submit, before: int) -> tuple[int, set[str]]:
    segments = LiveSegments(objects.payloads_of)
    while True:
        found: References = await submit(Collect(before))
        names = set(found.names)
        try:
            for segment in found.segments:
                names |= await segments.read(segment)
            return found.version, names
        except ObjectNotFoundError:
            continue
