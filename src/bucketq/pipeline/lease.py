"""Lease: one at a time changes a lake.

    lake/lease.json     who works on it: host, process, since when

It is created by whoever begins and removed at the end; meanwhile its time is renewed, so that people
can tell a holder that works from one that is gone. What a process of this host has left behind is
taken over at once. What one of another host has left behind is for people to remove: from here,
nobody can tell whether it is still at work.
"""

import json
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from py4j.protocol import Py4JError

from bucketq.errors import ConfigurationError
from bucketq.pipeline.lake import Lake

LEASE = "lease.json"
_RENEW_S = 10.0
# Those of this process: a process that was restarted may have the number of the one that died.
_held: set[str] = set()


@contextmanager
def held(lake: Lake) -> Iterator[None]:
    """Be the only one to change a lake. Raises ConfigurationError if somebody else does."""
    mine: dict[str, Any] = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
        "token": uuid.uuid4().hex,
    }
    _held.add(mine["token"])
    is_over = threading.Event()
    try:
        _take(lake, mine)
        threading.Thread(target=_renew, args=(lake, is_over), daemon=True).start()
        try:
            yield
        finally:
            is_over.set()
            lake.remove(LEASE)
    finally:
        _held.discard(mine["token"])


def _take(lake: Lake, mine: dict[str, Any]) -> None:
    text = json.dumps(mine)
    if lake.create(LEASE, text):
        return
    holder = _holder(lake)
    if holder and _is_gone(holder):
        lake.remove(LEASE)
        if lake.create(LEASE, text):
            return
        holder = _holder(lake)
    who = (
        "process {pid} on {host} is at work on {root} since {since}".format_map({**holder, "root": lake.root})
        if holder
        else f"somebody is at work on {lake.root}"
    )
    raise ConfigurationError(
        f"{who}, last seen {_last_seen(lake)}: let it end; if it is gone for good, remove {lake.path(LEASE)}"
    )


def _holder(lake: Lake) -> dict[str, Any] | None:
    """Who holds it; None if that is not written yet, or not any more."""
    try:
        found: dict[str, Any] = json.loads(lake.text(LEASE))
        return found
    except (Py4JError, ValueError):
        return None


def _is_gone(holder: dict[str, Any]) -> bool:
    if holder["host"] != socket.gethostname():
        return False
    if holder["pid"] == os.getpid():
        return holder["token"] not in _held
    try:
        os.kill(holder["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _last_seen(lake: Lake) -> str:
    at = lake.changed_at(LEASE)
    return "a moment ago" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _renew(lake: Lake, is_over: threading.Event) -> None:
    while not is_over.wait(_RENEW_S):
        # What is wrong with the file system, or with Java, the work itself will tell.
        with suppress(Py4JError, OSError):
            lake.touch(LEASE)
