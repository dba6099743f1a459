"""`bucketq export` and `import`: a whole queue as a file that people can read, and back."""

import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from bucketq.cli.opened import opened, opened_existing
from bucketq.cli.options import AsJson, Url, argument
from bucketq.cli.progress import shown_progress
from bucketq.cli.standard_input import standard_input
from bucketq.cli.told import tell_json
from bucketq.errors import ConfigurationError
from bucketq.words import spell_jobs

_STDIO = "-"


async def export(
    file: Annotated[str, argument("FILE", "Where to; - is standard output.")] = _STDIO,
    archive: Annotated[bool, typer.Option("--archive", help="Add the finished jobs, to be read.")] = False,
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """Write the whole queue to a file that people can read.

    It holds JSON lines: jobs with their payloads, batches, schedules and limits.

    \b
      bucketq export backup.jsonl
      bucketq export | grep '"entrypoint":"mail"' | wc -l

    A job that runs is written as one that waits; one that runs and was cancelled is left out. The queue may
    be at work meanwhile: a job that was there all the time is in the file, one that came or went may be.
    """
    from bucketq.transfer import export as lines_of
    from bucketq.transfer.line import End, decode_line

    with shown_progress() as on_progress:
        async with opened_existing(url=url) as queue:
            lines = lines_of(queue, finished=archive, now=datetime.now(UTC), on_progress=on_progress)
            last = await _write(file, lines)
    end = decode_line(last, file)
    assert isinstance(end, End), "an export ends with its end"
    if file == _STDIO:
        return 0
    if as_json:
        tell_json({"file": file, "jobs": end.jobs, "finished": end.finished})
    else:
        print(f"{spell_jobs(end.jobs)}{f' and {end.finished} finished ones' if archive else ''} in {file}")
    return 0


async def import_file(
    file: Annotated[str, argument("FILE", "What to read; - is standard input.")],
    url: Url = "",
    as_json: AsJson = False,
) -> int:
    """Read an export into the queue; or any queue.json.

    \b
      bucketq import backup.jsonl --url s3://my-bucket/jobs.json

    The queue.json may be of bucketq, jqueue or osqueue. Jobs keep their ids and their history. The same file
    adds nothing twice, also if its jobs are finished by then: if it was interrupted, run it again. A job that
    is in the queue or its archive already, by its id, stays as it is, whatever file it came from. Several
    imports may run at the same time. A file that is damaged or cut short changes nothing. Finished jobs of
    an export are not taken in.
    """
    from bucketq.transfer import take_in

    with _at_hand(file) as path, shown_progress() as on_progress:
        async with opened(url=url) as queue:
            intake = await take_in(queue, path, on_progress=on_progress)
    if as_json:
        tell_json(intake._asdict())
        return 0
    print(f"{spell_jobs(intake.added)} imported")
    for count, why in (
        (intake.before, "were imported before from this file"),
        (intake.present, "are in the queue or its archive already"),
        (intake.refused, "are left out: another job has their unique key"),
        (intake.finished, "are finished, and left out"),
    ):
        if count:
            print(f"{count} {why}")
    return 0


async def _write(file: str, lines: AsyncIterator[bytes]) -> bytes:
    """Write all lines; return the last one."""
    last = b""
    with _opened_for_writing(file) as stream:
        async for last in lines:
            stream.write(last)
        stream.flush()
    return last


@contextmanager
def _opened_for_writing(file: str) -> Iterator[BinaryIO]:
    import secrets

    if file == _STDIO:
        yield sys.stdout.buffer
        return
    # A file that is there is replaced by the whole of it, or not at all; but never a pipe, or /dev/null.
    path = Path(file)
    is_file = path.is_file() or not path.exists()
    if is_file:
        path = path.resolve()
    # By a name of its own: another export to the same file may be under way.
    beside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part") if is_file else path
    try:
        with beside.open("xb" if is_file else "wb") as stream:
            if is_file and path.exists():
                shutil.copymode(path, beside)
            yield stream
        if is_file:
            beside.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from None
    finally:
        if is_file:
            beside.unlink(missing_ok=True)


@contextmanager
def _at_hand(file: str) -> Iterator[Path]:
    """A file that can be read twice."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(file)
        try:
            if file == _STDIO:
                path = Path(folder) / "stdin"
                with standard_input() as piped, path.open("wb") as copy:
                    shutil.copyfileobj(piped, copy)
            with path.open("rb"):
                pass
        except OSError as error:
            raise ConfigurationError(f"{file} cannot be read: {error.strerror}") from None
        yield path
