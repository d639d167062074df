"""The OpenAPI document: what FastAPI derives, and messages, problems, credentials, descriptions, examples."""

from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

import contracts.advice
import contracts.pipeline
import contracts.quota_view
import tenants.api.advice_models
import tenants.api.quota_models
import tenants.api.series_models
import tenants.api.usage_models
import tenants.rules.usage_periods
import tenants.usecases.advice
from contracts.pipeline import JobStatus
from tenants.api import descriptions
from tenants.api.advice_models import AdviceOverview, AdviceView
from tenants.api.answers import CSV
from tenants.api.examples import example_of
from tenants.api.idempotency import GIVEN_SHAPE, HEADER
from tenants.api.middleware import COOKIE
from tenants.api.models import Problem
from tenants.api.problems import MEDIA_TYPE
from tenants.api.quota_models import InstanceQuota, InstanceQuotas
from tenants.api.series_models import MarkList, SeriesNames, SeriesView
from tenants.api.shapes import LONG_MAX
from tenants.api.usage_models import (
    BillDetailView,
    BillList,
    BillOverview,
    CostView,
    LimitCostView,
    UsageView,
)
from tenants.rules.permissions import OPEN, operations

_MESSAGES: Final = (
    InstanceQuota,
    InstanceQuotas,
    SeriesView,
    SeriesNames,
    MarkList,
    JobStatus,
    UsageView,
    BillList,
    BillDetailView,
    BillOverview,
    CostView,
    LimitCostView,
    AdviceOverview,
    AdviceView,
)
_SAID_IN: Final = (
    contracts.advice,
    contracts.pipeline,
    contracts.quota_view,
    tenants.rules.usage_periods,
    tenants.usecases.advice,
    tenants.api.quota_models,
    tenants.api.series_models,
    tenants.api.usage_models,
    tenants.api.advice_models,
)
"""Where the messages' fields have their docstrings."""
_OF_A_LINK: Final = ("/v1/invitation", "/v1/invitation/accept", "/v1/email-links")
_NOT_REMEMBERED: Final = ("/v1/session", "/v1/sign-in", "/v1/sign-in/answer", *_OF_A_LINK)
_MAY_BE_MISSING: Final = (
    "/v1/group-roles",
    "/v1/sign-in",
    "/v1/sign-in/answer",
    "/v1/session/links",
    *_OF_A_LINK,
)
"""Not found without a name in the path: a link, an identity provider, a tenant in the body."""
_SENT_AGAIN: Final = (
    "a new one for each request, the same when it is sent again: it is then done once, and "
    "answered again, with `Idempotency-Replayed: true`. Kept for 24 h, for the same key or login"
)
_IDEMPOTENCY_KEY: Final = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": _SENT_AGAIN,
    "schema": {"type": "string", "pattern": GIVEN_SHAPE, "description": _SENT_AGAIN},
    "example": "8e03978e-40d5-43dd-bc93-6894a57f9324",
}
_KEYS: Final[list[dict[str, list[str]]]] = [{"key": []}, {"session": []}]
_CREDENTIALS_OF: Final[dict[str, list[dict[str, list[str]]]]] = {one: [] for one in OPEN} | {
    "GET /v1/health": [{}, *_KEYS]
}
"""Operations that are asked without credentials; health tells more to who has some."""
_WRITES: Final = ("post", "put", "patch", "delete")
_TEXTS: Final = {
    CSV: "instance_id,name,month,state\r\niabcdefghijk,shop,2026-11,open\r\n",
    "text/event-stream": 'retry: 2000\n\ndata: {"at_ms": 1795000000000, "policy": "fair"}\n\n',
}
"""Examples of answers that are not JSON."""
_EXAMPLES: Final[dict[str, tuple[str, str]]] = {
    "400": ("Bad Request", "the body is not JSON: Expecting value"),
    "412": ("Precondition Failed", "'shop' has been changed since you read it: read it again"),
    "401": ("Not logged in", "log in, or send an API key as Authorization: Bearer KEY"),
    "403": (
        "Not allowed",
        "your role, viewer, may not do this: it needs 'audit', which these have: admin, operator, owner",
    ),
    "404": ("Not found", "there is no instance 'shop'"),
    "409": ("Conflict", "an instance named 'shop' exists already: names are unique within a tenant"),
    "415": ("Unsupported Media Type", "send a JSON object, with Content-Type: application/json"),
    "413": ("Request Entity Too Large", "the body may have at most 1048576 bytes"),
    "422": ("Invalid request", "produce_rate_bytes_per_s: rates under 100 kB/s are refused, not 5 kB/s"),
    "429": ("Too Many Requests", "your key or login may send 500 requests in 10 s: slow down"),
    "503": ("Unavailable", "the brokers do not answer now; data is safe. Try again in a few seconds"),
}


_SAID: Final = {
    "409": "What there is does not allow it; or a field is as documented and does not fit what there is, the "
    "clock or another field: `errors` says which",
    "412": "With `If-Match`, the `ETag` of what you have read: it has been changed since",
    "422": "It is not as documented: `errors` says which fields",
}
"""What statuses mean, where that is more than their names."""


def openapi(app: FastAPI, conditional: Collection[str]) -> Callable[[], dict[str, Any]]:
    """The function FastAPI asks for the document; made once. `conditional` are the names of operations that
    look at If-Match."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            app.openapi_schema = _complete(made, conditional)
        return app.openapi_schema

    return document


def _complete(document: dict[str, Any], conditional: Collection[str]) -> dict[str, Any]:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    schemas |= _problem_schemas()
    _, messages = msgspec.json.schema_components(list(_MESSAGES), ref_template="#/components/schemas/{name}")
    schemas |= msgspec.json.decode(msgspec.json.encode(messages))  # tuples are no JSON
    for name in messages:
        if name != JobStatus.__name__ and "properties" in schemas[name]:  # what is answered is whole
            schemas[name]["required"] = list(schemas[name]["properties"])
    components["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "an API key"},
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": COOKIE,
            "description": "from POST /v1/session; writes also send its csrf_token as X-CSRF-Token",
        },
    }
    document["security"] = _KEYS
    _make_whole(document)
    descriptions.describe(schemas, descriptions.docstrings(_SAID_IN))
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            permission = dict(operations()).get(f"{method.upper()} {path}")
            if permission is not None:
                operation["x-permission"] = permission.value
            if (allowed := _CREDENTIALS_OF.get(f"{method.upper()} {path}")) is not None:
                operation["security"] = allowed
            if method == "post" and path not in _NOT_REMEMBERED:
                operation.setdefault("parameters", []).append(_IDEMPOTENCY_KEY)
            _add_problems(path, method, operation, is_conditional=operation["operationId"] in conditional)
            _add_examples(operation, schemas)
    return document


def _make_whole(node: object) -> None:
    """Bounds as the whole numbers that they are: FastAPI has them as floats, of which the largest is 2^63."""
    if isinstance(node, list):
        for one in node:
            _make_whole(one)
    elif isinstance(node, dict):
        for name, value in node.items():
            if isinstance(value, float) and value.is_integer():
                node[name] = max(-LONG_MAX, min(int(value), LONG_MAX))
            else:
                _make_whole(value)


def _add_examples(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Examples of what is sent and of what is answered when all goes well."""
    contents = [one.get("content", {}) for one in operation["responses"].values()]
    contents.append(operation.get("requestBody", {}).get("content", {}))
    for content in contents:
        for media_type, found in content.items():
            if "example" in found:
                continue
            found["example"] = _TEXTS.get(media_type) or example_of(found["schema"], schemas)


def _problem_schemas() -> dict[str, Any]:
    schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    nested: dict[str, Any] = schema.pop("$defs", {})
    return {"Problem": schema, **nested}


def _add_problems(path: str, method: str, operation: dict[str, Any], *, is_conditional: bool) -> None:
    statuses = {"401", "403", "422", "429", "503"}
    named = {one["name"] for one in operation.get("parameters", ())}
    if method in _WRITES or named & {"cursor", "from"} or path.endswith(("}/quota", "/slowness")):
        statuses.add("409")
    if method in _WRITES and (method == "post" or "requestBody" in operation):
        statuses |= {"400", "413"}
    if "requestBody" in operation:
        statuses.add("415")
    if "{" in path or "tenant" in named or path in _MAY_BE_MISSING:
        statuses.add("404")
    if is_conditional:
        statuses.add("412")
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
            "description": _SAID.get(status, title),
            "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}},
        }
