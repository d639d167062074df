"""Each request has an id: the caller's own or a drawn one; in answers, problems, the log and traces."""

import re
import secrets
from typing import Final

from opentelemetry.trace import get_current_span
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, get_contextvars

HEADER: Final = "X-Request-Id"
_GIVEN: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_NAME: Final = "request_id"


def request_id() -> str | None:
    """The id of the request that this task answers."""
    found = get_contextvars().get(_NAME)
    return None if found is None else str(found)


class RequestIds:
    """The outermost but one: what fails is told with its id by `problems`, behind all middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Name the request. A name that does not look like one is not taken over into logs and answers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        own = given if _GIVEN.fullmatch(given) else secrets.token_hex(8)
        # Not taken back: each request has a task of its own, and what handles its failure asks later.
        bind_contextvars(**{_NAME: own})
        span = get_current_span()
        if span.is_recording():
            span.set_attribute("portico.request_id", own)
            bind_contextvars(trace_id=f"{span.get_span_context().trace_id:032x}")

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = own
            await send(message)

        await self._app(scope, receive, add)
