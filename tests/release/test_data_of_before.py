"""This version starts on data directory, store and topics of the one before, and serves what was there."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.stack import Stack
from tests.release.make_before import ARCHIVE, VPORTS, make


@dataclass(frozen=True)
class Before:
    """What the version before left. In the archive that is kept all has aged but what is compacted."""

    data_dir: Path
    known: dict[str, Any]
    is_fresh: bool


@pytest.fixture(params=["kept", pytest.param("fresh", marks=pytest.mark.release)])
def before(request: pytest.FixtureRequest, tmp_path: Path) -> Before:
    archive, is_fresh = ARCHIVE, request.param == "fresh"
    if is_fresh:
        archive = tmp_path / "before.tar.xz"
        make(archive)
    subprocess.run(["tar", "-xf", str(archive), "-C", str(tmp_path)], check=True)
    return Before(tmp_path / "data", json.loads((tmp_path / "known.json").read_text()), is_fresh)


def test_data_of_the_version_before_is_served(before: Before) -> None:
    known = before.known
    stack = Stack(before.data_dir, "--vports", VPORTS).start()
    try:
        _is_as_before(stack, known)
        bootstrap = known["shop"]["bootstrap_servers"]
        assert _read(bootstrap, "kept", 0) == known["records"]["kept"]
        if before.is_fresh:
            _has_what_ages(stack, known)
        _goes_on(bootstrap)
    finally:
        stack.stop()


def _is_as_before(stack: Stack, known: dict[str, Any]) -> None:
    key = {"Authorization": f"Bearer {known['api_key']}"}
    assert httpx.get(f"{stack.console_url}/v1/me", headers=key).is_success
    login = {"user": "admin", "password": known["admin_password"]}
    assert httpx.post(f"{stack.console_url}/v1/session", json=login).is_success
    shop = stack.wait_for_state(known["shop"]["id"], "running")
    for field in ("name", "tenant", "bootstrap_servers", "produce_rate_bytes_per_s", "whitelist"):
        assert shop[field] == known["shop"][field], field


def _has_what_ages(stack: Stack, known: dict[str, Any]) -> None:
    bootstrap = known["shop"]["bootstrap_servers"]
    assert _read(bootstrap, "plain", 0) == known["records"]["plain"]
    assert _read(bootstrap, "plain", 1) == [[None, "committed"]]
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers"})
    [committed] = consumer.committed([TopicPartition("plain", 0)], timeout=20)
    consumer.close()
    assert committed.offset == known["committed"]["readers"]
    stack.api("POST", f"deleted-instances/{known['gone']}/undelete")
    stack.wait_for_state(known["gone"], "running")


def _goes_on(bootstrap: str) -> None:
    """A transactional id that was used before, and records behind those that were there."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "shop-till"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("plain", "after", partition=1)
    producer.commit_transaction(30)
    assert _read(bootstrap, "plain", 1)[-1] == [None, "after"]


def _read(bootstrap: str, topic: str, partition: int) -> list[list[str | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "another",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    read: list[list[str | None]] = []
    while True:
        message = consumer.poll(30)
        assert message is not None, f"{topic}-{partition} has no end, {len(read)} records were read"
        if message.error() is not None:
            break  # the partition's end
        key, value = message.key(), message.value()
        read.append([None if key is None else key.decode(), value.decode()])
    consumer.close()
    return read
