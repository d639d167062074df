"""The OpenAPI document: what FastAPI derives, plus problems, credentials and the quota messages."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from contracts.pipeline import JobStatus
from contracts.quota_view import QuotaOverview, QuotaView
from tenants.api.advice_models import AdviceOverview, AdviceView
from tenants.api.middleware import COOKIE
from tenants.api.models import Problem
from tenants.api.problems import MEDIA_TYPE
from tenants.api.usage_models import BillDetailView, BillList, BillOverview, UsageView

_MESSAGES: Final = (
    QuotaView,
    QuotaOverview,
    JobStatus,
    UsageView,
    BillList,
    BillDetailView,
    BillOverview,
    AdviceOverview,
    AdviceView,
)
_WRITES: Final = ("post", "put", "patch", "delete")
_ASKS_OTHERS: Final = ("/topics", "/groups", "/quota", "/usage", "/bills", "/advice")
"""Paths whose answers need a broker, the quota master or the pipeline's tables."""
_EXAMPLES: Final[dict[str, tuple[str, str]]] = {
    "400": ("Bad Request", "the body is not JSON: Expecting value"),
    "412": ("Precondition Failed", "'shop' has been changed since you read it: read it again"),
    "401": ("Not logged in", "log in, or send an API key as Authorization: Bearer KEY"),
    "403": ("Not allowed", "viewers may only read: use an owner's key or login"),
    "404": ("Not found", "there is no instance 'shop'"),
    "409": ("Conflict", "an instance named 'shop' exists already: names are unique within a tenant"),
    "422": ("Invalid request", "produce_rate_bytes_per_s: rates under 100 kB/s are refused, not 5 kB/s"),
    "429": ("Too Many Requests", "your key or login may send 500 requests in 10 s: slow down"),
    "503": ("Unavailable", "the brokers do not answer now; data is safe. Try again in a few seconds"),
}


def openapi(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """The function FastAPI asks for the document; made once."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            app.openapi_schema = _complete(made)
        return app.openapi_schema

    return document


def _complete(document: dict[str, Any]) -> dict[str, Any]:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    schemas |= _problem_schemas()
    _, messages = msgspec.json.schema_components(list(_MESSAGES), ref_template="#/components/schemas/{name}")
    schemas |= messages
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "an API key"},
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": COOKIE,
            "description": "from POST /v1/session; writes also send its csrf_token as X-CSRF-Token",
        },
    }
    document["security"] = [{"key": []}, {"session": []}]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _add_problems(path, method, operation)
    return document


def _problem_schemas() -> dict[str, Any]:
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    nested: dict[str, Any] = schema.pop("$defs", {})
    return {"Problem": schema, **nested}


def _add_problems(path: str, method: str, operation: dict[str, Any]) -> None:
    statuses = {"401", "422"}
    if method in _WRITES:
        statuses |= {"403", "409"}
        if "requestBody" in operation:
            statuses.add("400")
    if "{" in path:
        statuses.add("404")
    if any(one.get("name") == "if-match" for one in operation.get("parameters", ())):
        statuses.add("412")
    statuses.add("429")
    if any(word in path for word in _ASKS_OTHERS) or path == "/v1/instances":
        statuses.add("503")
    for status in sorted(statuses):
        title, detail = _EXAMPLES[status]
        example = {
            "type": "urn:portico:problem:" + title.lower().replace(" ", "-"),
            "title": title,
            "status": int(status),
            "detail": detail,
            "instance": path,
        }
        operation.setdefault("responses", {})[status] = {
            "description": title,
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}},
        }
