"""`bucketq show`: all that is known of one job."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from bucketq.cli.lines import Line, complain, indented, one_line, tell
from bucketq.cli.opened import opened_existing
from bucketq.cli.options import AsJson, Url, argument
from bucketq.cli.told import tell_json
from bucketq.words import printable, spell_moment, spell_time

if TYPE_CHECKING:
    from bucketq.archived_job import ArchivedJob
    from bucketq.job import Attempt, Job


async def show(
    job_id: Annotated[str, argument("ID", "The job.")],
    payload: Annotated[
        bool, typer.Option("--payload", help="Write the payload to standard output, as it is, and no more.")
    ] = False,
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """Show a job: what happened to it, its attempts and errors, its payload.

    Also a finished one, as long as the archive keeps it. Exit code 1: there is no such job.
    """
    from bucketq.job import Job
    from bucketq.live.finding import fetch_payload, find_job
    from bucketq.told import JobTold

    async with opened_existing(url=url) as queue:
        job = await find_job(queue, job_id)
        if job is None:
            complain(
                f"job {job_id} is neither in the queue nor in its archive; `bucketq jobs` and `bucketq"
                " archive` list whole ids"
            )
            return 1
        if payload:
            content = await fetch_payload(queue, job)
            sys.stdout.buffer.write(content)
            sys.stdout.buffer.flush()
            return 0
    if as_json:
        tell_json(JobTold.of(job) if isinstance(job, Job) else JobTold.of_archived(job))
    else:
        for line in _told(job):
            tell(line)
    return 0


def _told(job: "Job | ArchivedJob") -> Iterator[Line]:
    from bucketq.facts import facts
    from bucketq.job import Job
    from bucketq.timeline import timeline

    yield Line(f"{printable(job.id)}  {job.status.value}", "bold")
    for name, value in (("entrypoint", job.entrypoint), *facts(job)):
        yield Line(f"{name:12}  {one_line(value)}")
    yield from _section(
        "Timeline", (Line(f"  {spell_moment(when)}  {one_line(what)}") for when, what in timeline(job))
    )
    attempts = job.history if isinstance(job, Job) else job.attempts
    for attempt in attempts:
        if attempt.error or attempt.trace:
            yield from _section(_attempted(attempt), indented("\n".join(_evidence(attempt))))
    yield from _section("Payload", _payload_lines(job))
    if not isinstance(job, Job) and job.result is not None:
        yield from _section("Result", _json_lines(job.result))


def _section(title: str, lines: Iterable[Line]) -> Iterator[Line]:
    yield Line("")
    yield Line(title, "bold")
    yield from lines


def _attempted(attempt: "Attempt") -> str:
    took = spell_time(attempt.ended_at - attempt.claimed_at)
    return f"{spell_moment(attempt.claimed_at)}  {attempt.outcome.value.replace('_', ' ')} after {took}"


def _evidence(attempt: "Attempt") -> Iterator[str]:
    if attempt.error:
        yield attempt.error
    if attempt.trace:
        yield attempt.trace


def _payload_lines(job: "Job | ArchivedJob") -> Iterator[Line]:
    from bucketq.told import readable

    if job.payload_object is not None and not job.payload:
        yield Line(f"  {job.payload_size} bytes, in an object; --payload writes them")
        return
    if not job.payload:
        yield Line("  none")
        return
    text = readable(job.payload)
    if text is None:
        yield Line(f"  {len(job.payload)} bytes that are no text; --payload writes them")
    else:
        yield from indented(text)


def _json_lines(value: object) -> Iterator[Line]:
    import msgspec

    return indented(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
