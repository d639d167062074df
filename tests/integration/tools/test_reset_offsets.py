"""`portico group reset-offsets` and its REST call, with a real group."""

import datetime
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.tools.conftest import Tools

BEGAN_MS = int(time.time()) * 1000 - 3_600_000


@pytest.fixture(scope="module")
def instance(tools: Tools) -> dict[str, Any]:
    """An instance with 10 records in each of two partitions, a second apart, and 4 of each committed."""
    made = tools.stack.create_instance("resets")
    tools.run("topic", "create", "resets", "orders", "--partitions", "2")
    producer = Producer({"bootstrap.servers": made["bootstrap_servers"]})
    for number in range(10):
        for partition in (0, 1):
            producer.produce("orders", str(number), partition=partition, timestamp=BEGAN_MS + 1000 * number)
    assert producer.flush(20) == 0
    with_offsets(made, 4)
    return made


def consumer(instance: dict[str, Any]) -> Consumer:
    settings = {
        "bootstrap.servers": instance["bootstrap_servers"],
        "group.id": "g",
        "enable.auto.commit": False,
    }
    return Consumer(settings)


def with_offsets(instance: dict[str, Any], offset: int) -> None:
    committing = consumer(instance)
    committing.commit(offsets=[TopicPartition("orders", each, offset) for each in (0, 1)], asynchronous=False)
    committing.close()


def committed(instance: dict[str, Any]) -> list[int]:
    asking = consumer(instance)
    found = asking.committed([TopicPartition("orders", each) for each in (0, 1)], timeout=10)
    asking.close()
    return [one.offset for one in found]


def reset(tools: Tools, *options: str) -> list[int | None]:
    result = tools.json("group", "reset-offsets", "resets", "g", *options)
    return [one["new_offset"] for one in result["partitions"]]


def _rfc3339(time_ms: int) -> str:
    return datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC).isoformat()


def test_a_dry_run_changes_nothing(tools: Tools, instance: dict[str, Any]) -> None:
    before = committed(instance)
    assert reset(tools, "--to-earliest") == [0, 0]
    assert reset(tools, "--to-latest") == [10, 10]
    assert reset(tools, "--to-offset", "99") == [10, 10]
    assert reset(tools, "--shift-by=-2") == [offset - 2 for offset in before]
    assert reset(tools, "--to-datetime", _rfc3339(BEGAN_MS + 7000)) == [7, 7]
    assert reset(tools, "--to-datetime", str(BEGAN_MS + 2500)) == [3, 3]
    assert reset(tools, "--to-datetime", "2043-01-01") == [10, 10]
    assert committed(instance) == before
    assert "dry run" in tools.run("group", "reset-offsets", "resets", "g", "--to-earliest")


def test_done_for_some_partitions_and_from_a_file(
    tools: Tools, instance: dict[str, Any], tmp_path: Path
) -> None:
    with_offsets(instance, 4)
    exported = tools.run("group", "reset-offsets", "resets", "g", "--shift-by", "0", "--export")
    assert exported == "orders,0,4\norders,1,4\n"
    assert reset(tools, "--to-latest", "--topic", "orders:1", "--execute") == [10]
    assert committed(instance) == [4, 10]
    file = tmp_path / "offsets.csv"
    file.write_text(exported)
    assert reset(tools, "--from-file", str(file), "--execute") == [4, 4]
    assert committed(instance) == [4, 4]
    entries = tools.stack.api("GET", "audit")["items"]
    assert any(entry["action"] == "group.reset-offsets" for entry in entries)


def test_refusals(tools: Tools, instance: dict[str, Any], tmp_path: Path) -> None:
    def refused(*options: str, code: int = 2) -> str:
        return tools.run("group", "reset-offsets", "resets", *options, code=code)

    assert "choose one of" in refused("g")
    assert "choose one of" in refused("g", "--to-earliest", "--to-latest")
    assert "no partition 7" in refused("g", "--to-earliest", "--topic", "orders:7")
    assert "no topic 'none'" in refused("g", "--to-earliest", "--topic", "none")
    assert "no group 'other'" in refused("other", "--to-earliest", code=1)
    assert "is no time" in refused("g", "--to-datetime", "yesterday")
    (tmp_path / "bad.csv").write_text("orders;0;1\n")
    assert "TOPIC,PARTITION,OFFSET" in refused("g", "--from-file", str(tmp_path / "bad.csv"))
    path = f"instances/{instance['id']}/groups/g/reset-offsets"
    tools.stack.api("POST", path, {"to": "offset"}, expect=422)
    tools.stack.api("POST", path, {"to": "earliest", "shift": 4}, expect=422)


def test_a_group_with_members_is_left_alone(tools: Tools, instance: dict[str, Any]) -> None:
    member = consumer(instance)
    member.subscribe(["orders"])
    deadline = time.monotonic() + 15
    while not member.assignment() and time.monotonic() < deadline:
        member.poll(0.1)
    said = tools.run("group", "reset-offsets", "resets", "g", "--to-earliest", "--execute", code=1)
    member.close()
    assert "has members" in said
