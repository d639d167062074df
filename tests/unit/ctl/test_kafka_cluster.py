"""What an Apache Kafka is started with, without starting one."""

from pathlib import Path

import pytest

from ctl.errors import CommandError
from ctl.kafka.cluster import Kept, Node, chosen, kept, node_ports, node_settings, prepared
from ctl.kafka.jars import DEFAULT_VERSION
from ctl.stack.layout import Layout

BEFORE = Kept("3.9.1", "MkU3OEVBNTcwNTJENDM2Qg", 3)


def test_a_first_start_makes_a_cluster_of_one() -> None:
    first = chosen(None, None, None)
    assert (first.version, first.brokers) == (DEFAULT_VERSION, 1)
    assert len(first.cluster_id) == 22
    assert chosen(None, 3, "3.9.1")[::2] == ("3.9.1", 3)


def test_a_later_start_is_the_cluster_it_was() -> None:
    assert chosen(BEFORE, None, None) == BEFORE
    assert chosen(BEFORE, 3, "4.3.1") == BEFORE._replace(version="4.3.1")


@pytest.mark.parametrize(
    ("before", "brokers", "version", "sentence"),
    [
        (None, 0, None, "--brokers: 0 is not a number from 1 to 9"),
        (None, 10, None, "--brokers: 10 is not"),
        (None, None, "4.3", "--version: '4.3' is not a release"),
        (None, None, "4.3.1-rc1", "--version: '4.3.1-rc1' is not a release"),
        (None, None, "../4.3.1", "--version: '../4.3.1' is not a release"),
        (None, None, "3.8.1", "--version: 3.8.1 is older than 3.9.0"),
        (BEFORE, 1, None, "--brokers: the directory holds 3"),
        (BEFORE._replace(version="4.3.1"), None, "4.0.0", "--version: the directory was written by 4.3.1"),
    ],
)
def test_what_cannot_be_is_wrong_usage(
    before: Kept | None, brokers: int | None, version: str | None, sentence: str
) -> None:
    with pytest.raises(CommandError) as refused:
        chosen(before, brokers, version)
    assert refused.value.sentence.startswith(sentence)
    assert refused.value.code == 2


def test_a_broken_file_is_not_a_first_start(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert kept(layout) is None
    (tmp_path / "kafka.json").write_text('{"version": "4.3.1"}')
    with pytest.raises(CommandError, match=r"kafka.json cannot be read"):
        kept(layout)
    with pytest.raises(CommandError, match=r"ports.json cannot be read"):
        node_ports(layout, 1)


def test_a_stacks_directory_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(CommandError, match="holds a stack of Portico's"):
        prepared(Layout(tmp_path), brokers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]


def test_replicas_follow_from_the_number_of_brokers() -> None:
    one = (Node(1, 9092, 9093),)
    alone = node_settings(one[0], one)
    assert alone["default.replication.factor"] == alone["min.insync.replicas"] == "1"
    nodes = (*one, Node(2, 9094, 9095), Node(3, 9096, 9097), Node(4, 9098, 9099))
    second = node_settings(nodes[1], nodes)
    assert second["default.replication.factor"] == second["offsets.topic.replication.factor"] == "3"
    assert second["min.insync.replicas"] == second["transaction.state.log.min.isr"] == "2"
    assert second["controller.quorum.voters"].startswith("1@127.0.0.1:9093,2@127.0.0.1:9095,")
    assert second["listeners"] == "PLAINTEXT://127.0.0.1:9094,CONTROLLER://127.0.0.1:9095"
    assert second["auto.create.topics.enable"] == "false"
