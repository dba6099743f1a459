"""`bucketq retry`, `redrive` and `discard`: what becomes of dead jobs."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bucketq.cli.opened import opened_existing
from bucketq.cli.options import AsJson, Entrypoint, Limit, Url, argument, not_empty
from bucketq.cli.standing import standing, tell_refused
from bucketq.cli.told import tell_json
from bucketq.errors import ConfigurationError, JobNotFoundError, KeyTakenError
from bucketq.words import spell_jobs

if TYPE_CHECKING:
    from bucketq.queue import Queue

_Ids = Annotated[list[str], argument("ID", "The jobs.")]
_Error = Annotated[
    str,
    typer.Option(metavar="TEXT", help="Only those whose last error has this in it.", callback=not_empty),
]
_All = Annotated[bool, typer.Option("--all", help="All dead jobs.")]
_DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, and say how many.")]


async def retry(job_ids: _Ids, url: Url = "", as_json: AsJson = False) -> int:
    """Do dead jobs again, by their ids.

    Each becomes a new job, whose id is printed; it names the old one. Exit code 1: one of them is not
    dead, and it is said what it is. For many there is `bucketq redrive`.
    """
    done: dict[str, str] = {}
    async with opened_existing(url=url) as queue:

        async def redrive(job_id: str) -> None:
            done[job_id] = (await queue.redrive(job_id)).id

        refused = await _each(queue, job_ids, redrive)
    if as_json:
        jobs = [{"id": job_id, "newId": new_id} for job_id, new_id in done.items()]
        tell_json({"retried": jobs, "refused": refused})
    else:
        for new_id in done.values():
            print(new_id)
    tell_refused(refused)
    return 1 if refused else 0


async def redrive(
    entrypoint: Entrypoint = "",
    error: _Error = "",
    everything: _All = False,
    limit: Limit = 0,
    dry_run: _DryRun = False,
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """Do dead jobs again: those that fit, or all.

    \b
      bucketq redrive --entrypoint send_email --error refused --dry-run

    A job whose unique key another one has now stays dead.
    """
    if not (entrypoint or error or everything):
        raise ConfigurationError("which dead jobs: pass --entrypoint, --error, or --all")
    async with opened_existing(url=url) as queue:
        if dry_run:
            count = await _count(queue, entrypoint, error, limit)
        else:
            count = await queue.redrive_many(entrypoint or None, error=error or None, limit=limit or None)
    return _tell_count("redriven", count, dry_run, as_json)


async def discard(
    job_ids: Annotated[list[str] | None, argument("ID", "The jobs.")] = None,
    entrypoint: Entrypoint = "",
    error: _Error = "",
    everything: _All = False,
    limit: Limit = 0,
    dry_run: _DryRun = False,
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """Forget dead jobs: by their ids, those that fit, or all.

    \b
      bucketq discard --entrypoint send_email --error "No such mailbox"

    The archive keeps what they were. Exit code 1: one of the ids is not that of a dead job.
    """
    chosen = bool(entrypoint or error or everything)
    if bool(job_ids) == chosen:
        raise ConfigurationError("which dead jobs: name their ids, or --entrypoint, --error, or --all")
    if job_ids and (dry_run or limit):
        raise ConfigurationError("--dry-run and --limit are for jobs that are not named by their ids")
    async with opened_existing(url=url) as queue:
        if job_ids:
            refused = await _each(queue, job_ids, queue.discard)
            count = len(set(job_ids)) - len(refused)
            if as_json:
                tell_json({"discarded": count, "refused": refused})
            else:
                print(f"{spell_jobs(count, 'dead')} discarded")
            tell_refused(refused)
            return 1 if refused else 0
        if dry_run:
            count = await _count(queue, entrypoint, error, limit)
        else:
            count = await queue.discard_many(entrypoint or None, error=error or None, limit=limit or None)
    return _tell_count("discarded", count, dry_run, as_json)


async def _each(queue: "Queue", job_ids: list[str], act: Callable[[str], Awaitable[Any]]) -> dict[str, str]:
    """Act on each job; return why not, for those that refuse."""
    refused = {}
    for job_id in dict.fromkeys(job_ids):
        try:
            await act(job_id)
        except KeyTakenError as error:
            refused[job_id] = f"{error}; job {job_id} stays dead"
        except JobNotFoundError:
            refused[job_id] = await standing(queue, job_id)
    return refused


async def _count(queue: "Queue", entrypoint: str, error: str, limit: int) -> int:
    count = 0
    async for job in queue.dead(entrypoint or None):
        if limit and count == limit:
            break
        count += error in (job.error or "")
    return count


def _tell_count(what: str, count: int, dry_run: bool, as_json: bool) -> int:
    if as_json:
        tell_json({what: count, "isDryRun": dry_run})
    else:
        print(f"{spell_jobs(count, 'dead')}{' would be' if dry_run else ''} {what}")
    return 0
