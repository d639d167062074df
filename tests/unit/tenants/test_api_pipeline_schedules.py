"""Schedules of the pipeline by the API: operators set them, a runner is told what is due."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenants.console import Console
from tests.unit.tenants.conftest import Caller

LIST = "pipeline/schedules"
METER = {"job": "meter", "cron": "* * * * *"}
ME = {"runner": "runner-1"}


async def _one(operator: Caller, name: str) -> dict[str, Any]:
    items = (await operator("GET", LIST)).json()["items"]
    return next(each for each in items if each["name"] == name)


def _later(plane: Console, monkeypatch: pytest.MonkeyPatch, minutes: int) -> None:
    now_ms = round((datetime.now(UTC) + timedelta(minutes=minutes)).timestamp() * 1000)
    for module in ("tenants.api.pipeline_schedules", "tenants.usecases.pipeline_schedules"):
        monkeypatch.setattr(f"{module}.epoch_ms", lambda: now_ms)


async def test_a_schedule_from_its_making_to_its_end(
    operator: Caller, plane: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await operator("PUT", f"{LIST}/often", json=METER)
    assert made.status_code == 200, made.text
    assert (made.json()["due_at"], made.json()["last"], made.json()["paused"]) == (None, None, False)
    _later(plane, monkeypatch, 2)
    due = (await _one(operator, "often"))["due_at"]
    assert due is not None
    begun = await operator("PUT", f"{LIST}/often/last", json={"due_at": due, "state": "running", **ME})
    assert begun.json()["last"]["ended_at"] is None
    told = {"due_at": due, "state": "failed", "error": "Kafka: no brokers", **ME}
    ended = (await operator("PUT", f"{LIST}/often/last", json=told)).json()
    assert ended["due_at"] is None and ended["last"]["error"] == "Kafka: no brokers"
    refused = await operator("PUT", f"{LIST}/often/last", json={"due_at": due, "state": "running", **ME})
    assert refused.status_code == 409, "a second runner does not run it again"
    assert (await operator("DELETE", f"{LIST}/often")).status_code == 204
    assert (await operator("GET", LIST)).json()["items"] == []


async def test_one_that_is_asked_for_runs_though_it_is_paused(operator: Caller) -> None:
    await operator("PUT", f"{LIST}/meter", json={**METER, "paused": True})
    assert (await _one(operator, "meter"))["next_at"] is None
    asked = await operator("POST", f"{LIST}/meter/runs")
    assert asked.status_code == 202
    due = asked.json()["due_at"]
    assert due is not None
    await operator("PUT", f"{LIST}/meter/last", json={"due_at": due, "state": "running", **ME})
    await operator("PUT", f"{LIST}/meter/last", json={"due_at": due, "state": "succeeded", **ME})
    one = await _one(operator, "meter")
    assert one["due_at"] is None and one["last"]["state"] == "succeeded"


async def test_those_that_every_deployment_has_stay(operator: Caller) -> None:
    await operator("PUT", f"{LIST}/meter", json=METER)
    assert "pause it" in (await operator("DELETE", f"{LIST}/meter")).json()["detail"]
    other = await operator("PUT", f"{LIST}/meter", json={"job": "advise", "cron": "* * * * *"})
    assert other.json()["errors"] == [{"field": "job", "message": "of this one is 'meter'"}]


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("Up", METER, "name"),
        ("a", {**METER, "cron": "@daily"}, "cron"),
        ("a", {**METER, "instance_id": "iabc"}, "instance_id"),
        ("a", {"job": "load", "cron": "* * * * *"}, "instance_id"),
        ("a", {"job": "shell", "cron": "* * * * *"}, "job"),
        ("a", {**METER, "arguments": ["--spark-conf"]}, "arguments"),
    ],
)
async def test_what_is_refused(operator: Caller, name: str, body: dict[str, Any], field: str) -> None:
    answer = await operator("PUT", f"{LIST}/{name}", json=body)
    assert answer.status_code == 422, answer.text
    assert [each["field"] for each in answer.json()["errors"]] == [field]


@pytest.mark.parametrize("instance_id", ["none", "a\0b"])
async def test_an_instance_that_is_not_there_is_a_conflict(operator: Caller, instance_id: str) -> None:
    body = {"job": "load", "cron": "* * * * *", "instance_id": instance_id}
    answer = await operator("PUT", f"{LIST}/a", json=body)
    assert answer.status_code == 409
    assert [each["field"] for each in answer.json()["errors"]] == ["instance_id"]
