"""A report every night, by cron, and one on demand.

    cd examples
    bucketq work nightly_report:app                  # any number of them: each night's report is made once
    python nightly_report.py 2026-02-28              # one more, now

`testing(app)` in tests/acceptance/test_examples.py lets two nights pass in a moment.
"""

import asyncio
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from bucketq import App, Running, provided

app = App((Path.cwd() / "queue.json").as_uri())


@app.job(cron="0 3 * * *", tz="Europe/Vienna", key="nightly", max_attempts=10)
def report_of_the_day(running: Running = provided()) -> str:
    """Workers that start make sure of the schedule. With the `key`, no two of these run at once."""
    # The tick, not the time at which it happens to run: it may be a retry in the morning.
    tick = running.job.run_at or datetime.now(UTC)
    return write_report((tick - timedelta(days=1)).date())


@app.job
def report_of(day: date) -> str:
    return write_report(day)


def write_report(day: date) -> str:
    """The work; writing the same report twice does no harm."""
    report = Path(f"report-{day}.txt")
    report.write_text(f"On {day} all went well.\n")
    return str(report)


async def main(days: list[str]) -> None:
    async with app:
        for day in days:
            job = await report_of.enqueue(date.fromisoformat(day))
            print("wrote", await report_of.result(job, timeout=60))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
