"""The `bucketq` command: what goes wrong is told in one sentence, and by the exit code."""

import os
import sys
import traceback
from collections.abc import Sequence

import typer

from bucketq.cli.lines import complain
from bucketq.closed_pipe import PIPE_CLOSED, leave_closed_pipe


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit code.

    0, all is well; 1, something is wrong with the queue, or a job is not there; 2, it could not be done.
    """
    _open_what_is_closed()
    arguments = [*(sys.argv[1:] if arguments is None else arguments)]
    if is_debugged := "--debug" in arguments[: _end_of_options(arguments)]:
        # Wherever it stands: most people add it to the end of what has failed.
        arguments.remove("--debug")
    from bucketq.cli.app import app
    from bucketq.errors import BucketQError

    try:
        code: int | None = typer.main.get_command(app).main(
            args=arguments or ["--help"], prog_name="bucketq", standalone_mode=False
        )
        sys.stdout.flush()
        return code or 0
    except typer.TyperException as error:
        return _told(error, _usage(error), is_debugged)
    except BucketQError as error:
        return _told(error, f"{error}", is_debugged)
    except BrokenPipeError:
        return leave_closed_pipe()
    except SystemExit as error:
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        # Typer has seen it first, and said 1; but nothing is wrong with the queue.
        return PIPE_CLOSED
    except OSError as error:
        # Such as a folder in which nobody may write.
        return _told(error, f"{error}", is_debugged)
    except (KeyboardInterrupt, typer.Abort):
        # As a shell tells of a program that was ended by Ctrl-C.
        return 130


def _open_what_is_closed() -> None:
    """Whoever started this may have closed standard output, and nobody reads: then it goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _usage(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "bucketq"
    # Typer has pydantic look at values, which says who it is.
    message = error.format_message().replace("Value error, ", "").rstrip(".")
    return f"{message}{'' if message.endswith('?') else '.'} See `{path} --help`."


def _end_of_options(arguments: Sequence[str]) -> int:
    return arguments.index("--") if "--" in arguments else len(arguments)


def _told(error: Exception, sentence: str, is_debugged: bool) -> int:
    if is_debugged:
        traceback.print_exception(error)
    complain(sentence)
    return 2


if __name__ == "__main__":
    sys.exit(main())
