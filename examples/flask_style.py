"""A web application without async, as with Flask or Django: `enqueue_sync` from any number of threads.

    cd examples
    python flask_style.py                            # serves at http://localhost:8000
    bucketq work flask_style:jobs
    curl -d 'report.pdf' localhost:8000

It is plain WSGI, so that it needs no framework; in Flask, `convert` below is the body of a view.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from wsgiref.simple_server import make_server

from bucketq import App, PayloadError

jobs = App((Path.cwd() / "queue.json").as_uri())


@jobs.job(timeout=60)
def convert_document(name: str) -> None:
    """A plain function; the worker runs it in a thread."""
    Path(name).with_suffix(".txt").write_text(f"the text of {name}\n")


def convert(name: str) -> tuple[str, str]:
    """A view. The queue was opened by the first call, and stays open in a thread of its own."""
    try:
        job = convert_document.enqueue_sync(name)
    except PayloadError as error:
        return "400 Bad Request", f"{error}\n"
    return "202 Accepted", f"{job.id}\n"


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """What a WSGI server calls, in whatever thread."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    status, body = convert(environ["wsgi.input"].read(length).decode())
    start_response(status, [("Content-Type", "text/plain")])
    return [body.encode()]


if __name__ == "__main__":
    with make_server("localhost", 8000, application) as server:
        server.serve_forever()
