"""The master's routes: strict input, problems that say what is wrong, and the explanation of an instance."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest

from contracts.fleet import FleetOverview
from contracts.quota import ReportAnswer
from contracts.quota_view import QuotaOverview, QuotaView
from master.app import BODY_BYTES_MAX, create_app
from master.journal import Journal
from master.node import MasterNode
from master.service import MasterService
from master.settings import MasterSettings
from tests.unit.master.reports import ID, T, a_report, a_spec, traffic


@pytest.fixture
async def node() -> AsyncIterator[MasterNode]:
    node = MasterNode(
        lambda: {ID: a_spec()}, Journal("sqlite://"), MasterSettings(), url="http://master", tree=None
    )
    running = asyncio.create_task(node.run())
    await asyncio.sleep(0)
    yield node
    running.cancel()
    await asyncio.wait({running})


@pytest.fixture
def service(node: MasterNode) -> MasterService:
    return node.service


@pytest.fixture
async def http(node: MasterNode) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(node))
    async with httpx.AsyncClient(transport=transport, base_url="http://master") as client:
        yield client


async def test_report_is_answered_with_leases(http: httpx.AsyncClient) -> None:
    answer = await http.post("/internal/v1/reports", content=msgspec.json.encode(a_report(1, traffic(9))))
    leases = msgspec.json.decode(answer.content, type=ReportAnswer).allocations
    assert [(lease.instance_id, lease.produce_rate_bytes_per_s) for lease in leases] == [(ID, T)]
    again = await http.get("/internal/v1/allocations", params={"point": "broker-1"})
    assert msgspec.json.decode(again.content, type=ReportAnswer).allocations == leases


async def test_views(http: httpx.AsyncClient, service: MasterService) -> None:
    service.receive(a_report(1, traffic(9)))
    service.tick()
    one = await http.get(f"/internal/v1/instances/{ID}/quota", params={"seconds": 60})
    view = msgspec.json.decode(one.content, type=QuotaView)
    assert view.brokers[0].produce.rate_per_s == 9 and view.history.at_ms
    every = await http.get("/internal/v1/quota")
    assert msgspec.json.decode(every.content, type=QuotaOverview).instances[0].instance_id == ID
    lines = msgspec.json.decode((await http.get("/internal/v1/fleet")).content, type=FleetOverview)
    assert [(row.instance_id, row.produce_per_s, row.silent_brokers) for row in lines.rows] == [(ID, 9, 0)]
    assert lines.at_ms == view.history.at_ms[-1]


GOOD = msgspec.to_builtins(a_report(1, traffic(5)))


def broken(**changes: object) -> bytes:
    return msgspec.json.encode({**GOOD, **changes})


def broken_instance(**changes: object) -> bytes:
    return broken(instances=[{**GOOD["instances"][0], **changes}])


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        (b"", 400, "not JSON"),
        (b"\xff\xfe", 400, "not JSON"),
        (b"[]", 422, "Expected `object`"),
        (b"{}", 422, "point"),
        (broken(sequence=0), 422, "$.sequence"),
        (broken(sequence="1"), 422, "$.sequence"),
        (broken(surprise=1), 422, "surprise"),
        (broken(point=""), 422, "$.point"),
        (broken(window_ms=-1), 422, "$.window_ms"),
        (broken(version=2), 422, "version 2"),
        (broken_instance(produce={"used": -1}), 422, "$.instances[0].produce.used"),
        (broken_instance(produce={"used": 2**63}), 422, "$.instances[0].produce.used"),
        (broken_instance(produce={"used": 1.5}), 422, "$.instances[0].produce.used"),
        (broken_instance(stored_bytes=-5), 422, "$.instances[0].stored_bytes"),
        (broken(instances=[GOOD["instances"][0]] * 2), 422, "twice"),
    ],
)
async def test_bad_reports_are_refused_with_a_reason_and_counted(
    http: httpx.AsyncClient, service: MasterService, body: bytes, status: int, detail: str
) -> None:
    answer = await http.post("/internal/v1/reports", content=body)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert detail in answer.json()["detail"] and answer.json()["status"] == status
    assert sum(service.refusals.values()) == 1
    assert service.view(ID).brokers == ()  # type: ignore[union-attr]


async def test_body_is_bounded(http: httpx.AsyncClient) -> None:
    answer = await http.post("/internal/v1/reports", content=b" " * (BODY_BYTES_MAX + 1))
    assert answer.status_code == 413


@pytest.mark.parametrize("seconds", ["-1", "x", "3601", "1e3", "9" * 5000, ""])
async def test_bad_seconds(http: httpx.AsyncClient, seconds: str) -> None:
    answer = await http.get(f"/internal/v1/instances/{ID}/quota", params={"seconds": seconds})
    assert answer.status_code == 400 and "0 to 3600" in answer.json()["detail"]


async def test_unknown_instance_point_and_policy(http: httpx.AsyncClient) -> None:
    assert (await http.get("/internal/v1/instances/izzzzzzzzzzz/quota")).status_code == 404
    assert (await http.delete("/internal/v1/points/broker-9")).status_code == 404
    assert (await http.get("/internal/v1/allocations")).status_code == 400
    refused = await http.put("/internal/v1/policy", json={"policy": "best"})
    assert refused.status_code == 422 and "static, seed, capped, fair" in refused.json()["detail"]


async def test_policy_and_points_for_operators(http: httpx.AsyncClient, service: MasterService) -> None:
    assert (await http.get("/internal/v1/policy")).json() == {"policy": "seed"}
    assert (await http.put("/internal/v1/policy", json={"policy": "static"})).status_code == 200
    assert (await http.get("/internal/v1/policy")).json() == {"policy": "static"}
    service.receive(a_report(1, traffic(5)))
    assert (await http.delete("/internal/v1/points/broker-1")).status_code == 204
