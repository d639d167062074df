"""Bodies, media types, methods and tags that nobody means well: each has its documented answer."""

import json
import re
from typing import Any, Final

import httpx
import pytest

from contracts.names import TOPIC_NAME_BYTES_MAX
from tenants.app import BODY_BYTES_MAX
from tests.openapi import KEPT

from .conftest import OPERATOR_KEY, Caller

DOCUMENT: Final[dict[str, Any]] = json.loads(KEPT.read_text())
KEY: Final = {"Authorization": f"Bearer {OPERATOR_KEY}"}
JSON: Final = {**KEY, "Content-Type": "application/json"}
NO_JSON: Final = (
    *(b"{", b"{}x", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 5_000, b'{"name":' + b"1" * 5_000 + b"}"),
)
NO_BODY: Final = (
    *(b"", b"null", b"[]", b"1", b'"x"', b"true", b'{"surely": 1}', b'{"\\u0000": 1}', b'{"\\ud800": 1}'),
    *(b'{"name": "\\ud800"}', b'{"configs": {"\\ud800": "x"}}', b'{"name": NaN}', b'{"limit": 1e400}'),
)
_GROUPS: Final = "/groups/{group}"


def _bodies() -> list[tuple[str, str, set[str]]]:
    return [
        (method, re.sub(r"\{\w+\}", "x", path).removeprefix("/v1/"), set(one["responses"]))
        for path, methods in DOCUMENT["paths"].items()
        for method, one in methods.items()
        if "requestBody" in one and path != "/v1/session"  # which says no more than that somebody is wrong
    ]


async def test_what_is_no_body_of_an_operation_is_refused_as_documented(client: httpx.AsyncClient) -> None:
    for method, path, documented in _bodies():
        for body in (*NO_JSON, *NO_BODY):
            answer = await client.request(method, f"/v1/{path}", content=body, headers=JSON)
            asked = (method, path, body[:30], answer.text[:300])
            assert str(answer.status_code) in documented, asked
            assert answer.status_code in (400, 403, 404, 409, 422) or not body or b"null" in body, asked
            if answer.status_code >= 400:
                assert answer.headers["content-type"] == "application/problem+json", asked


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/xml", "multipart/form-data", "application/jsonp", "garbage", ""]
)
async def test_another_media_type_is_told_which_is_taken(client: httpx.AsyncClient, kind: str) -> None:
    for method, path, documented in _bodies():
        headers = {**KEY, "Content-Type": kind}
        answer = await client.request(method, f"/v1/{path}", content=b"{}", headers=headers)
        assert answer.status_code in (404, 415), (method, path, answer.text)
        assert str(answer.status_code) in documented
        if answer.status_code == 415:
            assert answer.headers["accept"] == "application/json"


async def test_a_body_that_is_too_large_is_told_so_everywhere(client: httpx.AsyncClient) -> None:
    body = b'{"a": "' + b"x" * BODY_BYTES_MAX + b'"}'
    for method, path, documented in _bodies():
        answer = await client.request(method, f"/v1/{path}", content=body, headers=JSON)
        assert (answer.status_code, "413" in documented) == (413, True), (method, path)


async def test_a_head_is_what_a_get_is_without_its_body(operator: Caller, client: httpx.AsyncClient) -> None:
    made = await operator.order()
    for path, methods in DOCUMENT["paths"].items():
        place = re.sub(r"\{\w+\}", "x", path.replace("{instance}", str(made["id"])))
        if "get" not in methods or path.endswith("/stream"):
            continue
        asked, told = await client.get(place, headers=KEY), await client.head(place, headers=KEY)
        assert told.status_code == asked.status_code, path
        assert told.content == b"", path
        assert told.headers.get("content-type") == asked.headers.get("content-type"), path


@pytest.mark.parametrize("path", ["fleet/stream", "instances/{instance}/quota/stream"])
async def test_a_head_of_a_stream_ends(operator: Caller, client: httpx.AsyncClient, path: str) -> None:
    made = await operator.order()
    answer = await client.head(f"/v1/{path.format(instance=made['id'])}", headers=KEY)
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")


async def test_no_other_method_is_possible(client: httpx.AsyncClient) -> None:
    for path, methods in DOCUMENT["paths"].items():
        if _GROUPS in path:  # names of groups have slashes: what is done to one may be the name of another
            continue
        said = {method.upper() for method in methods} | ({"HEAD"} if "get" in methods else set())
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "XYZ"} - said:
            answer = await client.request(method, re.sub(r"\{\w+\}", "x", path), headers=KEY)
            assert answer.status_code == 405, (method, path)
            assert set(answer.headers["allow"].split(", ")) == said, (method, path)


# --- If-Match ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", ['"r1"', "garbage", "", '"', "W/", "\x7f", "*" * 5_000])
async def test_what_is_wrong_anyway_is_not_told_as_stale(
    operator: Caller, client: httpx.AsyncClient, tag: str
) -> None:
    made = await operator.order()
    headers = {**KEY, "If-Match": tag}
    place = f"/v1/instances/{made['id']}"
    for method, path, body, status in (
        ("PATCH", place, {"capacity_bytes": -1}, 422),
        ("PATCH", place, {"surely": 1}, 422),
        ("PATCH", "/v1/instances/absent", {"capacity_bytes": 2_000_000_000}, 404),
        ("PATCH", f"{place}?tenant={'x' * 65}", {}, 422),
        ("PATCH", "/v1/tenants/default/ceilings", {"instances": -1}, 422),
        ("PATCH", place, {"capacity_bytes": 2_000_000_000}, 412),
        ("GET", place, None, 200),
        ("GET", "/v1/tenants/default/ceilings", None, 200),
        ("POST", "/v1/instances", {}, 422),
    ):
        answer = await client.request(method, path, json=body, headers=headers)
        assert answer.status_code == status, (method, path, body, answer.text)


# --- what a query or a path may hold -----------------------------------------------------------------


async def test_the_longest_query_fits_a_line(operator: Caller, client: httpx.AsyncClient) -> None:
    """What the document admits in one query, escaped, is within what a line of a head may have."""
    from runtime.http_limits import HttpLimits

    escaped_max = 0
    for path, methods in DOCUMENT["paths"].items():
        for one in methods.values():
            sizes = [
                _letters_max(each) * (1 if "pattern" in json.dumps(each["schema"]) else 12)
                for each in one.get("parameters", ())
                if each["in"] in ("path", "query")
            ]
            escaped_max = max(escaped_max, len(path) + sum(sizes))
    assert TOPIC_NAME_BYTES_MAX < escaped_max < HttpLimits(port="public").line_bytes_max


def _letters_max(parameter: dict[str, Any]) -> int:
    """Letters of a parameter's name and value; of what has no bound of its own, some few."""
    kinds = [parameter["schema"], *parameter["schema"].get("anyOf", ())]
    return len(parameter["name"]) + max(int(kind.get("maxLength", 30)) for kind in kinds)
