"""The command line as it is typed, in this process; and queues for it to be typed at."""

import json
from contextlib import contextmanager
from typing import NamedTuple

from bucketq.cli.__main__ import main
from tests.acceptance.hosted import hosted
from tests.acceptance.served import url_of


class Told(NamedTuple):
    """The exit code, and what was said where."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def typed(capsys, *arguments):
    """Type a command; return what came of it."""
    capsys.readouterr()
    code = main(list(arguments))
    return Told(code, *capsys.readouterr())


@contextmanager
def queue_url(way, folder):
    """A queue in a folder, by itself or behind a broker."""
    url = f"file://{folder}/queue.json"
    if way == "file":
        yield url
    else:
        with hosted(url) as broker:
            yield url_of(way, broker)
