"""`bucketq diff`: what happened between two states of a queue."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bucketq.cli.lines import complain
from bucketq.cli.opened import opened, queue_url, read_existing
from bucketq.cli.options import AsJson, Url
from bucketq.cli.told import tell_json, tell_table
from bucketq.errors import ConfigurationError

if TYPE_CHECKING:
    from bucketq.state import QueueState


async def diff(
    before: Annotated[
        str, typer.Argument(metavar="BEFORE", help="A queue.json, or the URL of a queue; else --url.")
    ] = "",
    after: Annotated[str, typer.Argument(metavar="AFTER", help="Likewise; else the queue as it is.")] = "",
    since: Annotated[
        str, typer.Option("--from", metavar="VERSION", help="Before: this version of the object.")
    ] = "",
    until: Annotated[
        str, typer.Option("--to", metavar="VERSION", help="After: this version; else as it is now.")
    ] = "",
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """Tell what happened between two states of a queue.

    \b
      cp queue.json before.json; sleep 60; bucketq diff before.json queue.json
      bucketq diff s3://my-bucket/jobs.json --from 3HL4kqtJlcpXrof3vjVBH

    The states are files, queues, or versions of one object, where the bucket keeps them. Their ids are told
    by the cloud's own tool, such as `aws s3api list-object-versions`.
    """
    from bucketq.difference import differences

    if since or until:
        if after:
            raise ConfigurationError("--from and --to are for two versions of one queue, not for two queues")
        place = queue_url(before, url)
        states = await _version(place, since), await _version(place, until)
    else:
        if not before:
            raise ConfigurationError("compare what: name a queue.json, or a version by --from")
        states = await _state(before), await _state(after or queue_url(url=url))
    changes = list(differences(*states))
    versions = [state.version for state in states]
    if versions[0] > versions[1] or states[0].enqueued_total > states[1].enqueued_total:
        complain(
            "the first state is the later one, or that of another queue; what follows makes sense the other"
            " way round, if at all"
        )
    if as_json:
        told = [{name: text for name, text in one._asdict().items() if text} for one in changes]
        tell_json({"before": versions[0], "after": versions[1], "changes": told})
        return 0
    print(f"version {versions[0]} -> {versions[1]}")
    if changes:
        tell_table(("what", "name", "entrypoint", "how"), changes)
    else:
        print("nothing happened")
    return 0


async def _state(place: str) -> "QueueState":
    if "://" in place:
        async with opened(place) as queue:
            return await read_existing(queue)
    return _state_of_file(place)


def _state_of_file(place: str) -> "QueueState":
    from bucketq.codec import decode

    try:
        return decode(Path(place).read_bytes(), place)
    except OSError as error:
        raise ConfigurationError(f"{place} cannot be read: {error.strerror}") from None


async def _version(place: str, version: str) -> "QueueState":
    from bucketq.codec import decode
    from bucketq.storage import open_storage
    from bucketq.storage.cloud import CloudStorage

    if not version:
        return await _state(place)
    if not place.startswith(("s3://", "gs://", "az://")):
        raise ConfigurationError(
            f"{place} keeps no versions; copy queue.json now and then, and compare the copies"
        )
    storage = open_storage(place)
    assert isinstance(storage, CloudStorage)
    return decode(await storage.read_version(version), f"{place}, version {version}")
