"""Redaction: queue.json as those may see it who must not settle other people's claims."""

import msgspec
from msgspec import Raw

from bucketq.broker.access import HIDDEN

_Fields = dict[str, Raw]


def redacted(content: bytes) -> bytes:
    """The content of queue.json without the tokens of claims and the names of sessions.

    >>> redacted(b'{"version":1,"sessions":{"s":[1,1,0]},"jobs":[{"id":"1","token":"secret"}]}')
    b'{"version":1,"jobs":[\\n{"id":"1"}]}'
    """
    document: _Fields = msgspec.json.decode(content, type=_Fields)
    document.pop("sessions", None)
    if "segments" in document:
        document["segments"] = _lines([_without_hold(one) for one in _objects(document["segments"])])
    jobs = _objects(document["jobs"])
    for job in jobs:
        job.pop("token", None)
    document["jobs"] = _lines(jobs)
    return msgspec.json.encode(document)


def _without_hold(segment: _Fields) -> _Fields:
    if "hold" in segment:
        hold: _Fields = msgspec.json.decode(segment["hold"], type=_Fields)
        segment["hold"] = Raw(msgspec.json.encode({**hold, "token": HIDDEN}))
    return segment


def _objects(content: Raw) -> list[_Fields]:
    objects: list[_Fields] = msgspec.json.decode(content, type=list[_Fields])
    return objects


def _lines(objects: list[_Fields]) -> Raw:
    # One a line, as the file itself has them.
    return Raw(b"[\n" + b",\n".join(map(msgspec.json.encode, objects)) + b"]" if objects else b"[]")
