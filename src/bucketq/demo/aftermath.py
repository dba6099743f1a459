"""The aftermath of the story: the data pipeline over the jobs that were done, and its report."""

import asyncio
from pathlib import Path

from bucketq import BrokerQueue, LocalFileSystemStorage, Settings
from bucketq.archive import Archive
from bucketq.errors import BucketQError, ConfigurationError
from bucketq.spark import local_session

# Whatever is finished goes to the archive at once.
_AT_ONCE = Settings(archive_jobs_max=1, archive_after_s=0.001)


def report(path: Path) -> None:
    """Run the pipeline on the queue, write the report beside it, and say where; or why there is none."""
    try:
        asyncio.run(_archive(path))
        print(f"\nThe data pipeline has made a report of it: {_page(path).as_uri()}", flush=True)
    except BucketQError as error:
        print(f"\nNo report: {error}", flush=True)


async def _archive(path: Path) -> None:
    """Let everything that is finished go to the archive."""
    storage = LocalFileSystemStorage(path)
    async with BrokerQueue(storage, settings=_AT_ONCE) as q:
        while (await Archive(storage).state()).ledger.finished:
            await q.stats()
            await asyncio.sleep(0.1)
    # Closing the queue has finished what it began.
    if (await Archive(storage).state()).ledger.sealed:
        raise ConfigurationError("the archive was not written in time")


def _page(path: Path) -> Path:
    spark = local_session(is_quiet=True)
    # Only here, where Spark is known to be there.
    from bucketq.pipeline.lake import Lake
    from bucketq.pipeline.report.findings import find
    from bucketq.pipeline.report.page import page, write_report
    from bucketq.pipeline.run import run

    lake, html = str(path.parent / "lake"), path.parent / "report.html"
    try:
        run(spark, {"url": path.as_uri()}, lake)
        write_report(html, page(find(Lake(spark, lake), days=1)))
    finally:
        spark.stop()
    return html
