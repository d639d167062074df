"""Pure ASGI middleware of the console: who asks, security headers, counted requests."""

import asyncio
import contextlib
import ipaddress
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from time import monotonic
from typing import Final

from opentelemetry.trace import get_current_span
from prometheus_client import Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runtime.durations import BOUNDS_S
from tenants import credentials
from tenants.api.problems import of_refusal, problem
from tenants.rules.callers import RequestsUnderWay
from tenants.rules.errors import Forbidden, NotFound, Refused, TooMany, Unauthenticated
from tenants.rules.model import Caller
from tenants.rules.permissions import OPEN, READS, methods, needed, refusal
from tenants.rules.rate_limit import Verdict
from tenants.shared_limits import RequestRates
from tenants.store.engine import StoreFault
from tenants.usecases.accounts import Accounts

COOKIE: Final = "portico_session"
CSRF_HEADER: Final = "x-csrf-token"
_WRONG_KEY: Final = "the API key is not known: check it, or make a new one"
_NO_CREDENTIALS: Final = "log in, or send an API key as Authorization: Bearer KEY"
_POLICY: Final = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'; object-src 'none'"
)
_PAGES: Final = "pages"
_REFUSED: Final = "refused"
ROUTE_SECONDS: Final = Histogram(
    "portico_console_route_seconds",
    "Time until an answer begins, by the route's template; what was refused before a route was found is one",
    ["method", "route"],
    buckets=BOUNDS_S,
)
REQUESTS: Final = Counter("portico_console_requests_total", "Answered requests", ["method", "status"])
RATE_LIMITED: Final = Counter(
    "portico_console_rate_limited_total", "Requests refused for their rate, by the quota", ["quota"]
)


def client_address(scope: Scope) -> str:
    """The caller's address; IPv4 mapped into IPv6 as IPv4."""
    host = scope["client"][0] if scope.get("client") else "unknown"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(host)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def session_token(headers: Headers) -> str | None:
    """The session cookie's value."""
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if morsel is None else morsel.value


class _IsOver(BaseException):
    """What a HEAD asks for has been told."""


class Heads:
    """A HEAD is a GET of which the headers are sent: every path that has the one has the other."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask as for a GET; a stream is left once it has begun."""
        if scope["type"] != "http" or scope["method"] != "HEAD" or not scope["path"].startswith("/v1"):
            await self._app(scope, receive, send)
            return

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.body":
                await send({"type": "http.response.body", "body": b""})
                raise _IsOver
            await send(message)

        with contextlib.suppress(_IsOver):
            await self._app({**scope, "method": "GET"}, receive, tell)


class Authenticate:
    """Puts the Caller into the scope's state, before a byte of the body is read, and charges the request.

    Bearer keys and session cookies; a cookie's writes need the CSRF header; a role needs its permission.
    """

    def __init__(self, app: ASGIApp, accounts: Accounts, rates: RequestRates) -> None:
        self._app = app
        self._accounts = accounts
        self._rates = rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Authenticate requests under /v1."""
        if scope["type"] != "http" or not scope["path"].startswith("/v1"):
            await self._app(scope, receive, send)
            return
        try:
            # One thread for both: each may ask Redis.
            caller, verdict = await asyncio.to_thread(self._ask, scope)
        except StoreFault as fault:
            await of_refusal(fault, scope)(scope, receive, send)
            return
        told = send if caller is None or verdict is None else self._telling(send, caller, verdict)
        try:
            _check_rate(verdict)
            _check_credentials(scope, caller)
            _check_role(scope, caller)
            _check_path(scope)
        except Refused as refusal:
            await of_refusal(refusal, scope)(scope, receive, told)
            return
        if not _is_known(scope):
            await _nothing(scope)(scope, receive, told)
            return
        scope.setdefault("state", {})["caller"] = caller
        if caller is not None:
            get_current_span().set_attribute("portico.tenant", caller.tenant)
        await self._app(scope, receive, told)

    def _ask(self, scope: Scope) -> tuple[Caller | None, Verdict | None]:
        caller = credential_caller(self._accounts, scope)
        return caller, None if caller is None else self._rates.take(caller)

    def _telling(self, send: Send, caller: Caller, verdict: Verdict) -> Send:
        """The fields of draft-ietf-httpapi-ratelimit-headers-10, on every answer."""
        policies = [bucket.quota for bucket in self._rates.buckets(caller)]
        policy = ", ".join(f'"{one.name}";q={one.requests_max};w={one.window_s}' for one in policies)
        reset_s = -(-verdict.full_after_us // 1_000_000)

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["RateLimit-Policy"] = policy
                headers["RateLimit"] = f'"{verdict.quota.name}";r={verdict.remaining};t={reset_s}'
            await send(message)

        return add


def _check_rate(verdict: Verdict | None) -> None:
    if verdict is None or verdict.is_admitted:
        return
    RATE_LIMITED.labels(verdict.quota.name).inc()
    quota = verdict.quota
    whose = "your tenant" if quota.name == "tenant" else "your key or login"
    detail = f"{whose} may send {quota.requests_max} requests in {quota.window_s} s: slow down"
    raise TooMany(detail, verdict.retry_after_us // 1_000_000 + 1)


def _check_credentials(scope: Scope, caller: Caller | None) -> None:
    if _is_open(scope):
        return
    headers = Headers(scope=scope)
    if caller is None:
        raise Unauthenticated(_WRONG_KEY if "authorization" in headers else _NO_CREDENTIALS)
    if caller.kind == "session" and scope["method"] not in READS:
        expected = credentials.csrf_token(session_token(headers) or "")
        if not credentials.same(headers.get(CSRF_HEADER, ""), expected):
            raise Forbidden("send the session's csrf_token as header X-CSRF-Token")


def credential_caller(accounts: Accounts, scope: Scope) -> Caller | None:
    """Who the credentials of a request are, by the store; a wrong key is not made up for by a cookie."""
    headers = Headers(scope=scope)
    address = client_address(scope)
    authorization = headers.get("authorization")
    if authorization is not None:
        scheme, _, secret = authorization.partition(" ")
        is_bearer = scheme.lower() == "bearer" and bool(secret.strip())
        return accounts.caller_of_key(secret.strip(), address) if is_bearer else None
    token = session_token(headers)
    return None if token is None else accounts.caller_of_session(token, address)


def _check_role(scope: Scope, caller: Caller | None) -> None:
    permission = needed(scope["method"], scope["path"])
    if caller is not None and permission is not None and not caller.may(permission):
        raise Forbidden(refusal(caller.role, permission))


def _is_known(scope: Scope) -> bool:
    if scope["method"] == "OPTIONS":  # the router would tell the methods of one route of several
        return False
    return _is_open(scope) or needed(scope["method"], scope["path"]) is not None


def _nothing(scope: Scope) -> Response:
    """An operation that the table of permissions does not have is not served, whatever routes there are."""
    path = scope["path"]
    allowed = methods(path)
    if allowed:
        detail, headers = f"{scope['method']} is not possible here", {"Allow": ", ".join(allowed)}
        return problem(HTTPStatus.METHOD_NOT_ALLOWED, detail, path, headers=headers)
    return problem(HTTPStatus.NOT_FOUND, f"there is nothing at {path[:200]}", path)


def _is_open(scope: Scope) -> bool:
    return f"{scope['method']} {scope['path']}" in OPEN


def _check_path(scope: Scope) -> None:
    if "\0" in scope["path"]:  # Postgres cannot even be asked for it
        raise NotFound("no name has a NUL character")


class Turns:
    """So many requests of a tenant at once: one that sends more gets 429, and nobody else waits for it.

    Live views are counted for themselves: they last.
    """

    def __init__(self, app: ASGIApp, requests: RequestsUnderWay) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count requests of known callers."""
        caller = scope.get("state", {}).get("caller") if scope["type"] == "http" else None
        if caller is None or scope["path"].endswith("/stream"):
            await self._app(scope, receive, send)
            return
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self._requests.one(caller))
            except Refused as refusal:
                await of_refusal(refusal, scope)(scope, receive, send)
                return
            await self._app(scope, receive, send)


class SecurityHeaders:
    """Headers of every answer, and the count of answers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Add the headers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        began = monotonic()

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                headers["X-Frame-Options"] = "DENY"
                headers["Referrer-Policy"] = "same-origin"
                headers["Content-Security-Policy"] = _POLICY
                headers.setdefault("Cache-Control", _cache_control(scope["path"]))
                ROUTE_SECONDS.labels(_known(scope["method"]), _route(scope)).observe(monotonic() - began)
                status = HTTPStatus(message["status"])
                REQUESTS.labels(_known(scope["method"]), str(int(status))).inc()
            await send(message)

        await self._app(scope, receive, add)


def _route(scope: Scope) -> str:
    """The template of the route that answers; never the path, which has ids and whatever clients send."""
    template = getattr(scope.get("route"), "path", None)
    if isinstance(template, str):
        return template
    return _REFUSED if scope["path"].startswith("/v1") else _PAGES


def _cache_control(path: str) -> str:
    if path.startswith("/v1"):
        return "no-store"
    # The build puts a hash into the names of assets; the page that names them must be looked up anew.
    return "public, max-age=31536000, immutable" if path.startswith("/assets/") else "no-cache"


def _known(method: str) -> str:
    """Clients choose the method: a label only for those that exist."""
    return method if method in (*READS, "POST", "PUT", "PATCH", "DELETE") else "other"


class BodyLimit:
    """Answers 413 to bodies that are too large, whether they say so first or not.

    `strangers_bytes_max` is for requests without a known caller: who logs in has little to say.
    """

    def __init__(self, app: ASGIApp, bytes_max: int, strangers_bytes_max: int) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._strangers_bytes_max = strangers_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what is received."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_known = scope.get("state", {}).get("caller") is not None
        bytes_max = self._bytes_max if is_known else self._strangers_bytes_max
        detail = f"the body may have at most {bytes_max} bytes"
        told = Headers(scope=scope).get("content-length", "")
        if told.isdecimal() and int(told) > bytes_max:
            await problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail, scope["path"])(scope, receive, send)
            return
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > bytes_max:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, detail)
            return message

        await self._app(scope, counted, send)
