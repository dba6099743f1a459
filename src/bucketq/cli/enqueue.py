"""`bucketq enqueue`: add a job, or one for each line."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, cast

import typer

from bucketq.cli.durations import duration_of
from bucketq.cli.lines import complain
from bucketq.cli.opened import opened
from bucketq.cli.options import AsJson, Url, argument, text_option
from bucketq.cli.progress import shown_progress
from bucketq.cli.standard_input import standard_input
from bucketq.cli.told import tell_json
from bucketq.errors import ConfigurationError, JobFailedError, PayloadError
from bucketq.words import spell_jobs

if TYPE_CHECKING:
    from bucketq.new_job import JobOptions

_STDIN = "-"
_TOLD_EVERY = 1000


async def enqueue(
    entrypoint: Annotated[str, argument("ENTRYPOINT", "Which handler is to do it.")],
    payload: Annotated[
        str, typer.Argument(metavar="PAYLOAD", help="What it is given, as JSON; - is standard input.")
    ] = "",
    file: Annotated[
        str,
        text_option("FILE", "The payload is in this file; - is standard input."),
    ] = "",
    lines: Annotated[bool, typer.Option("--lines", help="A job for each line of it, in one commit.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="The payload is no JSON: take the bytes as is.")] = False,
    priority: Annotated[int, typer.Option(metavar="N", help="Lower ones are served first.")] = 0,
    delay: Annotated[str, text_option("TIME", "Not before so long: 90s, 30m, 12h, 7d.")] = "",
    key: Annotated[
        str,
        text_option("TEXT", "No other job with this key waits or runs."),
    ] = "",
    max_attempts: Annotated[
        int, typer.Option(metavar="N", help="So often it may fail; handlers have no say.")
    ] = 3,
    timeout: Annotated[str, text_option("TIME", "So long an attempt may take.")] = "",
    expires_in: Annotated[str, text_option("TIME", "Drop it if it has not begun then.")] = "",
    tenant: Annotated[str, text_option("TEXT", "Tenants take turns.")] = "",
    limit_key: Annotated[str, text_option("TEXT", "What limits apply to.")] = "",
    after: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Finish this job first; may be repeated.")
    ] = None,
    wait: Annotated[str, text_option("TIME", "Wait so long for the result; print it.")] = "",
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """Add a job; with --lines one for each line.

    \b
      bucketq enqueue send_email '{"to": "alice@example.com"}' --delay 5m
      generate-orders | bucketq enqueue invoice --lines -

    With --wait the exit code is 1 if the job has failed, or is not finished in time.
    """
    given: dict[str, Any] = {"key": key, "tenant": tenant, "limit_key": limit_key, "after": after}
    chosen = {name: value for name, value in given.items() if value}
    for name, text in (("delay", delay), ("timeout", timeout), ("expires_in", expires_in)):
        if text:
            chosen[name] = duration_of(text, f"--{name.replace('_', '-')}")
    options = cast("JobOptions", {"max_attempts": max_attempts, **chosen})
    wait_s = duration_of(wait, "--wait").total_seconds() if wait else 0.0
    if payload and file and payload != _STDIN:
        raise ConfigurationError("the payload is an argument or in --file, not both")
    source = file or (_STDIN if payload == _STDIN else "")
    if lines:
        if wait_s:
            raise ConfigurationError("--wait is for one job, not for --lines")
        return await _enqueue_lines(entrypoint, source, raw, priority, options, url, as_json)
    content = _read(source) if source else payload.encode()
    async with opened(url=url) as queue:
        job = await queue.enqueue(entrypoint, payload_of(content, raw), priority, **options)
        if not wait_s:
            tell_json({"enqueued": 1, "id": job.id}) if as_json else print(job.id)
            return 0
        try:
            result = await queue.result(job, timeout=wait_s)
        except (TimeoutError, JobFailedError) as error:
            if as_json:
                tell_json({"enqueued": 1, "id": job.id})
            is_late = isinstance(error, TimeoutError)
            complain(f"{error}; `bucketq show {job.id}` tells how it stands" if is_late else str(error))
            return 1
    tell_json({"enqueued": 1, "id": job.id, "result": result} if as_json else result)
    return 0


async def _enqueue_lines(
    entrypoint: str, source: str, raw: bool, priority: int, options: "JobOptions", url: str, as_json: bool
) -> int:
    if not source:
        raise ConfigurationError("--lines reads a file or standard input: add --file FILE, or -")
    with ExitStack() as stack:
        stream = stack.enter_context(_opened(source))
        on_progress = stack.enter_context(shown_progress())
        async with opened(url=url) as queue:
            payloads = _payloads(stream, raw, on_progress)
            ids = await queue.enqueue_many(entrypoint, payloads, priority, **options)
    tell_json({"enqueued": len(ids)}) if as_json else print(f"{spell_jobs(len(ids))} enqueued")
    return 0


def _payloads(stream: BinaryIO, raw: bool, on_progress: Any) -> Iterator[bytes]:
    size = os.fstat(stream.fileno()).st_size
    done = 0
    for number, line in enumerate(stream, 1):
        done += len(line)
        if number % _TOLD_EVERY == 0:
            on_progress("enqueue", done, max(size, done))
        # Blanks are no part of JSON, but of what is taken as it is.
        if line := line.rstrip(b"\r\n") if raw else line.strip():
            try:
                yield payload_of(line, raw)
            except PayloadError as error:
                raise PayloadError(f"line {number}: {error} Nothing was enqueued.") from None
    on_progress("enqueue", done, done)


def payload_of(content: bytes, raw: bool = False) -> bytes:
    """A payload as it was typed. Raises PayloadError if it is no JSON, and should be."""
    if raw:
        return content
    if not content.strip():
        return b""
    import msgspec

    from bucketq.jobline import UNREADABLE

    try:
        # As short as can be: it travels with every commit.
        return msgspec.json.format(content, indent=-1)
    except UNREADABLE as error:
        raise PayloadError(f"the payload is no JSON ({error}). Quote it, or say --raw.") from None


def _read(source: str) -> bytes:
    with _opened(source) as stream:
        return stream.read()


def _opened(source: str) -> AbstractContextManager[BinaryIO]:
    if source == _STDIN:
        return standard_input()
    try:
        return Path(source).open("rb")
    except OSError as error:
        raise ConfigurationError(f"{source} cannot be read: {error.strerror}") from None
