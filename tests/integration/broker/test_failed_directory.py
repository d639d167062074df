"""A log directory that fails while the broker runs: its partitions answer KAFKA_STORAGE_ERROR, the others go
on, and after a restart with the disk back nothing is lost."""

from pathlib import Path
from typing import Any

from tests.integration.broker.process import BrokerProcess
from tests.integration.broker.raw import RawClient, batch, create_topic, fetch, produce, request
from wire.batch import iterate_batches

PARTITIONS = range(6)


def leaders(client: RawClient) -> dict[int, tuple[int, Any]]:
    """Leader and error of each partition."""
    topic = client.call(request(3, 9, topics=[{"name": "t"}])).topics[0]
    return {each.partition_index: (each.leader_id, each.error_code) for each in topic.partitions}


def test_only_its_partitions_go_offline(tmp_path: Path) -> None:
    directories = [tmp_path / "disk-a", tmp_path / "disk-b"]
    broker = BrokerProcess(
        tmp_path, "--log-dirs", *map(str, directories), module="tests.integration.broker.failing_disk"
    )
    broker.start()
    try:
        with RawClient(broker.port) as client:
            create_topic(client, "t", len(PARTITIONS))
            for partition in PARTITIONS:
                assert produce(client, "t", batch(b"one"), partition=partition).error_code.value == 0
            lost = {partition for partition in PARTITIONS if (directories[0] / f"t-{partition}").exists()}
            assert len(lost) == len(PARTITIONS) // 2
            (tmp_path / "disk-a.broken").touch()
            _check_served(client, lost)
            described = client.call(request(35, 2, topics=None)).results
            assert {Path(each.log_dir).name: each.error_code.name for each in described} == {
                "disk-a": "kafka_storage_error",
                "disk-b": "none",
            }
            create_topic(client, "new", 4)
            assert {each.error_code.value for each in _all_produced(client, "new", 4)} == {0}
        assert "log directory has failed" in broker.log()
        broker.stop()
        (tmp_path / "disk-a.broken").unlink()
        broker.start()
        with RawClient(broker.port) as client:
            assert {leader for leader, _ in leaders(client).values()} == {broker_id(client)}
            for partition in PARTITIONS:
                found = bytes(fetch(client, "t", 0, partition=partition).records)
                assert len(list(iterate_batches(found))) == (1 if partition in lost else 2)
    finally:
        broker.stop()


def broker_id(client: RawClient) -> int:
    return int(client.call(request(3, 9, topics=[])).brokers[0].node_id)


def _all_produced(client: RawClient, topic: str, partitions: int) -> list[Any]:
    return [produce(client, topic, batch(b"two"), partition=partition) for partition in range(partitions)]


def _check_served(client: RawClient, lost: set[int]) -> None:
    answers = dict(enumerate(_all_produced(client, "t", len(PARTITIONS))))
    refused = {partition for partition, answer in answers.items() if answer.error_code.value}
    assert refused == lost
    assert {answers[partition].error_code.name for partition in lost} <= {
        "kafka_storage_error",
        "not_leader_or_follower",
    }
    for partition in PARTITIONS:
        answer = fetch(client, "t", 0, partition=partition)
        assert bool(answer.error_code.value) == (partition in lost)
