"""Runs the demo: chooses the file and the display, and checks at the end that no job was lost."""

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path

from bucketq.demo.aftermath import report
from bucketq.demo.display import print_summary, watch
from bucketq.demo.story import Story
from bucketq.errors import BucketQError


def main() -> int:
    """Tell the story once; 0 if every job is accounted for."""
    parser = argparse.ArgumentParser(
        prog="python -m bucketq.demo",
        description="A producer and three workers share one queue file, for about ten seconds.",
    )
    parser.add_argument(
        "--file", type=Path, metavar="PATH", help="where to put the queue (default: a new temporary folder)"
    )
    parser.add_argument("--no-report", action="store_true", help="end without the data pipeline")
    options = parser.parse_args()
    path = options.file or Path(tempfile.mkdtemp(prefix="bucketq-demo-")) / "queue.json"
    try:
        code = asyncio.run(_tell(Story(path)))
        if not options.no_report:
            report(path.absolute())
        return code
    except BucketQError as error:
        print(f"demo: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"\ndemo: stopped. What was not finished is still in {path}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away, as `head` does; keep Python from complaining once more on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


async def _tell(story: Story) -> int:
    await story.open()
    await asyncio.gather(story.run(), watch(story))
    print_summary(story)
    return 0 if story.is_conserved() else 1


if __name__ == "__main__":
    sys.exit(main())
