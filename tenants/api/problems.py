"""Every refusal as RFC 9457 problem details."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Scope

from runtime.logs import get_logger
from tenants.api.request_ids import HEADER, request_id
from tenants.rules.errors import (
    Conflict,
    Exists,
    Forbidden,
    Invalid,
    LimitReached,
    NotFound,
    Refused,
    Stale,
    TooMany,
    Unauthenticated,
    Unavailable,
)
from tenants.store.engine import StoreFault

_log = get_logger(__name__)
MEDIA_TYPE: Final = "application/problem+json"
STATUS_OF: Final[dict[type[Refused], HTTPStatus]] = {
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    Exists: HTTPStatus.CONFLICT,
    LimitReached: HTTPStatus.CONFLICT,
    Stale: HTTPStatus.PRECONDITION_FAILED,
    Unauthenticated: HTTPStatus.UNAUTHORIZED,
    Forbidden: HTTPStatus.FORBIDDEN,
    TooMany: HTTPStatus.TOO_MANY_REQUESTS,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}
_TITLES: Final = {
    HTTPStatus.UNPROCESSABLE_ENTITY: "Invalid request",
    HTTPStatus.NOT_FOUND: "Not found",
    HTTPStatus.UNAUTHORIZED: "Not logged in",
    HTTPStatus.FORBIDDEN: "Not allowed",
    HTTPStatus.SERVICE_UNAVAILABLE: "Unavailable",
}
NO_JSON: Final = "send a JSON object, with Content-Type: application/json"
_UNFIT: Final = "Does not fit"
_INVALID: Final = "some fields are not right: see errors"


def problem(
    status: int,
    detail: str,
    path: str,
    *,
    errors: Sequence[Mapping[str, str | int]] | None = None,
    headers: Mapping[str, str] | None = None,
    title: str | None = None,
) -> Response:
    """A response with problem details."""
    known = HTTPStatus(status)
    title = title or _TITLES.get(known, known.phrase)
    body: dict[str, Any] = {
        "type": "urn:portico:problem:" + title.lower().replace(" ", "-"),
        "title": title,
        "status": status,
        "detail": _text(detail),
        "instance": _text(path),
    }
    told = dict(headers or {})
    if (own := request_id()) is not None:
        body["request_id"] = told[HEADER] = own
    if errors is not None:
        body["errors"] = [
            {name: _text(value) if isinstance(value, str) else value for name, value in one.items()}
            for one in errors
        ]
    return Response(msgspec.json.encode(body), status, media_type=MEDIA_TYPE, headers=told)


def _text(told: str) -> str:
    """What may stand in an answer: JSON can escape halves of characters, of which no UTF-8 is made."""
    return told.encode(errors="replace").decode()


def of_refusal(refusal: Refused, scope: Scope) -> Response:
    """The problem of a use case's refusal."""
    path = scope["path"]
    if isinstance(refusal, StoreFault):
        return _no_store(refusal, path)
    if isinstance(refusal, Invalid):
        return _of_fields(refusal, path)
    status = STATUS_OF[type(refusal)]
    if isinstance(refusal, LimitReached):
        return problem(status, refusal.detail, path, errors=_numbers(refusal), title="Limit reached")
    headers = {}
    if isinstance(refusal, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(refusal, TooMany):
        headers["Retry-After"] = str(refusal.retry_after_s)
    if isinstance(refusal, Unavailable):
        headers["Retry-After"] = "2"
    return problem(status, refusal.detail, path, headers=headers)


def _of_fields(refusal: Invalid, path: str) -> Response:
    """422 is for what the document says, and for nothing else: what no schema can say is a conflict, field by
    field."""
    errors = [{"field": fault.field, "message": fault.message} for fault in refusal.faults]
    if any(fault.is_said for fault in refusal.faults):
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, _first(errors), path, errors=errors)
    return problem(HTTPStatus.CONFLICT, _first(errors), path, errors=errors, title=_UNFIT)


def _numbers(refusal: LimitReached) -> list[dict[str, str | int]]:
    found: list[dict[str, str | int]] = []
    for one, sentence in zip(refusal.excesses, refusal.sentences, strict=True):
        found.append({"field": one.field, "message": sentence, "asked": one.asked})
        if refusal.is_told:
            found[-1] |= {"ceiling": one.ceiling, "taken": one.sold}
    return found


def _first(errors: Sequence[Mapping[str, str]]) -> str:
    """People read `detail` first: one fault is told there in full."""
    if len(errors) == 1:
        return f"{errors[0]['field']}: {errors[0]['message']}" if errors[0]["field"] else errors[0]["message"]
    return _INVALID


def _no_store(error: StoreFault, path: str) -> Response:
    """The problem of a database that does not work: full disk, lost connection."""
    _log.error("the console's database does not work", path=path, error=error.reason)
    headers = {"Retry-After": "5"}
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, error.detail, path, headers=headers)


def install(app: FastAPI) -> None:
    """Have every error of an application answered as a problem."""

    @app.exception_handler(Refused)
    async def _refused(request: Request, error: Refused) -> Response:
        return of_refusal(error, request.scope)

    @app.exception_handler(RequestValidationError)
    async def _malformed(request: Request, error: RequestValidationError) -> Response:
        if isinstance(error.body, bytes):
            return problem(415, NO_JSON, request.url.path, headers={"Accept": "application/json"})
        errors = [_field_fault(one) for one in error.errors()]
        is_json = not any(one["type"] == "json_invalid" for one in error.errors())
        return problem(422 if is_json else 400, _first(errors), request.url.path, errors=errors)

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        return problem(error.status_code, _sentence(error, request), request.url.path, headers=error.headers)

    @app.exception_handler(Exception)
    async def _failed(request: Request, error: Exception) -> Response:
        _log.error("request failed", path=request.url.path, method=request.method, exc_info=error)
        return problem(500, "something went wrong here; it has been logged", request.url.path)


def _sentence(error: HTTPException, request: Request) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return f"there is nothing at {request.url.path[:200]}"
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return f"{request.method} is not possible here"
    return str(error.detail)


def _field_fault(error: Mapping[str, Any]) -> dict[str, str]:
    place = [str(part) for part in error["loc"]]
    if place and place[0] in ("body", "query", "path", "header"):
        place = place[1:]
    kind = str(error["type"])
    if kind == "extra_forbidden":
        return {"field": ".".join(place), "message": "there is no such field"}
    if kind == "json_invalid":
        return {"field": "", "message": f"the body is not JSON: {error.get('ctx', {}).get('error', '')}"}
    if kind == "model_attributes_type":
        return {"field": ".".join(place), "message": "must be an object" if place else "send a JSON object"}
    if kind == "missing":
        return {"field": ".".join(place), "message": "is required"}
    message = str(error["msg"])
    return {"field": ".".join(place), "message": message[:1].lower() + message[1:]}
