"""The console's REST API as the reconciler uses it."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from runtime.trusted import verify_of

_TIMEOUT_S: Final = 30.0
_GONE: Final = ("deleted", "purging", "purged")
UNDER_WAY: Final = "RequestUnderWay"
"""The reason of a refusal because the same request is being carried out."""
_REASONS: Final = {
    HTTPStatus.UNAUTHORIZED: "KeyRefused",
    HTTPStatus.FORBIDDEN: "NotAllowed",
    HTTPStatus.NOT_FOUND: "NotFound",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid",
    HTTPStatus.BAD_REQUEST: "Invalid",
    HTTPStatus.TOO_MANY_REQUESTS: "TooManyRequests",
}


class Refused(Exception):  # noqa: N818 - an answer
    """The console did not do it."""

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.reason = _REASONS.get(HTTPStatus(status)) or title.title().replace(" ", "")
        """One word in CamelCase, as conditions have it."""


class Unreachable(Exception):  # noqa: N818 - a state of the network
    """Nobody answered, or not with sense: trying again helps."""


class Console:
    """Calls on behalf of one tenant after the other, with an operator's key."""

    def __init__(self, url: str, key: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=_TIMEOUT_S,
            trust_env=False,
            transport=transport,
            verify=verify_of(url),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        tenant: str,
        cursor: str | None = None,
        once: str | None = None,
    ) -> Any:
        """Call the API; an answer without content is None. With the same `once` it is carried out once.

        Raises: Refused, Unreachable.
        """
        try:
            answer = await self._http.request(
                method,
                f"/v1/{path}",
                json=None if body is None else dict(body),
                params={"tenant": tenant} | ({} if cursor is None else {"cursor": cursor}),
                headers={} if once is None else {"Idempotency-Key": once},
            )
        except httpx.HTTPError as error:
            raise Unreachable(f"the console does not answer: {type(error).__name__} {error}") from error
        if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Unreachable(f"the console answered {answer.status_code}: {_detail(answer)[1]}")
        if not answer.is_success:
            raise Refused(answer.status_code, *_detail(answer))
        return answer.json() if answer.content else None

    async def instance(self, instance_id: str, *, tenant: str) -> dict[str, Any] | None:
        """An instance of this tenant by id; None: it has none such. Raises: Refused, Unreachable."""
        found = await self._shown(path_of(instance_id), tenant)
        is_gone = found is None or found["tenant"] != tenant or found["state"] in _GONE
        return None if is_gone else found

    async def instance_named(self, name: str, *, tenant: str) -> dict[str, Any] | None:
        """An instance of this tenant by name. Raises: Refused, Unreachable."""
        cursor: str | None = None
        while True:
            page = await self.call("GET", "instances", tenant=tenant, cursor=cursor)
            for item in page["items"]:
                if item["name"] == name:
                    return dict(item)
            if not page.get("next_cursor"):
                return None
            cursor = str(page["next_cursor"])

    async def topic(self, instance_id: str, name: str, *, tenant: str) -> dict[str, Any] | None:
        """A topic. Raises: Refused, Unreachable."""
        return await self._shown(path_of(instance_id, name), tenant)

    async def _shown(self, path: str, tenant: str) -> dict[str, Any] | None:
        try:
            return dict(await self.call("GET", path, tenant=tenant))
        except Refused as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise


def path_of(instance_id: str, topic: str | None = None) -> str:
    """The path of an instance, or of one of its topics."""
    path = f"instances/{quote(instance_id, safe='')}"
    return path if topic is None else f"{path}/topics/{quote(topic, safe='')}"


def _detail(answer: httpx.Response) -> tuple[str, str]:
    try:
        problem = answer.json()
        return str(problem["title"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.reason_phrase or "Refused", answer.text[:200] or "no reason was given"
