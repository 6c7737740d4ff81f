"""Who may ask: the checks that every request passes before anything else sees it.

- `Host` must be an address, `localhost` or a configured name: a foreign web page can give its own name to our address
  (DNS rebinding), but cannot change what the browser then sends as `Host`.
- Which path is asked for is read from `scope["path"]`, never from a URL: Starlette before 1.0.1 made that of `Host`.
- What another web page makes a browser send is refused, by `Origin` and `Sec-Fetch-Site`.
- With a token: a request carries it as `Authorization: Bearer …`, or the cookie of a session that a login form began.
  The cookie is not the token, and is gone when the service ends.

`/healthz` and `/readyz` are open to all: they say whether the process works, and nothing else.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import re
import secrets
import time
from collections.abc import Collection
from contextlib import suppress
from html import escape
from urllib.parse import parse_qs, quote, urlsplit

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import SecretStr
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spark_trickle.errors import TrickleError
from spark_trickle.web.problem import respond
from spark_trickle.web.rest_catalog import error_body

_log = logging.getLogger(__name__)

LONGEST_BODY = 1024 * 1024  # bytes
LONGEST_STATEMENT = 256 * 1024  # of /sql: a parser takes much longer than a reader
BODY_SECONDS = 30.0  # until the body of a request must be whole
OPEN = ("/healthz", "/readyz")
LOGIN = "/login"
_LIMITS = {LOGIN: 4096, "/api/v1/sql": LONGEST_STATEMENT}  # who logs in has shown no token yet
_ICEBERG = "/iceberg"  # has errors of its own form, and bodies that nobody keeps
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([0-9a-z._-]+))(?::[0-9]{1,5})?")
_DRAINED = 8 * LONGEST_BODY  # of a body that is refused: who sends less gets to read the answer
_SAFE = ("GET", "HEAD", "OPTIONS")
_SESSION_SECONDS = 12 * 3600
_SESSIONS = 1000
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "Cache-Control": "no-store",
}


def is_loopback(host: str) -> bool:
    """
    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Sessions:
    """The browsers that have logged in. The token is compared in constant time."""

    def __init__(self, token: SecretStr, cookie: str) -> None:
        self._token = token.get_secret_value().encode()
        self.cookie = cookie
        self._until: dict[str, float] = {}

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="replace"), self._token)

    def knows(self, id_: str | None) -> bool:
        return id_ is not None and time.monotonic() < self._until.get(id_, 0)

    def begin(self) -> str:
        now = time.monotonic()
        self._until = {k: v for k, v in list(self._until.items())[-_SESSIONS + 1 :] if now < v}
        id_ = secrets.token_urlsafe(32)
        self._until[id_] = now + _SESSION_SECONDS
        return id_

    def end(self, id_: str | None) -> None:
        self._until.pop(id_ or "", None)


class Guard:
    """The outermost application. `ending` is set when the server stops: answers without end are ended."""

    def __init__(self, app: ASGIApp, names: Collection[str], sessions: Sessions | None, ending: asyncio.Event) -> None:
        self._app = app
        self._names = frozenset(n.lower() for n in names)
        self._sessions = sessions
        self._ending = ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                await self._app(scope, receive, send)
            return
        request = Request(scope)
        body = _Body(receive, self._ending, _longest(scope["path"]))
        refusal = None if scope["path"] in OPEN else self._refusal(request)
        if refusal is not None:
            with suppress(HTTPException):  # it is refused anyhow
                await body.drain()
            await refusal(scope, receive, _Answer(send))
            return
        if scope["path"].startswith("/api/"):
            scope["path"] = scope["raw_path"].decode("ascii", "replace")  # a name may have an encoded slash in it
        answer = _Answer(send)
        try:
            await self._app(scope, body, answer)
        except ClientDisconnect:  # while it sent a body: nobody reads the answer
            return
        except Exception:
            _log.exception("%s %s failed", request.method, scope["path"][:200])
            if answer.is_begun:
                raise  # the connection is closed: the client sees that it is not whole
            await respond(TrickleError("INTERNAL", "The service failed; its log says why."))(scope, receive, answer)
        if answer.is_open and self._ending.is_set():
            await answer({"type": "http.response.body"})

    def _refusal(self, request: Request) -> Response | None:
        headers, path = request.headers, request.scope["path"]
        if not self._is_our_name(headers.get("host", "")):
            hint = "Ask by IP address or localhost, or add the name to the setting service_names."
            return _refuse(request, 421, TrickleError("INVALID_REQUEST", "The Host header is not ours.", hint=hint))
        if _is_foreign(request):
            error = TrickleError("INVALID_REQUEST", "Another web page sent this request.", hint="Send it from ours.")
            return _refuse(request, 403, error)
        length, longest = headers.get("content-length", ""), _longest(path)
        if longest is not None and length.isdecimal() and (len(length) > 18 or int(length) > longest):
            too_large = TrickleError("INVALID_REQUEST", f"The request has over {longest:,} bytes.", hint="Send less.")
            return _refuse(request, 413, too_large)
        if self._sessions is None or path == LOGIN or self._may(request, self._sessions):
            return None
        if request.method == "GET" and "text/html" in headers.get("accept", ""):
            there = b"?".join(filter(None, (request.scope["raw_path"], request.scope["query_string"])))
            return RedirectResponse(f"{LOGIN}?next={quote(there, safe='/')}", 303)
        given = "it is not this one" if "authorization" in headers else "there is none"
        return _refuse(request, 401, TrickleError("UNAUTHORIZED", f"The service wants a token, and {given}."))

    def _is_our_name(self, host: str) -> bool:
        found = _HOST.fullmatch(host.lower())
        if found is None:
            return False
        address, name = found.groups()
        if name == "localhost" or name in self._names:
            return True
        try:
            ipaddress.ip_address(address or name)
        except ValueError:
            return False
        return True

    @staticmethod
    def _may(request: Request, sessions: Sessions) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return sessions.is_token(given.strip())
        return sessions.knows(request.cookies.get(sessions.cookie))


def _is_foreign(request: Request) -> bool:
    """Whether a browser says that another site is behind it. Following a link from there is all right."""
    headers, site = request.headers, request.headers.get("sec-fetch-site", "none")
    if request.method in _SAFE:
        return site == "cross-site" and headers.get("sec-fetch-mode") != "navigate"
    origin = headers.get("origin")
    if origin is None:
        return site in ("cross-site", "same-site")
    try:
        return urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
    except ValueError:
        return True


def _refuse(request: Request, status: int, error: TrickleError) -> Response:
    given = {"WWW-Authenticate": 'Bearer realm="trickle"'} if status == 401 else {}
    if request.scope["path"].startswith(_ICEBERG):
        type_ = {401: "NotAuthorizedException", 403: "ForbiddenException"}.get(status, "BadRequestException")
        body = error_body(status, type_, f"{error.message} {error.hint}")
        return Response(body, status, given, "application/json")
    return respond(error, status, given)


def _longest(path: str) -> int | None:
    """The bytes that a body may have; None: nobody keeps it."""
    return None if path.startswith(_ICEBERG) else _LIMITS.get(path, LONGEST_BODY)


class _Body:
    """A request's body up to a limit, and for a limited time; after it, the end of the connection or of the service."""

    def __init__(self, receive: Receive, ending: asyncio.Event, limit: int | None) -> None:
        self._receive = receive
        self._ending = ending
        self._limit = limit
        self._size = 0
        self._whole = False
        self._until = time.monotonic() + BODY_SECONDS

    async def __call__(self) -> Message:
        if self._whole:
            return await self._next(None) or {"type": "http.disconnect"}
        message = await self._part()
        if self._limit is not None and self._size > self._limit:
            await self.drain()
            raise HTTPException(413)
        return message

    async def drain(self) -> None:
        while not self._whole and self._size < _DRAINED:
            await self._part()

    async def _part(self) -> Message:
        """A body that is never whole would keep a service that ends waiting, and its connection for ever."""
        message = await self._next(max(0.0, self._until - time.monotonic()))
        if message is None:
            raise HTTPException(503 if self._ending.is_set() else 408, headers={"Connection": "close"})
        self._size += len(message.get("body", b""))
        self._whole = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def _next(self, seconds: float | None) -> Message | None:
        """What comes; None: nothing did in that time, or before the service ends."""
        waits = [asyncio.ensure_future(self._receive()), asyncio.ensure_future(self._ending.wait())]
        try:
            done, _ = await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            return waits[0].result() if waits[0] in done else None  # type: ignore[return-value]
        finally:
            for each in waits:
                each.cancel()


class _Answer:
    """Adds what every answer has, and knows whether it is whole."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.is_begun = self.is_open = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.is_begun = self.is_open = True
            headers = MutableHeaders(scope=message)
            for key, value in _HEADERS.items():
                headers.setdefault(key, value)
        elif message["type"] == "http.response.body":
            self.is_open = message.get("more_body", False)
        await self._send(message)


# -- the login form ----------------------------------------------------------------------------------------------------


def add_login(app: FastAPI, sessions: Sessions | None) -> None:
    """`/login` and `/logout`, for people; without a token they lead to the page."""
    routes = APIRouter(include_in_schema=False)

    @routes.get(LOGIN)
    async def form(next: str = "/") -> Response:
        return _form(next) if sessions is not None else RedirectResponse("/", 303)

    @routes.post(LOGIN)
    async def login(request: Request) -> Response:
        given = parse_qs((await request.body()).decode("utf-8", "replace"))
        there = _local(given.get("next", ["/"])[0])
        if sessions is None:
            return RedirectResponse(there, 303)
        if not sessions.is_token(given.get("token", [""])[0].strip()):
            return _form(there, wrong=True)
        answer = RedirectResponse(there, 303)
        secure = request.scope["scheme"] == "https"
        answer.set_cookie(sessions.cookie, sessions.begin(), httponly=True, samesite="strict", secure=secure)
        return answer

    @routes.post("/logout")
    async def logout(request: Request) -> Response:
        answer = RedirectResponse(LOGIN, 303)
        if sessions is not None:
            sessions.end(request.cookies.get(sessions.cookie))
            answer.delete_cookie(sessions.cookie, httponly=True, samesite="strict")
        return answer

    app.include_router(routes)


def _local(path: str) -> str:
    """A path of this service, never another site.

    >>> _local("/tables?x=1"), _local("//evil.example"), _local("https://evil.example"), _local("/a\\\\b")
    ('/tables?x=1', '/', '/', '/')
    """
    fine = path.startswith("/") and not path.startswith("//") and "\\" not in path and path.isprintable()
    return path if fine else "/"


def _form(there: str, *, wrong: bool = False) -> Response:
    says = '<p role="alert">This is not the token.</p>' if wrong else ""
    return HTMLResponse(_FORM.format(says=says, next=escape(_local(there))), 401 if wrong else 200)


_FORM = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Trickle</title>
<style>:root {{ color-scheme: light dark; font-family: system-ui, sans-serif }}
body {{ display: grid; place-items: center; min-height: 90vh }} form {{ display: grid; gap: .7rem; width: 20rem }}
input, button {{ font: inherit; padding: .5rem }}</style></head>
<body><main><h1>Trickle</h1>{says}<form method="post" action="/login"><label for="token">Token of this service</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<input type="hidden" name="next" value="{next}"><button>Log in</button></form></main></body></html>
"""
