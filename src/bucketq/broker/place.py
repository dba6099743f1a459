"""Place: what is at one path of a broker's HTTP, by method; and how whatever goes wrong is told there."""

import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import closing

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bucketq.broker.holdings import Hold, Holdings, answered
from bucketq.broker.problem import Problem, status_of
from bucketq.errors import BucketQError, TooManyRequestsError, UnauthenticatedError

log = logging.getLogger("bucketq")

JSON = "application/json"

Endpoint = Callable[[Request], Awaitable[Response]]


class Place:
    """One path. All its methods are in one place, so that any other one is refused by name."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self.endpoints: dict[str, Endpoint] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        request = Request(scope, receive)
        with closing(Hold(self._holdings, scope.get("client"))):
            response = await self._answer(request)
            if response is not None:
                await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response | None:
        method = "GET" if request.method == "HEAD" else request.method
        endpoint = self.endpoints.get(method)
        if endpoint is None:
            allowed = ", ".join(self.endpoints)
            message = f"{request.url.path} takes {allowed}, not {request.method}"
            return problem(405, "MethodNotAllowedError", message, {"Allow": allowed})

        try:
            return await answered(lambda: endpoint(request), is_repeatable=method == "GET", size_of=_size_of)
        except ClientDisconnect:
            return None
        except TooManyRequestsError as error:
            return refusal(error)
        except Exception:
            # Nobody outside is told what is inside.
            peer = request.client.host if request.client else ""
            log.exception("%s %s failed", request.method, request.url.path, extra={"peer": peer})
            return problem(500, "InternalError", "the broker failed at this; its log says why")


def _size_of(response: Response) -> int:
    # A stream has none, and waits for its reader after each piece.
    return len(getattr(response, "body", b""))


async def refuse(request: Request, error: Exception) -> Response:
    """Tell of a path that is none."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = f"there is nothing at {request.url.path}; see /openapi.json"
    return problem(status, "NotFoundError", message)


def refusal(error: BucketQError) -> Response:
    """An error of the queue's, or of those who guard it."""
    return Response(msgspec.json.encode(Problem.of(error)), status_of(error), headers_of(error), JSON)


def headers_of(error: BucketQError) -> dict[str, str]:
    """What is told with an error beside its status."""
    if isinstance(error, UnauthenticatedError):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, TooManyRequestsError):
        return {"Retry-After": str(math.ceil(error.retry_after_s))}
    return {"Retry-After": "1"} if status_of(error) == 503 else {}


def problem(status: int, tag: str, message: str, headers: dict[str, str] | None = None) -> Response:
    """An error that is none of the queue's."""
    return Response(msgspec.json.encode(Problem(tag, message)), status, headers, JSON)
