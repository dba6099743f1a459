"""`bucketq verify`: prove that nothing is lost or doubled."""

from bucketq.cli.opened import opened
from bucketq.cli.options import AsJson, At, Url
from bucketq.cli.progress import shown_progress
from bucketq.cli.told import tell_json
from bucketq.errors import ConfigurationError
from bucketq.words import printable


async def verify(at: At = "", url: Url = "", as_json: AsJson = False) -> int:
    """Prove that nothing is lost or doubled.

    Walks queue.json, segments, payloads and archive. Exit code 1: something is lost, doubled, missing or
    unreadable; each problem is named.
    """
    from bucketq.storage.port import Bucket
    from bucketq.verify import verify as walk

    async with opened(at, url) as queue:
        if not isinstance(queue.storage, Bucket):
            raise ConfigurationError("there is nothing beside this queue to walk")
        with shown_progress() as on_progress:
            verdict = await walk(queue.storage, on_progress)
    if as_json:
        tell_json({"isSound": verdict.is_sound, **vars(verdict)})
        return 0 if verdict.is_sound else 1
    print(
        f"version {verdict.version}: {verdict.live} live jobs, {verdict.segments} segments,"
        f" {verdict.payloads} large payloads, {verdict.archived} archived jobs"
    )
    for note in verdict.notes:
        print(f"note: {printable(note)}")
    for problem in verdict.problems:
        print(f"problem: {printable(problem)}")
    count = len(verdict.problems)
    print("sound" if not count else f"{count} problem{'s' if count > 1 else ''}")
    return 0 if verdict.is_sound else 1
