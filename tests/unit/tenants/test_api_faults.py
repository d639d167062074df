"""Injected faults in the API: bounds, who may, what is told and written down, and the end by time."""

from typing import Any

import httpx
import pytest

from contracts.injected_faults import DURATION_S_MAX, FaultKind
from runtime.clock import epoch_ms
from tenants.console import Console
from tenants.rules.fault_orders import PARAMETERS
from tenants.rules.lifecycle import State
from tenants.rules.model import spec_of
from tenants.store import injected_faults, instances
from tenants.usecases.injected_faults import BY_TIME

from .conftest import Caller

LATENCY = {"kind": "latency", "delay_ms": 300}
BODIES: dict[FaultKind, dict[str, Any]] = {
    FaultKind.LATENCY: {"delay_ms": 300, "apis": ["produce", "fetch"], "share_percent": 50},
    FaultKind.THROTTLING: {"throttle_time_ms": 500},
    FaultKind.LEADER_LOSS: {"share_percent": 10},
    FaultKind.CONNECTION_RESET: {"once": True},
    FaultKind.MESSAGE_TOO_LARGE: {"above_bytes": 1000},
    FaultKind.CORRUPT_CHECKSUM: {},
}


async def _running(plane: Console, caller: Caller, **changes: Any) -> str:
    made = await caller.order(**changes)
    with plane.store.write() as connection:
        instances.set_state(connection, made["id"], State.RUNNING, None)
    return str(made["id"])


def _told(plane: Console, instance_id: str) -> list[str]:
    """The kinds that followers of the feed are told of."""
    with plane.store.read() as connection:
        instance = instances.by_id(connection, instance_id)
    assert instance is not None
    return sorted(one.kind for one in spec_of(instance).injected_faults)


async def _audited(operator: Caller, action: str) -> list[dict[str, Any]]:
    entries = (await operator("GET", "audit")).json()["items"]
    return [one for one in entries if one["action"] == action]


@pytest.mark.parametrize("kind", FaultKind)
async def test_every_kind_is_started_told_shown_written_down_and_ended(
    plane: Console, operator: Caller, kind: FaultKind
) -> None:
    instance = await _running(plane, operator)
    revision = (await operator("GET", f"instances/{instance}")).json()["revision"]
    made = await operator("POST", f"instances/{instance}/faults", json={"kind": kind, **BODIES[kind]})
    assert made.status_code == 201, made.text
    fault = made.json()
    assert fault["active"] and fault["ended_at"] is None and fault["started_by"].startswith("operator:key:")
    assert {name: fault[name] for name in BODIES[kind]} == BODIES[kind]
    assert _told(plane, instance) == [kind]
    assert (await operator("GET", f"instances/{instance}")).json()["revision"] > revision
    shown = (await operator("GET", "faults?tenant=*")).json()["items"]
    assert [(one["tenant"], one["instance_name"], one["fault"]["id"]) for one in shown] == [
        ("default", "shop", fault["id"])
    ]
    ended = await operator("DELETE", f"instances/{instance}/faults/{fault['id']}")
    assert ended.status_code == 200 and not ended.json()["active"]
    assert ended.json()["ended_by"] == fault["started_by"]
    again = await operator("DELETE", f"instances/{instance}/faults/{fault['id']}")
    assert again.json()["ended_at"] == ended.json()["ended_at"]
    assert _told(plane, instance) == []
    (kept,) = (await operator("GET", f"instances/{instance}/faults")).json()["items"]
    assert kept["id"] == fault["id"] and not kept["active"]
    for action in ("fault.start", "fault.end"):
        (entry,) = await _audited(operator, action)
        assert entry["subject"] == instance and kind in entry["detail"] and fault["id"] in entry["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "sharks"}, "kind"),
        ({"kind": "latency"}, "delay_ms"),
        ({"kind": "latency", "delay_ms": 10_001}, "delay_ms"),
        ({"kind": "latency", "delay_ms": 0}, "delay_ms"),
        ({"kind": "latency", "delay_ms": 5, "apis": ["nonsense"]}, "apis"),
        ({"kind": "latency", "delay_ms": 5, "apis": ["leader_and_isr"]}, "apis"),
        ({"kind": "latency", "delay_ms": 5, "once": True}, "once"),
        ({"kind": "throttling"}, "throttle_time_ms"),
        ({"kind": "throttling", "throttle_time_ms": 60_000}, "throttle_time_ms"),
        ({"kind": "leader_loss", "share_percent": 0}, "share_percent"),
        ({"kind": "leader_loss", "share_percent": 101}, "share_percent"),
        ({"kind": "leader_loss", "delay_ms": 5}, "delay_ms"),
        ({"kind": "connection_reset", "once": True, "share_percent": 5}, "share_percent"),
        ({"kind": "message_too_large", "above_bytes": -1}, "above_bytes"),
        ({"kind": "corrupt_checksum", "duration_s": DURATION_S_MAX + 1}, "duration_s"),
        ({"kind": "corrupt_checksum", "duration_s": 0}, "duration_s"),
        ({"kind": "corrupt_checksum", "for_ever": True}, "for_ever"),
    ],
)
async def test_what_is_out_of_bounds_is_refused_by_its_field(
    plane: Console, operator: Caller, body: dict[str, Any], field: str
) -> None:
    instance = await _running(plane, operator)
    refused = await operator("POST", f"instances/{instance}/faults", json=body)
    assert refused.status_code == 422
    assert field in [one["field"] for one in refused.json()["errors"]]
    assert _told(plane, instance) == []


async def test_one_of_a_kind_at_a_time(plane: Console, operator: Caller) -> None:
    instance = await _running(plane, operator)
    for kind, body in BODIES.items():
        assert (
            await operator("POST", f"instances/{instance}/faults", json={"kind": kind, **body})
        ).status_code == 201
    assert (await operator("POST", f"instances/{instance}/faults", json=LATENCY)).status_code == 409
    assert _told(plane, instance) == sorted(FaultKind)
    ended = (await operator("DELETE", f"instances/{instance}/faults")).json()["items"]
    assert sorted(one["kind"] for one in ended) == sorted(FaultKind)
    assert (await operator("DELETE", f"instances/{instance}/faults")).json()["items"] == []
    assert _told(plane, instance) == []


async def test_only_a_served_instance_has_faults(plane: Console, operator: Caller) -> None:
    made = await operator.order()
    assert (await operator("POST", f"instances/{made['id']}/faults", json=LATENCY)).status_code == 409
    refused = await operator("POST", "instances/iaaaaaaaaaaa/faults", json=LATENCY)
    assert refused.status_code == 404


async def test_the_system_instance_is_not_subject(plane: Console, operator: Caller) -> None:
    found = (await operator("GET", "instances?tenant=system")).json()["items"]
    refused = await operator("POST", f"instances/{found[0]['id']}/faults", json=LATENCY)
    assert refused.status_code == 409


async def test_another_tenants_instance_is_not_there(
    plane: Console, operator: Caller, client: httpx.AsyncClient
) -> None:
    instance = await _running(plane, operator)
    started = (await operator("POST", f"instances/{instance}/faults", json=LATENCY)).json()
    stranger = await operator.tenant("other")
    for method, path, body in (
        ("GET", "", None),
        ("POST", "", LATENCY),
        ("DELETE", "", None),
        ("DELETE", f"/{started['id']}", None),
    ):
        answer = await stranger(method, f"instances/{instance}/faults{path}", json=body)
        assert answer.status_code == 404, (method, path)
    assert (await stranger("GET", "faults")).json()["items"] == []
    assert (await stranger("GET", "faults?tenant=*")).status_code in (403, 404)
    own = await _running(plane, stranger)
    assert (await stranger("DELETE", f"instances/{own}/faults/{started['id']}")).status_code == 404
    assert _told(plane, instance) == ["latency"]


async def test_a_viewer_starts_none(plane: Console, operator: Caller) -> None:
    owner = await operator.tenant("acme")
    instance = await _running(plane, owner)
    viewer = await operator.tenant("acme", "viewer")
    assert (await viewer("POST", f"instances/{instance}/faults", json=LATENCY)).status_code == 403
    assert (await owner("POST", f"instances/{instance}/faults", json=LATENCY)).status_code == 201
    assert len((await viewer("GET", f"instances/{instance}/faults")).json()["items"]) == 1


async def test_an_operator_forbids_them_and_ends_those_that_run(plane: Console, operator: Caller) -> None:
    owner = await operator.tenant("acme")
    instance = await _running(plane, owner)
    path = f"instances/{instance}/faults"
    await operator("PATCH", "tenants/acme/ceilings", json={"faults": 1})
    assert (await owner("POST", path, json=LATENCY)).status_code == 201
    beyond = await owner("POST", path, json={"kind": "leader_loss"})
    assert beyond.status_code == 409 and "1 injected fault" in beyond.json()["detail"]
    await operator("PATCH", "tenants/acme/ceilings", json={"faults": 0})
    assert len((await operator("DELETE", path)).json()["items"]) == 1
    assert (await owner("POST", path, json=LATENCY)).status_code == 403
    await operator("PATCH", "tenants/acme/ceilings", json={"faults": None})
    await operator("PATCH", "clusters/builtin-1/ceilings", json={"faults": 0})
    assert (await owner("POST", path, json=LATENCY)).status_code == 403


async def test_what_nobody_ends_ends_by_time_once_and_is_written_down(
    plane: Console, operator: Caller
) -> None:
    instance = await _running(plane, operator)
    fault = (await operator("POST", f"instances/{instance}/faults", json=LATENCY | {"duration_s": 60})).json()
    now_ms = epoch_ms()
    assert plane.faults.end_overdue(now_ms) == 0
    assert plane.faults.end_overdue(now_ms + 61_000) == 1
    assert plane.faults.end_overdue(now_ms + 61_000) == 0
    (ended,) = (await operator("GET", f"instances/{instance}/faults")).json()["items"]
    assert ended["ended_by"] == BY_TIME and ended["ended_at"] == fault["ends_at"]
    assert _told(plane, instance) == []
    (entry,) = await _audited(operator, "fault.end")
    assert entry["actor"] == "system" and "its time was over" in entry["detail"]


async def test_only_so_many_are_remembered(
    plane: Console, operator: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 10
    monkeypatch.setattr(injected_faults, "HISTORY_MAX", most)
    instance = await _running(plane, operator)
    lasting = {"kind": "leader_loss", "duration_s": DURATION_S_MAX}
    acts = await operator("POST", f"instances/{instance}/faults", json=lasting)
    for _ in range(most + 5):
        made = await operator("POST", f"instances/{instance}/faults", json=LATENCY)
        await operator("DELETE", f"instances/{instance}/faults/{made.json()['id']}")
    with plane.store.read() as connection:
        kept = [one.fault.id for one in injected_faults.of_instance(connection, instance)]
    assert acts.json()["id"] in kept, "what acts is not forgotten"
    assert len(kept) == most + 1, "and what acts beside them"


def test_every_kind_has_its_parameters() -> None:
    assert PARAMETERS.keys() == set(FaultKind)
