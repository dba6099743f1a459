"""`bucketq init`: from nothing to a first job."""

from pathlib import Path

from bucketq.cli.configuration import CURRENT, FILE, Configuration
from bucketq.cli.opened import queue_url
from bucketq.cli.options import AsJson, At, Url
from bucketq.cli.told import tell_json
from bucketq.errors import ConfigurationError

_SETTINGS = """\
# The settings of bucketq in this folder; `bucketq config` shows all of them, and where each comes from.
url = "{url}"

[work]
concurrency = 20
"""
_JOBS = '''\
"""The jobs of this app. Run them with: bucketq work jobs:app"""

import bucketq

app = bucketq.App("{url}")


@app.job
def hello(name: str) -> str:
    return f"Hello, {{name}}!"
'''
_NEXT = """\
Next:
  bucketq enqueue hello '{"name": "Ada"}'    add a job
  bucketq work jobs:app                      run what waits; Ctrl-C ends it
  bucketq stats                              see how the queue stands
  bucketq archive                            see what is finished\
"""


async def init(at: At = "", url: Url = "", as_json: AsJson = False) -> int:
    """Make a queue here: bucketq.toml, and jobs.py with a first job.

    Without a URL, here or in BUCKETQ_URL, the queue is the file queue.json of this folder. Nothing that is
    there is changed. Exit code 2: bucketq.toml is there and names another queue, or none.
    """
    from bucketq.url import connect

    is_said = at or url or CURRENT.get().url()
    named = queue_url(at, url) if is_said else (Path.cwd() / "queue.json").as_uri()
    opening = connect(named)
    _check_same_queue(named, is_configured=bool(is_said and not (at or url)))
    async with opening as queue:
        # A bucket that is not there, or not ours, is told now rather than by the first job.
        await queue.stats()
    files = {FILE: _SETTINGS.format(url=named), "jobs.py": _JOBS.format(url=named)}
    written = {name: _write(Path(name), content) for name, content in files.items()}
    if as_json:
        tell_json({"url": named, "written": [name for name, is_new in written.items() if is_new]})
        return 0
    for name, is_new in written.items():
        print(f"{name} is written" if is_new else f"{name} is there already, and stays as it is")
    print(_NEXT)
    return 0


def _check_same_queue(url: str, is_configured: bool) -> None:
    """Raise ConfigurationError if bucketq.toml of this folder exists and would not lead to this queue."""
    if not Path(FILE).exists():
        return
    there = Configuration.read(FILE, {}).url()
    # BUCKETQ_URL next to a file without a URL leads every command to that queue.
    if there.value == url if there else is_configured:
        return
    names = f"names the queue {there.value}" if there else "names no queue"
    raise ConfigurationError(
        f"cannot make a queue at {url}: {FILE} of this folder {names}, and init does not change it. Set"
        f' url = "{url}" in {FILE}, or run init in another folder'
    )


def _write(path: Path, content: str) -> bool:
    """Write a file, unless there is one; tell whether it was written."""
    try:
        with path.open("x") as file:
            file.write(content)
    except FileExistsError:
        return False
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
    return True
