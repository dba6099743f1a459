"""The description of a broker's REST, in the words of OpenAPI 3.1, made of the table of calls."""

import inspect
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from types import NoneType
from typing import Any

import msgspec

from bucketq.broker.calls import CALLS, Call
from bucketq.broker.calls.call import Asked
from bucketq.broker.events import LeaderTold, WatchEvents
from bucketq.broker.problem import Problem
from bucketq.told import QueueStats

_Document = dict[str, Any]

_ABOUT = """\
A job queue. Every call needs a bearer token with a role that allows it, unless the broker was started
without tokens. Errors have a `_tag`, to go by, and a `message`, to be read. A broker that does not
lead answers 503, with the address of the one that does in `leader`. The same calls may be made over
WebSocket at `/v1/ws`, by the name in `operationId`, with the fields of path, query and body together
as `params`. `/v1/rpc` and `/v1/objects` are for bucketq's own clients."""

_ERRORS = {
    400: "What was sent makes no sense; the message says why.",
    401: "There is no such token.",
    403: "The token's roles do not allow it, or the request comes from a page of another site.",
    404: "There is no such job, batch or schedule (any more).",
    408: "The request did not arrive in time.",
    409: "The claim is lost, the job was cancelled, or another job has the key.",
    413: "The message, or the payload, is too large.",
    429: "Too many requests; Retry-After says when to come again.",
    431: "The header of the request is too large.",
    500: "The broker failed.",
    503: "This broker does not lead, or cannot reach its storage. Retry-After says when to try again.",
    507: "The queue is full.",
}
# What happens only to those who change something.
_OF_CHANGES = {409, 413, 507}
_SCHEMAS = "#/components/schemas/{name}"


@cache
def openapi() -> _Document:
    """The whole document."""
    asked = [call.asked for call in CALLS.values()]
    told = [call.told for call in CALLS.values() if call.told not in (bytes, NoneType, msgspec.Raw)]
    types = list(dict.fromkeys([*asked, *told, WatchEvents, QueueStats, LeaderTold, Problem]))
    refs, components = msgspec.json.schema_components(types, ref_template=_SCHEMAS)
    names = {kind: ref["$ref"].rpartition("/")[2] for kind, ref in zip(types, refs, strict=True)}
    schemas = {name: dict(schema) for name, schema in components.items()}
    for kind in _all(Asked):
        schemas.get(kind.__name__, {}).update(kind.rules)
    paths: _Document = {}
    for call in CALLS.values():
        schema = schemas[names[call.asked]]
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call, schema, names)
    for call in CALLS.values():
        # They are in the path, so they are not in the body.
        for name in call.in_path:
            schemas[names[call.asked]]["properties"].pop(name, None)
    bodies = {names[call.asked] for call in CALLS.values() if not call.is_by_query}
    parameters = {names[kind] for kind in (*asked, WatchEvents)} - bodies
    return {
        "openapi": "3.1.0",
        "info": {"title": "bucketq", "version": "1", "description": _ABOUT},
        "paths": paths | _beside(names, schemas[names[WatchEvents]]),
        "components": {
            "schemas": {name: schema for name, schema in schemas.items() if name not in parameters},
            "responses": {str(status): _refusal(status, names) for status in _ERRORS},
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}, {}],
    }


def _all(kind: type[Asked]) -> Iterator[type[Asked]]:
    for one in kind.__subclasses__():
        yield one
        yield from _all(one)


def _operation(call: Call, schema: _Document, names: dict[Any, str]) -> _Document:
    operation: _Document = {
        "operationId": call.name,
        "tags": [call.path.split("/")[2] if call.path.startswith("/v1/") else "queue"],
        "summary": inspect.cleandoc(call.perform.__doc__ or ""),
        "description": f"Needs the role {call.role.value}.",
        "parameters": [
            _parameter(name, schema["properties"][name], call)
            for name in schema["properties"]
            if name in call.in_path or call.is_by_query
        ],
        "responses": _responses(call, names),
    }
    if not call.is_by_query and schema["properties"].keys() - set(call.in_path):
        operation["requestBody"] = {
            "required": bool(not call.in_path or schema["required"] or {"oneOf", "anyOf"} & schema.keys()),
            "content": {"application/json": {"schema": {"$ref": _SCHEMAS.format(name=names[call.asked])}}},
        }
    return operation


def _parameter(name: str, schema: _Document, call: Call) -> _Document:
    if name not in call.in_path:
        return {"name": name, "in": "query", "schema": schema}
    # Its default stands for "not there", which cannot be in a path.
    schema = {key: value for key, value in schema.items() if key != "default"} | {"minLength": 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _responses(call: Call, names: dict[Any, str]) -> _Document:
    if call.told is NoneType:
        good: _Document = {"204": {"description": "Done."}}
    elif call.told is bytes:
        good = {"200": {"description": "The bytes.", "content": {"application/octet-stream": {}}}}
    elif call.told is msgspec.Raw:
        good = {"200": _content("A JSON object.", {"type": "object"})}
    else:
        about = inspect.cleandoc(call.told.__doc__ or "")
        good = {"200": _content(about, {"$ref": _SCHEMAS.format(name=names[call.told])})}
    refused = [status for status in _ERRORS if status not in _OF_CHANGES or not call.is_by_query]
    return good | {str(status): {"$ref": f"#/components/responses/{status}"} for status in refused}


def _content(about: str, schema: _Document, media_type: str = "application/json") -> _Document:
    return {"description": about, "content": {media_type: {"schema": schema}}}


def _refusal(status: int, names: dict[Any, str]) -> _Document:
    about = f"{HTTPStatus(status).phrase}. {_ERRORS[status]}"
    return _content(about, {"$ref": _SCHEMAS.format(name=names[Problem])})


def _beside(names: dict[Any, str], events: _Document) -> _Document:
    """What is there besides the calls."""
    status: _Document = {
        "type": "object",
        "properties": {"status": {"type": "string"}},
        "required": ["status"],
    }
    refusals = {
        str(code): {"$ref": f"#/components/responses/{code}"} for code in (400, 401, 403, 429, 500, 503)
    }
    stream = (
        "Server-sent events: `stats` with a QueueStats whenever the numbers have changed, and `leader` with a"
        " LeaderTold, at first and when this broker leads no more, which ends the stream."
    )
    told = [{"$ref": _SCHEMAS.format(name=names[kind])} for kind in (QueueStats, LeaderTold)]
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": {"anyOf": told}}
    event: _Document = {
        "type": "object",
        "properties": {"event": {"enum": ["stats", "leader"]}, "data": data},
        "required": ["event", "data"],
    }
    return {
        "/v1/events": {
            "get": {
                "operationId": "watchEvents",
                "tags": ["queue"],
                "summary": "Follow the queue's numbers.",
                "description": "Needs the role viewer.",
                "parameters": [
                    {"name": name, "in": "query", "schema": schema}
                    for name, schema in events["properties"].items()
                ],
                "responses": {"200": _content(stream, event, "text/event-stream")} | refusals,
            }
        },
        "/metrics": {
            "get": {
                "operationId": "getMetrics",
                "tags": ["health"],
                "summary": "The numbers of this broker, for Prometheus.",
                "description": "Needs the role viewer.",
                "responses": {"200": _content("Text.", {"type": "string"}, "text/plain")}
                | {code: refusals[code] for code in ("401", "403", "429", "500")},
            }
        },
        "/healthz": {
            "get": {
                "operationId": "getHealth",
                "tags": ["health"],
                "summary": "Is the process well?",
                "security": [],
                "responses": {"200": _content("It is.", status), "403": refusals["403"]},
            }
        },
        "/readyz": {
            "get": {
                "operationId": "getReadiness",
                "tags": ["health"],
                "summary": "Does this broker lead?",
                "security": [],
                "responses": {
                    "200": _content("It does.", status),
                    "403": refusals["403"],
                    "503": _content("It does not.", status),
                },
            }
        },
    }
