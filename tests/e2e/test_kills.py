"""kill -9 of any process while a client produces: nothing acknowledged is lost, doubled or reordered."""

from pathlib import Path

import pytest

from tests.e2e.records import CountingProducer, create_topic, read_all
from tests.integration.stack import Stack

PARTITIONS = 2


@pytest.mark.parametrize("group", ["brokers", "gateways", "control"])
def test_every_acknowledged_record_is_there_once_and_in_order(own_stack: Stack, group: str) -> None:
    instance = own_stack.create_instance(f"kill-{group}")
    bootstrap = instance["bootstrap_servers"]
    create_topic(bootstrap, "numbers", PARTITIONS)
    with CountingProducer(bootstrap, "numbers", PARTITIONS) as producer:
        for _ in range(2):
            producer.wait_for_progress(1000)
            killed = own_stack.kill(group)
            own_stack.wait_for_restart(group, killed)
            producer.wait_for_progress(1000)
    assert producer.failed == []
    for partition, acknowledged in producer.acknowledged.items():
        stored = read_all(bootstrap, "numbers", partition)
        assert stored == sorted(set(stored)), "doubled or reordered"
        assert set(acknowledged) <= set(stored), "acknowledged and lost"


def test_a_restarted_stack_serves_the_same_instances_at_the_same_addresses(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    stack = Stack(data_dir).start()
    try:
        instance = stack.create_instance("keeps")
        bootstrap = instance["bootstrap_servers"]
        create_topic(bootstrap, "numbers")
        with CountingProducer(bootstrap, "numbers") as producer:
            producer.wait_for_progress(500)
    finally:
        assert stack.stop() < 10.5
    stack.start()
    try:
        again = stack.wait_for_state(instance["id"], "running")
        assert again["bootstrap_servers"] == bootstrap
        assert stack.admin_password is None, "the password is shown at the first start only"
        assert set(producer.acknowledged[0]) <= set(read_all(bootstrap, "numbers", 0))
    finally:
        stack.stop()
