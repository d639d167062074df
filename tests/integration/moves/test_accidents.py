"""What happens to an instance, or to its target, while it moves."""

import os
import resource
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.integration.moves.clients import PARTITIONS, Producing, make_topics, stored
from tests.integration.moves.second_cluster import CLUSTER_ID, Broker
from tests.integration.moves.test_moves import moved, until
from tests.integration.stack import Stack

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
RECORDS = 6_000
RECORD_BYTES = 10_000
"""Sixty megabytes in all: at the least rate of a copy some seconds."""
RATE = {"produce_rate_bytes_per_s": 10_000_000}


def filled(stack: Stack, name: str) -> dict[str, Any]:
    """An instance that takes some seconds to copy."""
    instance = stack.create_instance(name, cluster="builtin-1", **RATE)
    make_topics(instance["bootstrap_servers"], "plain")
    producer = Producer({"bootstrap.servers": instance["bootstrap_servers"], "log_level": 2})
    for number in range(RECORDS):
        value = f"{number:010d}".encode() + bytes(RECORD_BYTES)
        producer.produce("plain", value, partition=number % PARTITIONS)
        producer.poll(0)
        while len(producer) > 1_000:
            producer.poll(0.1)
    assert producer.flush(60) == 0
    return instance


def until_copying(stack: Stack, instance: str) -> None:
    """Some of it is at the target, and not all."""
    stack.api("POST", f"instances/{instance}/move", {"cluster": CLUSTER_ID}, expect=202)
    time.sleep(1)
    move = stack.api("GET", f"instances/{instance}/move")
    assert move["phase"] == "copying", move


def logs_of(directory: Path, instance: str) -> list[str]:
    """Directories, also such as are just going."""
    return [folder for folder, _, files in os.walk(directory) if instance in folder and files]


def until_nothing_is_left(directory: Path, instance: str) -> None:
    """Of it, on the disk of a cluster's brokers."""
    deadline = time.monotonic() + 90
    while left := logs_of(directory, instance):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def test_deleted_while_it_is_copied_and_taken_back(stack: Stack, second: Broker, second_dir: Path) -> None:
    instance = filled(stack, "deleted")
    until_copying(stack, instance["id"])
    stack.api("DELETE", f"instances/{instance['id']}")
    until_nothing_is_left(second_dir, instance["id"])
    back = stack.api("POST", f"deleted-instances/{instance['id']}/undelete", {})
    stack.wait_for_state(back["id"], "running")
    assert until(stack, back["id"], "cancelled")["reason"] == "the instance was deleted"
    kept = stored(back["bootstrap_servers"], "plain")
    assert sum(map(len, kept.values())) == RECORDS
    moved(stack, back["id"], CLUSTER_ID)
    assert stored(back["bootstrap_servers"], "plain") == kept


def test_purged_while_its_old_copy_is_kept(stack: Stack, second: Broker, second_dir: Path) -> None:
    instance = stack.create_instance("purged", cluster="builtin-1")
    make_topics(instance["bootstrap_servers"], "plain")
    moved(stack, instance["id"], CLUSTER_ID)
    assert logs_of(second_dir, instance["id"])
    stack.api("DELETE", f"instances/{instance['id']}")
    time.sleep(2)
    assert logs_of(stack.data_dir, instance["id"]), "it may be taken back"
    stack.api("POST", f"deleted-instances/{instance['id']}/purge", {}, expect=202)
    until_nothing_is_left(second_dir, instance["id"])
    until_nothing_is_left(stack.data_dir, instance["id"])


def test_a_target_that_dies_costs_its_clients_nothing(stack: Stack, second: Broker) -> None:
    instance = filled(stack, "goes-on")
    producing = Producing(instance["bootstrap_servers"], "more")
    make_topics(instance["bootstrap_servers"], "more")
    producing.start()
    until_copying(stack, instance["id"])
    second.kill()
    try:
        time.sleep(8)
        move = stack.api("GET", f"instances/{instance['id']}/move")
        assert move["phase"] == "copying" and move["reason"], move
        assert producing.longest_gap_s < 2, "who writes meanwhile does not notice"
    finally:
        second.start()
    until(stack, instance["id"], "switched")
    time.sleep(1)
    producing.stop()
    assert sum(map(len, stored(instance["bootstrap_servers"], "plain").values())) == RECORDS
    more = stored(instance["bootstrap_servers"], "more")
    for partition, acked in producing.acked.items():
        assert more[partition] == acked


@pytest.mark.parametrize("ends", ["cancelled", "switched"])
def test_a_target_whose_disk_is_full(stack: Stack, second: Broker, second_dir: Path, ends: str) -> None:
    """It says so, costs its clients nothing, and goes on when there is room; a cancelled one leaves nothing.
    The disk is made to refuse by the process's file size limit."""
    instance = filled(stack, f"full-{ends}")
    of_move = f"instances/{instance['id']}/move"
    make_topics(instance["bootstrap_servers"], "more")
    producing = Producing(instance["bootstrap_servers"], "more").start()
    resource.prlimit(second.pid, resource.RLIMIT_FSIZE, (5_000_000, resource.RLIM_INFINITY))
    try:
        until_copying(stack, instance["id"])
        time.sleep(8)
        move = stack.api("GET", of_move)
        assert move["phase"] == "copying" and move["tries"] == 0, move
        assert "KAFKA_STORAGE_ERROR" in move["reason"], move
        if ends == "cancelled":
            stack.api("DELETE", of_move)
            until(stack, instance["id"], "cancelled")
            until_nothing_is_left(second_dir, instance["id"])
    finally:
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(second.pid, resource.RLIMIT_FSIZE, unlimited)
    assert producing.longest_gap_s < 2, "who writes meanwhile does not notice"
    until(stack, instance["id"], ends)
    time.sleep(1)
    producing.stop()
    plain = stored(instance["bootstrap_servers"], "plain")
    assert sorted(number for each in plain.values() for _, number in each) == list(range(RECORDS))
    more = stored(instance["bootstrap_servers"], "more")
    for partition, acked in producing.acked.items():
        assert more[partition] == acked
