"""The head of a request, read and checked for everything but its signature. Pure."""

import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Final, NamedTuple

from tenants.ckafka.request.errors import ApiError, Code
from tenants.ckafka.request.signature import MUST_SIGN, UNSIGNED_PAYLOAD, Authorization, parse_authorization

_DIGITS: Final = re.compile(r"[0-9]{1,11}\Z")
_ONCE: Final = ("authorization", "content-type", "host")
"""Beside x-tc-*: two of them would leave open which one was meant and signed."""
_JSON: Final = "application/json"


class Head(NamedTuple):
    """What the headers say."""

    method: str
    query: str
    headers: Mapping[str, str]
    """Headers by lower-case name, without space around the values."""
    authorization: Authorization
    timestamp_s: int
    action: str
    version: str
    region: str
    signs_payload: bool


def head_of(scope: MutableMapping[str, Any]) -> Head:
    """Raises: ApiError."""
    headers = _headers(scope["headers"])
    if scope["method"] != "POST":
        raise ApiError(Code.UNSUPPORTED_PROTOCOL, "send POST with a JSON body")
    action = _required(headers, "X-TC-Action")
    version = _required(headers, "X-TC-Version")
    timestamp = _required(headers, "X-TC-Timestamp")
    if _DIGITS.match(timestamp) is None:
        raise ApiError(Code.INVALID_PARAMETER_VALUE, "X-TC-Timestamp: must be seconds since 1970")
    said = parse_authorization(headers.get("authorization", ""))
    if said is None:
        raise ApiError(Code.INVALID_AUTHORIZATION, "Authorization is not one of TC3-HMAC-SHA256")
    unsigned = [name for name in MUST_SIGN if name not in said.signed_headers]
    absent = [name for name in said.signed_headers if name not in headers]
    if unsigned or absent or len(set(said.signed_headers)) < len(said.signed_headers):
        raise ApiError(
            Code.INVALID_AUTHORIZATION, "SignedHeaders must name content-type, host and headers that are sent"
        )
    if headers.get("x-tc-token"):
        raise ApiError(Code.TOKEN_FAILURE, "there are no temporary credentials here: leave X-TC-Token out")
    if headers["content-type"].partition(";")[0].strip().lower() != _JSON:
        raise ApiError(Code.UNSUPPORTED_PROTOCOL, f"the body must be JSON, with Content-Type: {_JSON}")
    return Head(
        method=scope["method"],
        query=scope.get("query_string", b"").decode("latin-1"),
        headers=headers,
        authorization=said,
        timestamp_s=int(timestamp),
        action=action,
        version=version,
        region=headers.get("x-tc-region", ""),
        signs_payload=headers.get("x-tc-content-sha256") != UNSIGNED_PAYLOAD,
    )


def _headers(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name_bytes, value in raw:
        name = name_bytes.decode("latin-1").lower()
        if name in found and (name in _ONCE or name.startswith("x-tc-")):
            raise ApiError(Code.INVALID_PARAMETER, f"header {name[:80]} is there twice")
        found[name] = value.decode("latin-1").strip()
    return found


def _required(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name.lower(), "")
    if not value:
        raise ApiError(Code.MISSING_PARAMETER, f"header {name} is required")
    return value
