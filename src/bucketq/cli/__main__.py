"""bucketq: look after a queue from the command line.

    bucketq verify file:///var/lib/myapp/queue.json     prove that nothing is lost or doubled
    bucketq work myapp.jobs:app                         run the jobs of an app
    bucketq serve s3://my-bucket/jobs.json              run a broker for remote clients
    bucketq token new web --role producer               make a token, for a broker's callers
    bucketq pipeline run --url s3://… --out lake        bring what is finished into a lake, with Spark
    bucketq pipeline report --out lake                  one HTML page about it
    bucketq pipeline accept --out lake                  let known damage fail no later run
    bucketq replay --url … --out lake --where SQL       put finished jobs back into the queue, once

Exit codes: 0, all is well; 1, something is wrong with the queue; 2, it could not be looked at.
"""

import argparse
import asyncio
import sys

import bucketq
from bucketq.cli.pipeline import add_pipeline
from bucketq.cli.progress import shown_progress
from bucketq.cli.serve import add_serve
from bucketq.cli.token import add_token
from bucketq.cli.work import add_work
from bucketq.errors import BucketQError
from bucketq.storage import open_storage
from bucketq.verify import Verdict, verify


def main() -> int:
    """Do what the command line says; return the exit code."""
    about, _, examples = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="bucketq",
        description=about,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"bucketq {bucketq.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser(
        "verify",
        help="walk queue.json, segments, payloads and archive: nothing lost, doubled, missing or unreadable",
    )
    command.add_argument("url", help="the queue, such as s3://my-bucket/jobs.json")
    command.set_defaults(run=lambda given: asyncio.run(_verify(given.url)))
    add_work(commands)
    add_serve(commands)
    add_token(commands)
    add_pipeline(commands)
    options = parser.parse_args()
    try:
        code: int = options.run(options)
        return code
    except BucketQError as error:
        print(f"bucketq: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        # As a shell tells of a program that was ended by Ctrl-C.
        return 130


async def _verify(url: str) -> int:
    storage = open_storage(url)
    with shown_progress() as on_progress:
        verdict = await verify(storage, on_progress)
    print(_told(verdict))
    return 0 if verdict.is_sound else 1


def _told(verdict: Verdict) -> str:
    lines = [
        f"version {verdict.version}: {verdict.live} live jobs, {verdict.segments} segments,"
        f" {verdict.payloads} large payloads, {verdict.archived} archived jobs"
    ]
    lines += [f"note: {note}" for note in verdict.notes]
    lines += [f"problem: {problem}" for problem in verdict.problems]
    count = len(verdict.problems)
    lines.append("sound" if not count else f"{count} problem{'s' if count > 1 else ''}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
