"""Idempotency-Key: a POST that is sent again gets the answer of the first, marked, and does nothing."""

import asyncio
import hashlib
import re
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contracts.shapes import matching
from tenants.api.problems import of_refusal, problem
from tenants.rules.model import Caller
from tenants.store.engine import StoreFault
from tenants.store.idempotency import Known, claimed
from tenants.usecases.idempotency import Begun, Idempotency

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotency-Replayed"
_LETTERS: Final = "[!#-~]{1,255}"
GIVEN_SHAPE: Final = f'^({_LETTERS}|"{_LETTERS}")$'
"""What a key looks like; the draft has it in quotes."""
_GIVEN: Final = matching(GIVEN_SHAPE)
_KEPT_HEADERS: Final = ("content-type", "location", "operation-location", "etag", "retry-after")
_SECRETS: Final = re.compile(
    r"/v1/(webhooks|keys(/[^/]+/rotate)?|access-keys|invitations|members/[^/]+/reset-password|instances/[^/]+/users(/[^/]+/password)?)"
)
"""Paths whose answers hold a secret, which is stored nowhere."""
_SHOWN_AT: Final = {"/v1/instances": "/v1/instances/"}
"""Where what was made by a POST is shown, by its id."""
_WRONG: Final = "Idempotency-Key is 1 to 255 printable characters without spaces, such as a UUID"
_OTHER: Final = "this Idempotency-Key came with another request before: draw a new key for each"
_RUNNING: Final = "a request with this Idempotency-Key is being carried out: send it again in a second"
_SECRET: Final = (
    "this was carried out before ({subject}), and its answer, which held a secret, is kept nowhere: "
    "revoke what was made, and make another with a new Idempotency-Key"
)
_LOST: Final = "this was carried out before ({subject}), and its answer is not kept: read what there is now"


class IdempotencyKeys:
    """The innermost middleware: callers are known, and their requests counted and bounded."""

    def __init__(self, app: ASGIApp, keys: Idempotency) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Nothing is remembered of requests other than POSTs with a key."""
        caller: Caller | None = scope.get("state", {}).get("caller") if scope["type"] == "http" else None
        if caller is None or scope["method"] != "POST" or HEADER not in Headers(scope=scope):
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope)[HEADER].strip()
        if _GIVEN.match(given) is None:
            await problem(HTTPStatus.BAD_REQUEST, _WRONG, scope["path"])(scope, receive, send)
            return
        try:
            body = await _whole(receive)
            fingerprint = _fingerprint(given.strip('"'), scope, body)
            begun = await asyncio.to_thread(self._keys.begin, caller, given.strip('"'), fingerprint)
        except HTTPException as error:  # the body is too large
            await problem(error.status_code, str(error.detail), scope["path"])(scope, receive, send)
            return
        except StoreFault as fault:
            await of_refusal(fault, scope)(scope, receive, send)
            return
        if isinstance(begun, Known):
            await _replay(begun, fingerprint, scope, receive, send)
        elif begun.earlier is not None:
            await self._show(begun.earlier, scope, receive, send)
        else:
            await self._carry_out(begun, scope, _Sent(body, receive), send)

    async def _carry_out(self, begun: Begun, scope: Scope, receive: Receive, send: Send) -> None:
        """The answer is kept before it is sent: who does not get it finds it."""
        answered = _Answered()
        context = claimed.set(begun.claim)
        try:
            await self._app(scope, receive, answered)
        except BaseException:
            await asyncio.shield(self._end(begun, 500, {}, None))
            raise
        finally:
            claimed.reset(context)
        kept = {name: value for name, value in answered.headers.items() if name in _KEPT_HEADERS}
        body = None if _SECRETS.fullmatch(scope["path"]) else answered.body
        await self._end(begun, answered.status, kept, body)
        for message in answered.messages:
            await send(message)

    async def _end(self, begun: Begun, status: int, headers: dict[str, str], body: bytes | None) -> None:
        try:
            await asyncio.to_thread(self._keys.end, begun.claim, status, headers, body)
        except StoreFault:  # what was done is marked: who sends it again is told so
            return

    async def _show(self, subject: str, scope: Scope, receive: Receive, send: Send) -> None:
        """It was done by a process that died before it answered: the thing as it is now."""
        place = _SHOWN_AT.get(scope["path"])
        if place is None:
            await _gone(subject, scope, receive, send)
            return
        path = place + subject
        told = _marked(send, HTTPStatus.CREATED)
        await self._app({**scope, "method": "GET", "path": path, "raw_path": path.encode()}, receive, told)


class _Answered:
    """What the application sends, kept until its end."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def __call__(self, message: Message) -> None:
        """Send, as ASGI has it."""
        self.messages.append(message)

    @property
    def status(self) -> int:
        """The answer's status."""
        return int(self.messages[0]["status"]) if self.messages else 500

    @property
    def headers(self) -> Headers:
        """The answer's headers."""
        return Headers(raw=self.messages[0]["headers"] if self.messages else [])

    @property
    def body(self) -> bytes:
        """The answer's body."""
        return b"".join(message.get("body", b"") for message in self.messages[1:])


class _Sent:
    """A body that was read already, as an ASGI `receive`; then what else comes."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        """The next message."""
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _whole(receive: Receive) -> bytes:
    parts: list[bytes] = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _fingerprint(key: str, scope: Scope, body: bytes) -> str:
    """A digest of what is asked: path, query and body. The key, which is kept nowhere, is in it: whoever has
    the store finds no password of a body by trying."""
    asked = (key.encode(), scope["path"].encode(), scope["query_string"], body)
    return hashlib.sha256(b"".join(len(part).to_bytes(8) + part for part in asked)).hexdigest()


async def _replay(known: Known, fingerprint: str, scope: Scope, receive: Receive, send: Send) -> None:
    path = scope["path"]
    if known.fingerprint != fingerprint:
        answer = problem(HTTPStatus.CONFLICT, _OTHER, path, title="Idempotency key reused")
        await answer(scope, receive, send)
    elif known.status is None:
        answer = problem(
            HTTPStatus.CONFLICT, _RUNNING, path, headers={"Retry-After": "1"}, title="Request under way"
        )
        await answer(scope, receive, send)
    elif known.body is None:
        await _gone(known.subject or "", scope, receive, send)
    else:
        body = known.body.encode()
        headers = known.headers | {"content-length": str(len(body)), REPLAYED.lower(): "true"}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": known.status, "headers": raw})
        await send({"type": "http.response.body", "body": body})


async def _gone(subject: str, scope: Scope, receive: Receive, send: Send) -> None:
    sentence = _SECRET if _SECRETS.fullmatch(scope["path"]) else _LOST
    detail = sentence.format(subject=subject)
    answer = problem(HTTPStatus.CONFLICT, detail, scope["path"], headers={REPLAYED: "true"})
    await answer(scope, receive, send)


def _marked(send: Send, status: HTTPStatus) -> Send:
    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message)[REPLAYED] = "true"
            if message["status"] == HTTPStatus.OK:
                message = {**message, "status": int(status)}
        await send(message)

    return told
