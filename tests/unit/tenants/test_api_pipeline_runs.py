"""Pipeline jobs tell how they run; operators see it, and so does Prometheus."""

from functools import partial
from typing import Any

import httpx
import msgspec
import pytest
from starlette.applications import Starlette

from contracts.pipeline import JobStatus
from tenants.app import create_internal_routes
from tenants.console import Console
from tenants.rules import pipeline_runs

from .conftest import Caller

ID = "0b0a6f3e-5b1c-4a57-9f0a-3f6a2f9f4c11"
START_MS = 1_700_000_000_000


def _status(**changes: Any) -> dict[str, Any]:
    return {
        "id": ID,
        "job": "load",
        "subject": "shop orders",
        "state": "running",
        "started_at_ms": START_MS,
        "updated_at_ms": START_MS + 2000,
        "planned": 100,
        "done": 40,
        "figures": {"rows": 40, "lag_records": 60},
        **changes,
    }


async def _tell(operator: Caller, **changes: Any) -> dict[str, Any]:
    status = _status(**changes)
    answer = await operator("PUT", f"pipeline/jobs/{status['id']}", json=status)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def _id(number: int) -> str:
    return f"run-{number:05d}"


async def test_a_run_from_start_to_end(operator: Caller) -> None:
    first = await _tell(operator)
    assert (first["state"], first["done"], first["rate_per_s"]) == ("running", 40, 20.0)
    assert first["started_at"] == "2023-11-14T22:13:20Z"
    await _tell(operator, updated_at_ms=START_MS + 4000, done=100, state="succeeded")
    shown = (await operator("GET", f"pipeline/jobs/{ID}")).json()
    assert (shown["state"], shown["done"], shown["figures"]["rows"]) == ("succeeded", 100, 40)
    assert (await operator("GET", "pipeline/jobs")).json()["items"] == [shown]


async def test_late_and_repeated_messages_change_nothing(operator: Caller) -> None:
    await _tell(operator, updated_at_ms=START_MS + 4000, done=80)
    late = await _tell(operator, updated_at_ms=START_MS + 3000, done=60)
    assert late["done"] == 80
    again = await _tell(operator, updated_at_ms=START_MS + 4000, done=80)
    assert again["done"] == 80
    await _tell(operator, updated_at_ms=START_MS + 5000, done=90, state="failed", error="disk full")
    after = await _tell(operator, updated_at_ms=START_MS + 9000, done=100, state="running")
    assert (after["state"], after["done"], after["error"]) == ("failed", 90, "disk full")
    other_end = await _tell(operator, updated_at_ms=START_MS + 9000, state="succeeded")
    assert other_end["state"] == "failed"


async def test_a_silent_run_is_lost_until_it_tells_again(
    operator: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _tell(operator)
    monkeypatch.setattr(pipeline_runs, "LOST_AFTER_MS", 0)
    monkeypatch.setattr("tenants.store.pipeline_runs.LOST_AFTER_MS", 0)
    assert (await operator("GET", f"pipeline/jobs/{ID}")).json()["state"] == "lost"
    lost = (await operator("GET", "pipeline/jobs?state=lost")).json()["items"]
    assert [one["id"] for one in lost] == [ID]
    assert (await operator("GET", "pipeline/jobs?state=running")).json()["items"] == []
    monkeypatch.undo()
    assert (await operator("GET", "pipeline/jobs?state=lost")).json()["items"] == []
    assert (await _tell(operator))["state"] == "running"


async def test_pages_and_filters(operator: Caller) -> None:
    for number in range(5):
        job = "load" if number % 2 else "meter"
        await _tell(operator, id=_id(number), job=job, started_at_ms=START_MS + number)
    first = (await operator("GET", "pipeline/jobs?limit=3")).json()
    assert [one["id"] for one in first["items"]] == [_id(4), _id(3), _id(2)]
    rest = (await operator("GET", f"pipeline/jobs?limit=3&cursor={first['next_cursor']}")).json()
    assert [one["id"] for one in rest["items"]] == [_id(1), _id(0)]
    assert rest["next_cursor"] is None
    meters = (await operator("GET", "pipeline/jobs?job=meter&state=running")).json()["items"]
    assert [one["id"] for one in meters] == [_id(4), _id(2), _id(0)]
    assert (await operator("GET", "pipeline/jobs?job=absent")).json()["items"] == []
    assert (await operator("GET", "pipeline/jobs?state=sleeping")).status_code == 422
    assert (await operator("GET", "pipeline/jobs?cursor=WzFd")).status_code == 409


async def test_only_operators(operator: Caller) -> None:
    await _tell(operator)
    owner = await operator.tenant("acme")
    viewer = await operator.tenant("acme", "viewer")
    for caller in (owner, viewer):
        for method, path in (("GET", "pipeline/jobs"), ("GET", f"pipeline/jobs/{ID}")):
            assert (await caller(method, path)).status_code == 403
        assert (await caller("PUT", f"pipeline/jobs/{ID}", json=_status(done=99))).status_code == 403
    assert (await operator("GET", f"pipeline/jobs/{ID}")).json()["done"] == 40


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"planned": -1}, "planned"),
        ({"planned": 2**62 + 1}, "planned"),
        ({"done": "many"}, "done"),
        ({"state": "lost"}, "state"),
        ({"id": "x y z a b c d"}, "id"),
        ({"updated_at_ms": 2**61}, "updated_at_ms"),
        ({"figures": {f"f{number}": 1 for number in range(33)}}, "figures"),
        ({"figures": {"rows": -1}}, "figures"),
        ({"surprise": 1}, ""),
        ({"error": "x" * 2001}, "error"),
    ],
)
async def test_what_cannot_be_true_is_refused(operator: Caller, changes: dict[str, Any], field: str) -> None:
    answer = await operator("PUT", f"pipeline/jobs/{ID}", json=_status(**changes))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"].startswith(field)
    assert (await operator("GET", f"pipeline/jobs/{ID}")).status_code == 404


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"id": "another-run"}, "id"), ({"updated_at_ms": START_MS - 1}, "updated_at_ms")],
)
async def test_what_does_not_fit_is_a_conflict(operator: Caller, changes: dict[str, Any], field: str) -> None:
    answer = await operator("PUT", f"pipeline/jobs/{ID}", json=_status(**changes))
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (409, field)


async def test_hostile_bodies(operator: Caller) -> None:
    sent = {**operator._headers, "Content-Type": "application/json"}
    put = partial(operator._client.put, f"/v1/pipeline/jobs/{ID}")
    for body in (b"", b"{", b"\xff\xfe", b'{"id": "\\ud800"}', b'{"planned": NaN}', b"[" * 100_000):
        assert (await put(content=body, headers=sent)).status_code == 400, body[:20]
    assert (await put(content=b"[]", headers=sent)).status_code == 422
    for kind in ("text/plain", "application/xml", "application/jsonp"):
        assert (await put(content=b"{}", headers={**sent, "Content-Type": kind})).status_code == 415, kind
    told = await _tell(operator, subject="a\0b", figures={"n\0": 1})
    assert (told["subject"], told["figures"]) == ("a?b", {"n?": 1})


async def test_an_id_belongs_to_one_job(operator: Caller) -> None:
    await _tell(operator)
    answer = await operator("PUT", f"pipeline/jobs/{ID}", json=_status(job="meter"))
    assert (answer.status_code, answer.json()["detail"]) == (409, "job: this run is one of 'load'")


async def test_old_runs_are_forgotten_their_counts_are_not(
    operator: Caller, plane: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tenants.store.pipeline_runs.RUNS_KEPT", 3)
    for number in range(6):
        await _tell(operator, id=_id(number), started_at_ms=START_MS + number, state="succeeded")
    assert len((await operator("GET", "pipeline/jobs")).json()["items"]) == 3
    assert 'portico_pipeline_runs_total{end="succeeded",job="load"} 6.0' in await _metrics(plane)
    monkeypatch.setattr("tenants.store.pipeline_runs.JOBS_MAX", 2)
    for number, job in enumerate(("meter", "mirror")):
        await _tell(operator, id=_id(100 + number), job=job)
    assert [one.totals.job for one in plane.pipeline_runs.overview()] == ["meter", "mirror"]
    assert (await operator("GET", "pipeline/jobs?job=load")).json()["items"] == []


async def _metrics(plane: Console) -> str:
    transport = httpx.ASGITransport(app=Starlette(routes=create_internal_routes(plane)))
    async with httpx.AsyncClient(transport=transport, base_url="http://internal") as client:
        return (await client.get("/metrics")).text


async def test_metrics(operator: Caller, plane: Console) -> None:
    await _tell(operator)
    await _tell(operator, id=_id(1), done=5, planned=7, figures={"rows": 5})
    await _tell(operator, id=_id(2), job="meter", state="failed", error="no")
    await _tell(operator, id=_id(3), job="meter", state="succeeded")
    text = await _metrics(plane)
    for line in (
        'portico_pipeline_running{job="load"} 2.0',
        'portico_pipeline_lost{job="load"} 0.0',
        'portico_pipeline_planned{job="load"} 107.0',
        'portico_pipeline_done{job="load"} 45.0',
        'portico_pipeline_figure{job="load",name="rows"} 45.0',
        'portico_pipeline_figure{job="load",name="lag_records"} 60.0',
        'portico_pipeline_runs_total{end="failed",job="meter"} 1.0',
        'portico_pipeline_runs_total{end="succeeded",job="meter"} 1.0',
        'portico_pipeline_running{job="meter"} 0.0',
    ):
        assert line in text.splitlines()
    assert 'portico_pipeline_since_success_seconds{job="meter"}' in text
    assert 'portico_pipeline_since_success_seconds{job="load"}' not in text


async def test_what_the_jobs_send_is_what_is_documented(operator: Caller) -> None:
    document = (await operator("GET", "openapi.json")).json()
    put = document["paths"]["/v1/pipeline/jobs/{run}"]["put"]
    example = put["requestBody"]["content"]["application/json"]["example"]
    assert msgspec.convert(example, JobStatus).job == "load"
    assert set(document["components"]["schemas"]["JobStatus"]["properties"]) == set(
        JobStatus.__struct_fields__
    )


async def test_a_job_that_no_database_can_store_has_no_runs(operator: Caller) -> None:
    await _tell(operator)
    answer = await operator("GET", "pipeline/jobs", params={"job": "lo\0ad"})
    assert (answer.status_code, answer.json()["items"]) == (200, [])
