"""Retention beyond what an instance allows means what it allows, also when that is changed later."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from contracts.specs import Limits
from tests.integration.broker.fake_control import SECRET, FakeControl, running_control, spec, wait_until
from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.broker.raw import RawClient, create_topic, produce, request
from wire.batch import Record, build_batch

HOUR_MS = 3_600_000
A, B = "iaaaaaaaaaaa", "ibbbbbbbbbbb"


@pytest.fixture(scope="module")
def control() -> Iterator[FakeControl]:
    with running_control() as running:
        yield running


@pytest.fixture(scope="module")
def governed(tmp_path_factory: pytest.TempPathFactory, control: FakeControl) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("governed")
    secret = directory / "internal.key"
    secret.write_text(SECRET)
    arguments = ("--control", control.url, "--secret-file", str(secret))
    with running_broker(directory, *arguments, "--retention-check-interval-ms", "200") as running:
        yield running


def _connect(broker: BrokerProcess) -> RawClient:
    client = RawClient(broker.port)
    assert client.call(request(17, 1, mechanism="PLAIN")).error_code.value == 0
    assert client.call(request(36, 1, auth_bytes=f"\0portico\0{SECRET}".encode())).error_code.value == 0
    return client


def _limit(control: FakeControl, instance_id: str, **limits: int) -> None:
    control.set(spec(instance_id, limits=Limits(**limits)))
    wait_until(lambda: control.applied_revision == control.revision)


def _old(age_ms: int, size_bytes: int = 10) -> bytes:
    at_ms = int(time.time() * 1000) - age_ms
    return bytes(build_batch((Record(0, at_ms, None, b"x" * size_bytes),)))


def _start(client: RawClient, topic: str) -> int:
    partition = {"partition_index": 0, "timestamp": -2, "current_leader_epoch": -1}
    asked = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [partition]}]}
    return int(client.call(request(2, 4, **asked)).topics[0].partitions[0].offset)


def test_a_topic_keeps_what_its_instance_allows_and_follows_it(
    control: FakeControl, governed: BrokerProcess
) -> None:
    asked: dict[str, dict[str, Any]] = {
        "for-ever": {"retention_ms": "-1"},
        "long": {"retention_ms": str(1000 * HOUR_MS)},
        "default": {},
        "short": {"retention_ms": str(HOUR_MS)},
    }
    for instance_id in (A, B):
        _limit(control, instance_id, retention_ms_max=100 * HOUR_MS)
    with _connect(governed) as client:
        for instance_id in (A, B):
            for name, configs in asked.items():
                create_topic(client, f"{instance_id}.{name}", 1, **configs)
                assert produce(client, f"{instance_id}.{name}", _old(5 * HOUR_MS)).error_code.value == 0

        def starts(instance_id: str) -> dict[str, int]:
            return {name: _start(client, f"{instance_id}.{name}") for name in asked}

        wait_until(lambda: starts(A)["short"] == starts(B)["short"] == 1)
        assert starts(A) == {"for-ever": 0, "long": 0, "default": 0, "short": 1}
        for name in ("for-ever", "long", "default"):
            assert produce(client, f"{A}.{name}", _old(200 * HOUR_MS)).error_code.value == 0
        _limit(control, A, retention_ms_max=2 * HOUR_MS)
        wait_until(lambda: starts(A) == {"for-ever": 2, "long": 2, "default": 2, "short": 1})
        assert starts(B) == {"for-ever": 0, "long": 0, "default": 0, "short": 1}, "another instance's stay"
        _limit(control, A, retention_ms_max=100 * HOUR_MS)
        assert produce(client, f"{A}.for-ever", _old(5 * HOUR_MS)).error_code.value == 0
        time.sleep(1.0)  # several checks
        assert starts(A)["for-ever"] == 2, "a limit that was raised holds for topics that are there"


def test_the_largest_batch_follows_the_instance(control: FakeControl, governed: BrokerProcess) -> None:
    instance_id = "iccccccccccc"
    _limit(control, instance_id, message_bytes_max=1000)
    with _connect(governed) as client:
        for name, configs in (("own", {"max_message_bytes": "2000"}), ("default", {})):
            create_topic(client, f"{instance_id}.{name}", 1, **configs)

        def answers(size_bytes: int) -> list[str]:
            names = (f"{instance_id}.own", f"{instance_id}.default")
            return [produce(client, name, _old(0, size_bytes)).error_code.name for name in names]

        assert answers(800) == ["none", "none"]
        assert answers(1_500) == ["message_too_large", "message_too_large"]
        _limit(control, instance_id, message_bytes_max=5_000)
        assert answers(1_500) == ["none", "none"]
        assert answers(3_000) == ["message_too_large", "none"]
