"""What follows from the number of brokers, and which changes of a data directory are refused."""

from pathlib import Path

import pytest

from ctl.stack.cluster import OWN, Cluster, planned, remember, remembered
from ctl.stack.layout import Layout
from ctl.stack.settings import load
from runtime.config import ConfigFault


def settled(data_dir: Path, **flags: str) -> dict[str, object]:
    return {name: found.value for name, found in load(data_dir, flags).items()}


def fault(data_dir: Path, **flags: str) -> str:
    with pytest.raises(ConfigFault) as raised:
        load(data_dir, flags)
    return str(raised.value)


@pytest.mark.parametrize(
    ("brokers", "factor", "in_sync"), [("1", 1, 1), ("2", 2, 1), ("3", 3, 2), ("9", 3, 2)]
)
def test_replication_follows_from_the_number_of_brokers(
    tmp_path: Path, brokers: str, factor: int, in_sync: int
) -> None:
    values = settled(tmp_path, brokers=brokers)
    assert (values["replication_factor"], values["min_insync_replicas"]) == (factor, in_sync)


def test_replication_can_be_told(tmp_path: Path) -> None:
    values = settled(tmp_path, brokers="5", replication_factor="5", min_insync_replicas="3")
    assert (values["replication_factor"], values["min_insync_replicas"]) == (5, 3)
    assert "3 replicas need as many brokers, not 2" in fault(tmp_path, brokers="2", replication_factor="3")
    assert "3 is more than the replication factor 2" in fault(tmp_path, brokers="2", min_insync_replicas="3")


def test_one_broker_needs_no_zookeeper_and_several_get_their_own(tmp_path: Path) -> None:
    assert planned(settled(tmp_path), None) == Cluster(1, None)
    assert planned(settled(tmp_path, brokers="3"), None) == Cluster(3, OWN)
    assert planned(settled(tmp_path, zookeeper="zk:2181/x"), None) == Cluster(1, "zk:2181/x")


def test_a_data_directory_remembers_its_cluster(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert remembered(layout) is None
    remember(layout, Cluster(3, OWN))
    kept = remembered(layout)
    assert kept == Cluster(3, OWN)
    assert planned(settled(tmp_path), kept) == kept
    assert planned(settled(tmp_path, brokers="4"), kept) == Cluster(4, OWN)
    assert "holds 3 brokers; their number may grow, not shrink" in fault(tmp_path, brokers="2")
    assert "is in a ZooKeeper of its own" in fault(tmp_path, zookeeper="zk:2181")


def test_a_zookeeper_that_was_named_is_remembered_and_may_move(tmp_path: Path) -> None:
    remember(Layout(tmp_path), Cluster(2, "one:2181/c"))
    kept = remembered(Layout(tmp_path))
    assert planned(settled(tmp_path), kept) == Cluster(2, "one:2181/c")
    assert planned(settled(tmp_path, zookeeper="two:2181/c"), kept) == Cluster(2, "two:2181/c")


def test_a_damaged_cluster_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{")
    assert "cluster.json cannot be read" in fault(tmp_path)


@pytest.mark.parametrize("text", ["", "host", "host:x", "h:1,", "h:1/", "h:1/a//b", "h:1/a/"])
def test_what_is_no_address_of_a_zookeeper(tmp_path: Path, text: str) -> None:
    assert "--zookeeper" in fault(tmp_path, zookeeper=text)


@pytest.mark.parametrize("text", ["h:1", "h:1,g:2", "[::1]:2181/chroot", "h:1/a/b"])
def test_what_is_one(tmp_path: Path, text: str) -> None:
    assert settled(tmp_path, zookeeper=text)["zookeeper"] == text


def test_an_apache_kafka_takes_the_place_of_brokers(tmp_path: Path) -> None:
    values = settled(tmp_path, backend="k1:9092, k2:9093")
    assert values["backend"] == "k1:9092,k2:9093"
    assert (values["brokers"], values["replication_factor"]) == (0, None)
    assert planned(values, None) == Cluster(0, None, "k1:9092,k2:9093")
    for name in ("brokers", "zookeeper", "replication_factor", "min_insync_replicas"):
        given = "zk:2181" if name == "zookeeper" else "3"
        assert "(--backend) has brokers and settings of its own" in fault(
            tmp_path, backend="k:9092", **{name: given}
        )


@pytest.mark.parametrize("text", ["", "k", "k:0", ":9092", "k:x", "k:9092,"])
def test_a_backend_is_addresses(tmp_path: Path, text: str) -> None:
    assert "backend" in fault(tmp_path, backend=text)


def test_a_data_directory_remembers_its_apache_kafka(tmp_path: Path) -> None:
    remember(Layout(tmp_path), Cluster(0, None, "k:9092"))
    assert remembered(Layout(tmp_path)) == Cluster(0, None, "k:9092")
    assert settled(tmp_path)["backend"] == "k:9092"
    assert settled(tmp_path, backend="moved:9092")["backend"] == "moved:9092"
    assert "has brokers and settings of its own" in fault(tmp_path, brokers="3")


def test_a_data_directory_with_brokers_is_not_moved_to_another_engine(tmp_path: Path) -> None:
    remember(Layout(tmp_path), Cluster(1, None))
    assert "holds brokers of its own, and instances cannot be moved yet" in fault(tmp_path, backend="k:9092")
    (tmp_path / "cluster.json").write_text('{"brokers": 1, "zookeeper": null}')
    assert remembered(Layout(tmp_path)) == Cluster(1, None), "as releases before wrote it"
