"""`bucketq pause`, `resume` and `limit`: what may begin, and how much of it."""

from typing import TYPE_CHECKING, Annotated

import typer

from bucketq.cli.opened import opened, opened_existing
from bucketq.cli.options import AsJson, Url, entrypoint_argument
from bucketq.cli.told import tell_json, tell_table
from bucketq.errors import ConfigurationError
from bucketq.words import printable

if TYPE_CHECKING:
    from bucketq.limits import Limits

_Entrypoint = Annotated[str, entrypoint_argument("Only this one; else the whole queue.")]


async def pause(entrypoint: _Entrypoint = "", url: Url = "", as_json: AsJson = False) -> int:
    """Let no more jobs begin, of an entrypoint or at all.

    Those that run go on, and jobs are still enqueued. It stays so until `bucketq resume`.
    """
    async with opened_existing(url=url) as queue:
        await queue.pause(entrypoint or None)
        limits = await queue.limits()
    if as_json:
        tell_json(_told(limits))
    else:
        print(f"paused: {entrypoint or 'the whole queue'}")
    return 0


async def resume(entrypoint: _Entrypoint = "", url: Url = "", as_json: AsJson = False) -> int:
    """End the pause of an entrypoint, or that of the whole queue."""
    async with opened_existing(url=url) as queue:
        before = await queue.limits()
        await queue.resume(entrypoint or None)
        limits = await queue.limits()
    if as_json:
        tell_json(_told(limits))
        return 0
    was_paused = entrypoint in before.paused if entrypoint else before.is_paused
    print(f"{'resumed' if was_paused else 'was not paused'}: {entrypoint or 'the whole queue'}")
    if limits.is_paused:
        print("but the whole queue is paused; `bucketq resume` ends that")
    elif limits.paused and not (entrypoint and was_paused):
        print(printable(f"still paused: {', '.join(limits.paused)}"))
    return 0


async def limit(
    entrypoint: Annotated[str, entrypoint_argument("Whose jobs.")] = "",
    limit_key: Annotated[
        str, typer.Option(metavar="TEXT", help="Or those with this limit key; user-* is each that begins so.")
    ] = "",
    max_running: Annotated[
        int | None, typer.Option(metavar="N", help="So many run at the same time.")
    ] = None,
    rate: Annotated[float | None, typer.Option(metavar="N", help="So many begin a second.")] = None,
    burst: Annotated[int | None, typer.Option(metavar="N", help="So many of them at once.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Let there be no limit any more.")] = False,
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """Limit jobs; or show what is limited, and what is paused.

    \b
      bucketq limit resize --max-running 4
      bucketq limit --limit-key 'customer-*' --rate 10 --burst 20
      bucketq limit resize --remove
      bucketq limit
    """
    has_numbers = not (max_running is rate is burst is None)
    names = bool(entrypoint or limit_key)
    if (has_numbers or remove) and not names:
        raise ConfigurationError("whose limit: name an entrypoint, or --limit-key")
    if names and has_numbers == remove:
        raise ConfigurationError("which limit: --max-running, --rate (and --burst), or --remove")
    # A limit can be set before the first job; then it makes the queue.
    async with opened(url=url) if has_numbers else opened_existing(url=url) as queue:
        if names:
            await queue.limit(
                entrypoint or None,
                limit_key=limit_key or None,
                max_running=max_running,
                rate=rate,
                burst=burst,
            )
        limits = await queue.limits()
    if as_json:
        tell_json(_told(limits))
    else:
        _tell(limits)
    return 0


def _told(limits: "Limits") -> object:
    from bucketq.told import LimitsTold

    return LimitsTold.of(limits)


def _tell(limits: "Limits") -> None:
    from bucketq.live.words import spell_limit

    rows: list[tuple[object, ...]] = [("the whole queue", "paused")] if limits.is_paused else []
    rows += [(name, "paused") for name in limits.paused]
    for kind, limited in (("", limits.entrypoints), ("limit key ", limits.limit_keys)):
        for name, one in limited.items():
            rows.append((kind + name, spell_limit(one)))
    if rows:
        tell_table(("what", "limit"), rows)
    else:
        print("nothing is limited or paused")
