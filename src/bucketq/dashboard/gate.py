"""Gate: the dashboard's paths, and who gets past them.

    /dashboard/_nicegui/…      what every browser needs: scripts, styles, fonts      everybody
    /dashboard/assets/…        the same, of this package                             everybody
    /dashboard/sign-in         a token for a session                                 everybody
    /dashboard/sign-out                                                              everybody
    /dashboard/_nicegui_ws/…   the connection of an open page                        visitors
    /dashboard/…               the pages                                             visitors

Where there are no tokens everybody is a visitor. `Site`, which stands before it, has refused what comes
from a page of another origin by then.
"""

from urllib.parse import parse_qs, quote

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bucketq.broker.place import refusal
from bucketq.dashboard.house import House
from bucketq.dashboard.outside import POLICY, away_page, sign_in_page, way_back
from bucketq.dashboard.sessions import Sessions
from bucketq.dashboard.visitor import Visitor
from bucketq.errors import (
    BucketQError,
    ConfigurationError,
    TooManyRequestsError,
    UnauthenticatedError,
)

BASE = "/dashboard"
HTML = "text/html; charset=utf-8"
VISITOR = "bucketq.visitor"

_FORM_BYTES_MAX = 8 * 1024
_EXPIRED = "Your token has expired, or was revoked. Sign in with another one."
# The paths hold NiceGUI's version.
_FOR_EVER = {b"cache-control": b"public, max-age=31536000, immutable"}
# NiceGUI writes its scripts into the page, and Vue compiles templates in the browser. Everything comes
# from here, and goes nowhere else.
_PAGE_HEADERS = {
    b"content-security-policy": b"default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval';"
    b" style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; connect-src 'self';"
    b" form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    # With none at all a browser says of a form that it comes from nowhere, and the door stays shut.
    b"referrer-policy": b"same-origin",
}
PLAIN_HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}


class Gate:
    """The dashboard as an ASGI application, for those who may come in."""

    def __init__(self, app: ASGIApp, house: House, *, is_encrypted: bool) -> None:
        self._app = app
        self._house = house
        self._is_encrypted = is_encrypted
        self._sessions = Sessions()
        self._guest: Visitor | None = None

    def is_at(self, path: str) -> bool:
        """Whether this path is one of the dashboard's."""
        return path == BASE or path.startswith(f"{BASE}/")

    async def close(self) -> None:
        """Let all visitors go."""
        await self._sessions.close()
        if self._guest is not None:
            await self._guest.leaving.aclose()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI has it."""
        path = scope["path"].removeprefix(BASE)
        if path.startswith("/_nicegui/"):
            await self._app(scope, receive, _with(send, _FOR_EVER, below=400))
            return
        if path.startswith("/assets/"):
            await self._app(scope, receive, send)
            return
        if path == "/sign-in" and scope["type"] == "http":
            await (await self._sign_in(Request(scope, receive)))(scope, receive, send)
            return
        if path == "/sign-out" and scope["type"] == "http":
            await (await self._sign_out(Request(scope, receive)))(scope, receive, send)
            return
        try:
            visitor = await self._visitor(scope)
            if visitor is not None:
                visitor.knock(scope["client"][0] if scope.get("client") else "")
        except TooManyRequestsError as error:
            await refusal(error)(scope, receive, send)
            return
        except (BucketQError, OSError) as error:
            await self._tell_away(scope, error)(scope, receive, send)
            return
        if visitor is None:
            await self._turn_away(scope)(scope, receive, send)
        elif not path:
            await RedirectResponse(f"{BASE}/", 303)(scope, receive, send)
        else:
            scope[VISITOR] = visitor
            if scope["type"] == "websocket":
                receive = self._heard(receive, visitor, _cookie(scope))
            await self._app(scope, receive, _with(send, _PAGE_HEADERS))

    def _heard(self, receive: Receive, visitor: Visitor, session: str | None) -> Receive:
        """What an open page sends, as long as its visitor is welcome: it need not go when it is told to."""

        async def receive_heard() -> Message:
            while True:
                message = await receive()
                if message["type"] != "websocket.receive":
                    return message
                if visitor.is_welcome():
                    self._sessions.keep(session)
                    return message

        return receive_heard

    async def _visitor(self, scope: Scope) -> Visitor | None:
        if self._house.needs_token:
            return self._sessions.find(_cookie(scope))
        guest = self._guest
        if guest is not None and guest.is_welcome():
            return guest
        try:
            admitted = await self._house.admit(None, "dashboard")
        except UnauthenticatedError:
            # The brokers want a token after all.
            return None
        if self._guest is guest:
            self._guest, spare = admitted, guest
        else:
            # Somebody who came at the same time was quicker.
            spare = admitted
        if spare is not None:
            await spare.leaving.aclose()
        return self._guest

    def _tell_away(self, scope: Scope, error: Exception) -> Response:
        if scope["type"] != "http":
            return refusal(UnauthenticatedError("sign in first"))
        content = away_page(BASE, self._house.url, f"{error}")
        return Response(content, 503, {**PLAIN_HEADERS, "Retry-After": "3"}, HTML)

    def _turn_away(self, scope: Scope) -> Response:
        if scope["type"] != "http" or scope["path"].startswith(f"{BASE}/_"):
            return refusal(UnauthenticatedError("sign in first"))
        query = scope["query_string"].decode("latin-1")
        wanted = quote(scope["path"] + (f"?{query}" if query else ""), safe="")
        # Whoever has had a session is told why it is over.
        why = "&expired=1" if _cookie(scope) else ""
        return RedirectResponse(f"{BASE}/sign-in?next={wanted}{why}", 303)

    async def _sign_in(self, request: Request) -> Response:
        if not self._house.needs_token:
            return RedirectResponse(f"{BASE}/", 303)
        if request.method != "POST":
            message = _EXPIRED if "expired" in request.query_params else ""
            return self._sign_in_page(request.query_params.get("next", ""), message)
        try:
            form = await _form(request)
        except ClientDisconnect:
            return Response(status_code=400)
        after = form.get("next", "")
        try:
            visitor = await self._house.admit(_token_in(form), request.client.host if request.client else "")
        except TooManyRequestsError as error:
            return self._sign_in_page(after, f"{error}", 429)
        except (UnauthenticatedError, ConfigurationError) as error:
            return self._sign_in_page(after, f"That did not work: {error}.", 401)
        except BucketQError as error:
            return self._sign_in_page(after, f"{error}", 503)
        await self._sessions.end(_cookie(request.scope))
        response = RedirectResponse(way_back(BASE, after), 303)
        self._set_cookie(response, request.scope, await self._sessions.begin(visitor))
        return response

    def _sign_in_page(self, wanted: str, message: str, status: int = 200) -> Response:
        content = sign_in_page(BASE, self._house.url, way_back(BASE, wanted), message)
        return Response(content, status, PLAIN_HEADERS, HTML)

    async def _sign_out(self, request: Request) -> Response:
        response = RedirectResponse(f"{BASE}/sign-in", 303)
        # A link that somebody else has written must not do it.
        if request.method == "POST":
            await self._sessions.end(_cookie(request.scope))
            response.delete_cookie(_cookie_name(request.scope), path=BASE)
        return response

    def _set_cookie(self, response: Response, scope: Scope, session: str) -> None:
        response.set_cookie(
            _cookie_name(scope),
            session,
            path=BASE,
            secure=self._is_encrypted,
            httponly=True,
            samesite="strict",
        )


def _with(send: Send, headers: dict[bytes, bytes], below: int = 600) -> Send:
    """Answers of a status below another one have these headers."""

    async def send_with(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] < below:
            kept = [one for one in message.get("headers", ()) if one[0].lower() not in headers]
            message["headers"] = [*kept, *headers.items()]
        await send(message)

    return send_with


def _cookie_name(scope: Scope) -> str:
    # Browsers send a cookie to all ports of a host, and two brokers may be on one.
    return f"bucketq-{scope['server'][1]}" if scope.get("server") else "bucketq"


def _cookie(scope: Scope) -> str | None:
    return HTTPConnection(scope).cookies.get(_cookie_name(scope))


async def _form(request: Request) -> dict[str, str]:
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > _FORM_BYTES_MAX:
            return {}
    try:
        fields = parse_qs(content.decode("latin-1"), max_num_fields=10)
    except ValueError:
        return {}
    return {name: values[0] for name, values in fields.items()}


def _token_in(form: dict[str, str]) -> str:
    return form.get("token", "").strip()
