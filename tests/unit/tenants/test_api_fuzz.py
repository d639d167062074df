"""Whatever is sent, the API answers with its own words: never a 500, always problem details."""

import datetime as dt
import json
import re
import string
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contracts.pipeline import JobStatus
from tenants.app import create_console_app
from tenants.console import Console

from . import metered
from .conftest import OPERATOR_KEY, ORDER
from .delta_tables import write

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(["10.0.0.0/8", "shop", "*", "\x00", "i00000000000", "é" * 300])
)
_NAMES = st.sampled_from(
    sorted(
        {*ORDER, "limits", "partitions_max", "cidrs", "add", "remove", "allow_all", "configs", "partitions"}
        | {"partition", "before_offset", "retention.ms", "user", "password", "role", "name"}
        | set(JobStatus.__struct_fields__)
    )
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_NAMES | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)
_PARTS = st.sampled_from(
    ["shop", "absent", "i00000000000", "x y", "é", "\x00", "%", "..", "t", "*", "2026-10"]
) | st.text(string.printable, min_size=1, max_size=8)
_QUERY_NAMES = [
    "limit",
    "cursor",
    "tenant",
    "seconds",
    "job",
    "state",
    "from",
    "to",
    "resolution",
    "format",
    "month",
]
_QUERY_VALUES = (
    ["", "0", "-1", "9" * 30, "*", "absent", "W10", "WyJcdWQ4MDAiXQ", "WzFlOTk5XQ", "[]", "\x00"],
    ["2026-10", "2026-10-01", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "5m", "day", "csv"],
)
_QUERIES = st.dictionaries(
    st.sampled_from(_QUERY_NAMES),
    st.sampled_from([each for some in _QUERY_VALUES for each in some]) | st.text(max_size=5),
    max_size=2,
)


@pytest.fixture
def routes(plane: Console) -> list[tuple[str, str]]:
    document = create_console_app(plane).openapi()
    return [
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
        if not path.endswith("/stream") and path != "/v1/session" and "password" not in path
    ]


@pytest.fixture
async def ask(plane: Console, tables: Path) -> AsyncIterator[Callable[..., object]]:
    transport = httpx.ASGITransport(app=create_console_app(plane), raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {OPERATOR_KEY}", "Content-Type": "application/json"}
    async with httpx.AsyncClient(transport=transport, base_url="http://c", headers=headers) as client:
        made = (await client.post("/v1/instances", json=ORDER)).json()
        _meter(tables, made["id"])
        yield client.request


def _meter(tables: Path, instance_id: str) -> None:
    at = dt.datetime(2026, 10, 1, tzinfo=dt.UTC)
    write(tables, "usage_5m", [metered.slot(instance_id, at, 1)], by="day")
    write(tables, "usage_hour", [metered.hour(instance_id, at, 1)], by="day")
    write(tables, "bill", [metered.bill(instance_id)], by="month")
    write(tables, "advice", [metered.advice(instance_id, at.date())], by="run_date")


@settings(
    max_examples=160,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
async def test_any_request_gets_an_answer(
    data: st.DataObject, routes: list[tuple[str, str]], ask: Callable[..., object]
) -> None:
    method, path = data.draw(st.sampled_from(routes))
    filled = re.sub(r"\{[^}]+\}", lambda _: _quoted(data.draw(_PARTS)), path)
    body = json.dumps(data.draw(_VALUES)).encode() if method in ("POST", "PUT", "PATCH") else None
    answer = await ask(method, filled, content=body, params=data.draw(_QUERIES))  # type: ignore[misc]
    assert answer.status_code != 500, (method, filled, body, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]


async def test_a_name_with_a_nul_is_nobodys(
    routes: list[tuple[str, str]], ask: Callable[..., object]
) -> None:
    """Postgres takes no such text, not even to look for it."""
    named = [(method, path) for method, path in routes if "{" in path]
    assert len(named) > 30
    for method, path in named:
        answer = await ask(method, re.sub(r"\{[^}]+\}", "%00", path), json={})  # type: ignore[misc]
        assert answer.status_code == 404, (method, path, answer.text)


def _quoted(part: str) -> str:
    return "".join(f"%{byte:02x}" for byte in part.encode())
