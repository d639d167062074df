"""What each client id of an instance carried, as its series say it: two clients, a stranger, and a flood."""

import json
import socket
import time
from typing import Any, Final
from uuid import uuid4

import httpx
import pytest
from confluent_kafka import Consumer, Producer

from runtime.trusted import verify_of
from tenants.rules.series import NAMES_MAX, STEP_MS
from tests.integration.stack import Stack
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import framed_request, request_class

pytestmark = pytest.mark.long
_STEP_S: Final = STEP_MS / 1000
_WITHIN_S: Final = 90.0
_FLOOD: Final = 2_000


class _Wire:
    """What librdkafka says that it sent and got."""

    def __init__(self) -> None:
        self.sent = self.got = self.told = 0

    def __call__(self, statistics: str) -> None:
        found = json.loads(statistics)
        self.sent, self.got = found["tx_bytes"], found["rx_bytes"]
        self.told += 1


def _carried(stack: Stack, instance: dict[str, Any], name: str, metric: str) -> float:
    view = stack.api("GET", f"instances/{instance['id']}/series", kind="client", name=name)
    return float(sum(value or 0 for value in view["metrics"][metric]) * _STEP_S)


def _names(stack: Stack, instance: dict[str, Any]) -> list[str]:
    found: list[str] = stack.api("GET", f"instances/{instance['id']}/series/names", kind="client")["items"]
    return found


def _all_carried(stack: Stack, instance: dict[str, Any], name: str, metric: str, wanted: float) -> float:
    """When nothing more is to come: the client is gone, and what would be told twice is told by now."""
    deadline = time.monotonic() + _WITHIN_S
    while (found := _carried(stack, instance, name, metric)) < 0.95 * wanted:
        assert time.monotonic() < deadline, (name, metric, found, wanted)
        time.sleep(1)
    time.sleep(2 * _STEP_S)
    return _carried(stack, instance, name, metric)


def _says_all(wire: _Wire, client: Producer | Consumer) -> None:
    before, deadline = wire.told, time.monotonic() + 20
    while wire.told < before + 2:
        assert time.monotonic() < deadline
        client.poll(0.1)


def test_each_client_has_the_bytes_that_it_carried_and_no_other_tenant_sees_them(stack: Stack) -> None:
    busy, calm = (stack.create_instance(f"series-{name}") for name in ("busy", "calm"))
    stack.api("POST", f"instances/{busy['id']}/topics", {"name": "t", "partitions": 3})
    written, read = _Wire(), _Wire()
    common = {"bootstrap.servers": busy["bootstrap_servers"], "statistics.interval.ms": 500}
    producer = Producer({**common, "client.id": "billing", "stats_cb": written, "linger.ms": 20})
    consumer = Consumer(
        {**common, "client.id": "search", "stats_cb": read, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    ends = time.monotonic() + 2.5 * _STEP_S
    produced = consumed = 0
    while time.monotonic() < ends or consumed < produced:
        if time.monotonic() < ends:
            for _ in range(10):
                producer.produce("t", b"x" * 10_000)
            produced += 10
        producer.poll(0)
        consumed += sum(one.error() is None for one in consumer.consume(100, 0.1))
        assert time.monotonic() < ends + 60
    assert producer.flush(30) == 0
    _says_all(written, producer)
    _says_all(read, consumer)
    sent, got = written.sent, read.got
    assert sent > 10_000 * produced and got > 10_000 * produced
    consumer.close()
    del producer, consumer
    for name, metric, wanted in (("billing", "in_bytes_per_s", sent), ("search", "out_bytes_per_s", got)):
        found = _all_carried(stack, busy, name, metric, wanted)
        assert abs(found - wanted) <= 0.05 * wanted, (name, found, wanted)
    assert _carried(stack, busy, "search", "in_bytes_per_s") < 0.05 * sent
    assert _carried(stack, busy, "billing", "requests_per_s") > 0
    assert {"billing", "search"} <= set(_names(stack, busy))
    assert _names(stack, calm) == []
    stack.api("POST", "tenants", {"name": "stranger"})
    key = stack.api("POST", "keys", {"name": "own", "role": "owner"}, tenant="stranger")["secret"]
    for path in ("series/names", "series"):
        refused = httpx.get(
            f"{stack.console_url}/v1/instances/{busy['id']}/{path}",
            params={"kind": "client"},
            headers={"Authorization": f"Bearer {key}"},
            trust_env=False,
            verify=verify_of(stack.console_url),
        )
        assert refused.status_code == 404, refused.text


def test_a_flood_of_client_ids_is_told_as_one(stack: Stack) -> None:
    instance = stack.create_instance("series-flood")
    host, _, port = instance["bootstrap_servers"].split(",")[0].rpartition(":")
    body = build(request_class(ApiKey.API_VERSIONS, 0), {})
    begins_s = time.monotonic()
    for _ in range(_FLOOD):
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(framed_request(body, 1, f"random-{uuid4()}"))
            assert client.recv(4)
    steps = (time.monotonic() - begins_s) // _STEP_S + 2
    deadline = time.monotonic() + _WITHIN_S
    while (requests := _carried(stack, instance, "", "requests_per_s")) < 0.7 * _FLOOD:
        assert time.monotonic() < deadline, requests
        time.sleep(1)
    time.sleep(2 * _STEP_S)
    assert len(_names(stack, instance)) <= 1 + NAMES_MAX * (steps + 1)
    assert 0.7 * _FLOOD <= _carried(stack, instance, "", "requests_per_s") <= 1.05 * _FLOOD
