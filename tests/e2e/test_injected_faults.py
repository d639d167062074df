"""A tenant's faults on a running stack, by command line: felt by its clients, told to operators, ended."""

import time
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.e2e.test_commands import answer, portico
from tests.integration.broker.fake_control import wait_until
from tests.integration.stack import Stack


@pytest.fixture(scope="module")
def pair(stack: Stack) -> tuple[dict[str, Any], dict[str, Any]]:
    """An instance that has faults, and its neighbour."""
    made = stack.create_instance("faulty"), stack.create_instance("fault-neighbour")
    for one in made:
        stack.api("POST", f"instances/{one['id']}/topics", {"name": "t", "partitions": 1})
    return made


def _error(instance: dict[str, Any]) -> str | None:
    """What becomes of one record that is sent once."""
    came: list[Any] = []
    producer = Producer({"bootstrap.servers": instance["bootstrap_servers"], "retries": 0})
    producer.produce("t", b"v", on_delivery=lambda error, _: came.append(error))
    assert producer.flush(60) == 0
    return None if came[0] is None else str(came[0].name())


def test_a_fault_is_started_felt_seen_by_operators_and_stopped(
    stack: Stack, pair: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    faulty, neighbour = pair
    fault = answer(stack, "fault", "start", "faulty", "corrupt_checksum", "--for", "10m")
    wait_until(lambda: stack.api("GET", f"instances/{faulty['id']}/faults")["items"][0]["applied"])
    assert _error(faulty) == "INVALID_MSG"
    assert _error(neighbour) is None
    told = portico(stack, "doctor").stdout
    assert f"portico fault stop {faulty['id']} {fault['id']}" in told and "corrupt_checksum" in told
    assert [one["fault"]["id"] for one in answer(stack, "fault", "list")] == [fault["id"]]
    stopped = answer(stack, "fault", "stop", "faulty", fault["id"])
    assert [one["active"] for one in stopped] == [False]
    wait_until(lambda: _error(faulty) is None)
    assert "corrupt_checksum" not in portico(stack, "doctor").stdout
    shown = portico(stack, "fault", "list", "faulty")
    assert shown.returncode == 0 and fault["id"] in shown.stdout and "ended by" in shown.stdout


@pytest.mark.usefixtures("pair")
def test_every_kind_can_be_said_on_the_command_line(stack: Stack) -> None:
    for arguments in (
        ("latency", "--delay", "300ms", "--api", "produce", "--api", "metadata", "--share", "50"),
        ("throttling", "--throttle-time", "500ms"),
        ("leader_loss", "--share", "20"),
        ("connection_reset", "--once"),
        ("message_too_large", "--above", "1KB"),
    ):
        assert answer(stack, "fault", "start", "faulty", *arguments, "--for", "5m")["active"]
    again = portico(stack, "fault", "start", "faulty", "leader_loss")
    assert again.returncode == 1 and "already" in again.stderr
    assert portico(stack, "fault", "stop", "faulty").returncode == 2
    assert len(answer(stack, "fault", "stop", "faulty", "--all")) == 5
    assert answer(stack, "fault", "list") == []


def test_latency_is_felt_by_the_instance_alone(
    stack: Stack, pair: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    """A client that waits for less than the latency gives up; its neighbour does not."""
    faulty, neighbour = pair
    fault = stack.api("POST", f"instances/{faulty['id']}/faults", {"kind": "latency", "delay_ms": 10_000})
    wait_until(lambda: stack.api("GET", f"instances/{faulty['id']}/faults")["items"][0]["applied"])
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": faulty["bootstrap_servers"]}).list_topics(timeout=3)
    found = AdminClient({"bootstrap.servers": neighbour["bootstrap_servers"]}).list_topics(timeout=30)
    assert "t" in found.topics
    stack.api("DELETE", f"instances/{faulty['id']}/faults/{fault['id']}")
    deadline = time.monotonic() + 60
    while "t" not in AdminClient({"bootstrap.servers": faulty["bootstrap_servers"]}).list_topics().topics:
        assert time.monotonic() < deadline
