"""The deployment's internal HTTP: JSON messages of `contracts`, one shared secret as bearer token."""

import hmac
from collections.abc import Callable
from typing import Any, Final, TypeVar

import httpx
import msgspec

from runtime.http_limits import HttpLimits
from runtime.metrics import READY_PATH
from runtime.trusted import verify_of

T = TypeVar("T")
INTERNAL_LIMITS: Final = HttpLimits(
    port="internal",
    head_bytes_max=16 * 1024,
    line_bytes_max=8 * 1024,
    body_bytes_max=17 * 1024 * 1024,
    connections_max=4_096,
    connections_per_address_max=2_048,
    requests_max=3_072,
)
"""All processes of a machine are at one address, with some connections each and long polls among them."""


class InternalError(Exception):
    """An internal call failed; `status` is 0 when no answer came, and `body` the answer's."""

    def __init__(self, status: int, detail: str, body: bytes = b"") -> None:
        super().__init__(f"{detail} (status {status})" if status else detail)
        self.status = status
        self.detail = detail
        self.body = body


class InternalClient:
    """Calls of one base URL, which may change from call to call, over kept-alive connections."""

    def __init__(
        self,
        base_url: str | Callable[[], str],
        secret: str,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._base_url = base_url
        self._http = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {secret}"},
            transport=transport,
            trust_env=False,
            verify=verify_of(base_url) if isinstance(base_url, str) else True,
        )

    async def post(self, path: str, message: msgspec.Struct, answer: type[T], *, timeout_s: float = 5.0) -> T:
        """POST a message and decode the answer strictly. Raises: InternalError."""
        return await self._call("POST", path, msgspec.json.encode(message), answer, timeout_s, None)

    async def get(
        self, path: str, answer: type[T], *, params: dict[str, Any] | None = None, timeout_s: float = 5.0
    ) -> T:
        """GET and decode the answer strictly. Raises: InternalError."""
        return await self._call("GET", path, None, answer, timeout_s, params)

    async def _call(
        self, method: str, path: str, body: bytes | None, answer: type[T], timeout_s: float, params: Any
    ) -> T:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        url = (self._base_url if isinstance(self._base_url, str) else self._base_url()) + path
        try:
            response = await self._http.request(
                method, url, content=body, headers=headers, params=params, timeout=timeout_s
            )
        except httpx.HTTPError as error:
            raise InternalError(0, f"{method} {path}: {type(error).__name__} {error}") from error
        if response.status_code >= 300:
            raise InternalError(
                response.status_code, f"{method} {path}: {response.text[:500]}", response.content
            )
        try:
            return msgspec.json.decode(response.content, type=answer)
        except msgspec.MsgspecError as error:
            raise InternalError(
                response.status_code, f"{method} {path}: unexpected answer: {error}"
            ) from error

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()


class BearerSecret:
    """ASGI middleware: requests without the deployment's secret get 401."""

    def __init__(self, app: Any, secret: str) -> None:
        self._app = app
        self._expected = f"Bearer {secret}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass authenticated requests on; lifespan events always."""
        if scope["type"] != "lifespan":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                await _refuse(send)
                return
        await self._app(scope, receive, send)


class BesideReady:
    """ASGI: `/readyz` asks for no secret and tells none. 200, or 503 and why the process does not serve."""

    def __init__(self, app: Any, unready: Callable[[], str | None]) -> None:
        self._app = app
        self._unready = unready

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer or pass on."""
        if scope["type"] != "http" or scope["path"] != READY_PATH:
            await self._app(scope, receive, send)
            return
        reason = self._unready()
        body = f"{reason or 'ready'}\n".encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        status = 200 if reason is None else 503
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


async def _refuse(send: Any) -> None:
    body = b'{"title":"Unauthorized","status":401,"detail":"the deployment secret is missing or wrong"}'
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"www-authenticate", b"Bearer"),
        (b"connection", b"close"),  # a stranger's connection is not kept
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})
