"""`bucketq gc`: remove what nothing refers to."""

from typing import Annotated

import typer

from bucketq.cli.opened import opened_existing
from bucketq.cli.options import AsJson, At, Url
from bucketq.cli.told import tell_json, tell_table
from bucketq.words import spell_moment


async def gc(
    at: At = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Remove nothing, and say what would be.")
    ] = False,
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """Remove objects that nothing refers to; tidy up the archive.

    Crashes leave such objects beside the queue. They go when they are old enough (collect_after_s). A
    broker does this by itself, once an hour.
    """
    from bucketq.told import ObjectTold

    async with opened_existing(at, url) as queue:
        removed = await queue.collect_garbage(dry_run=dry_run)
    size = sum(info.size_bytes for info in removed)
    if as_json:
        told = [ObjectTold(**info._asdict()) for info in removed]
        tell_json({"isDryRun": dry_run, "removed": told, "sizeBytes": size})
        return 0
    if removed:
        rows = [(info.name, info.size_bytes, spell_moment(info.modified_at)) for info in removed]
        tell_table(("object", "bytes", "from"), rows)
    objects = "1 object" if len(removed) == 1 else f"{len(removed)} objects"
    print(f"{objects}, {size} bytes, {'would be removed' if dry_run else 'removed'}")
    return 0
