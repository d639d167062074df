"""The pipeline's demo on a stack that others use: what it writes, and what it cleans up."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from contracts.names import SYSTEM_INSTANCE_ID
from contracts.usage_batches import decoded
from contracts.usage_records import USAGE_TOPIC
from ctl.console_client import Console
from ctl.demo.pipeline_acts import provision
from ctl.demo.pipeline_place import TENANT, DemoPlace
from ctl.errors import CommandError
from tests.integration.stack import Stack


def console(stack: Stack, tenant: str | None = None) -> Console:
    return Console.at(stack.console_url, stack.api_key, tenant)


def boot_ids(bootstrap: str) -> set[str]:
    """Of every record of topic `usage`: who counted what it tells."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks", "enable.partition.eof": True})
    try:
        partitions = consumer.list_topics(USAGE_TOPIC, 20).topics[USAGE_TOPIC].partitions
        consumer.assign([TopicPartition(USAGE_TOPIC, each, 0) for each in partitions])
        found, ended = set(), 0
        while ended < len(partitions):
            message = consumer.poll(20)
            assert message is not None
            if message.error() is None:
                found.add(decoded(message.value()).boot_id)
            else:
                ended += 1
        return found
    finally:
        consumer.close()


def test_a_demo_touches_nothing_of_others(stack: Stack, tmp_path: Path) -> None:
    """Not the system's usage records, and no instance that only looks like one of its own."""
    theirs = stack.create_instance("demo-activity")
    with console(stack, TENANT) as own:
        demo, seen = provision(own, tmp_path)
        assert seen.kept
        also = own.call(
            "POST",
            "instances",
            {
                "name": "demo-activity-99",
                "produce_rate_bytes_per_s": 200_000,
                "consume_rate_bytes_per_s": 200_000,
                "capacity_bytes": 1_000_000_000,
                "allow_all": True,
            },
        )
        system = stack.api("GET", f"instances/{SYSTEM_INSTANCE_ID}")
        [made_up] = boot_ids(demo.instance["bootstrap_servers"])
        assert made_up.startswith("made-up-by-demo")
        assert made_up not in boot_ids(system["bootstrap_servers"])
        lake = demo.layout.lake(demo.instance["id"], "t", "0")
        lake.mkdir(parents=True)
        second, _ = provision(own, tmp_path)
        left = {each["id"] for each in own.all_items("instances")}
        assert left == {second.instance["id"], also["id"]}
        assert not lake.exists()
        assert DemoPlace(own, tmp_path).clean() == 1
        assert {each["id"] for each in own.all_items("instances")} == {also["id"]}
    assert stack.api("GET", f"instances/{theirs['id']}")["state"] == "running"
    assert not (stack.data_dir / "pipeline-demo").exists()


def test_a_damaged_list_removes_nothing(stack: Stack, tmp_path: Path) -> None:
    (tmp_path / "pipeline-demo").mkdir()
    (tmp_path / "pipeline-demo" / "made.json").write_text("{")
    with console(stack, TENANT) as own, pytest.raises(CommandError, match=r"made\.json"):
        DemoPlace(own, tmp_path).clean()
