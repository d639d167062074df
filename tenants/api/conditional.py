"""If-None-Match: what the caller has already is not sent again (RFC 9110, 13.1.2)."""

from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_READS: Final = ("GET", "HEAD")
_OF_CONTENT: Final = (b"content-length", b"content-type", b"content-encoding")


def matches(asked: str, tag: str) -> bool:
    """Whether a list of tags has this one, weakly compared."""
    wanted = tag.removeprefix("W/")
    return any(one.strip().removeprefix("W/") in ("*", wanted) for one in asked.split(","))


class NotModified:
    """Answers 304 where a read's ETag is one that the caller names."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Look at the ETag of what is answered; the body of what matches is dropped."""
        is_read = scope["type"] == "http" and scope["method"] in _READS
        asked = Headers(scope=scope).get("if-none-match") if is_read else None
        if asked is None:
            await self._app(scope, receive, send)
            return
        is_known = False

        async def tell(message: Message) -> None:
            nonlocal is_known
            if message["type"] == "http.response.start":
                tag = Headers(raw=message["headers"]).get("etag")
                is_known = message["status"] == 200 and tag is not None and matches(asked, tag)
                if is_known:
                    kept = [one for one in message["headers"] if one[0].lower() not in _OF_CONTENT]
                    message = {**message, "status": 304, "headers": kept}
            elif is_known:
                if message.get("more_body", False):
                    return
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self._app(scope, receive, tell)
