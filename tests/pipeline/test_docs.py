"""What README.md shows of the pipeline runs, line by line."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.e2e.docs_commands import all_lines, make_desk, run
from tests.integration.stack import Stack, running_stack


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Stack]:
    """An instance with orders that a group has read, and one to mirror it to; usage has been told."""
    with running_stack(tmp_path / "data", "--usage-interval-ms", "1000") as stack:
        made = [stack.create_instance(name) for name in ("shop", "shop-dr")]
        client = {"bootstrap.servers": made[0]["bootstrap_servers"]}
        stack.api("POST", f"instances/{made[0]['id']}/topics", {"name": "orders", "partitions": 2})
        producer = Producer(client)
        for number in range(100):
            producer.produce("orders", json.dumps({"user": f"u{number}", "ms": number}).encode())
        assert producer.flush(60) == 0
        group = Consumer({**client, "group.id": "billing"})
        group.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)
        group.close()
        time.sleep(3)  # three intervals of usage
        yield stack


@pytest.mark.long  # each line starts a Spark of its own
@pytest.mark.timeout(1800)
def test_the_pipeline_of_the_readme(shop: Stack, tmp_path: Path) -> None:
    desk = make_desk(tmp_path)
    schema = {"version": 1, "fields": "user string NOT NULL, ms long"}
    (desk / "orders.json").write_text(json.dumps(schema))
    lines = list(all_lines(r"\./portico pipeline\b"))
    assert len(lines) >= 8
    for line in lines:
        run(desk, shop.data_dir, "sh", line, 600)
