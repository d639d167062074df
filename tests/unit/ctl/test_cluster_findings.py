"""What `portico doctor --cluster` makes of what it sees."""

from collections.abc import Iterable

from ctl.tools.cluster_findings import (
    BrokerFacts,
    ZooKeeperFacts,
    broker_findings,
    partition_findings,
    zookeeper_findings,
)
from ctl.tools.findings import Finding
from ctl.tools.partitions import PartitionRow


def row(partition: int, leader: int, isr: tuple[int, ...], offline: tuple[int, ...] = ()) -> PartitionRow:
    return PartitionRow("t", partition, leader, (1, 2, 3), isr, offline)


def levels(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    return [(one.level, one.subject) for one in findings]


def test_a_healthy_cluster() -> None:
    brokers = [BrokerFacts(each, 1, 2.0) for each in (1, 2, 3)]
    assert levels(broker_findings((1, 2, 3), brokers)) == [
        ("ok", "broker 1"),
        ("ok", "broker 2"),
        ("ok", "broker 3"),
        ("ok", "controller"),
    ]
    assert levels(partition_findings([row(0, 1, (1, 2, 3))], (1, 2, 3), {"t": 2})) == [("ok", "partitions")]


def test_a_dead_broker_is_one_line() -> None:
    rows = [row(each, 1, (1, 2), (3,)) for each in range(50)]
    (found,) = partition_findings(rows, (1, 2), {"t": 2})
    assert found.level == "warn"
    assert "50 under-replicated: t-0, t-1, t-2 and 47 more; broker 3 not running" in found.found
    missing = list(broker_findings((1, 2, 3), [BrokerFacts(each, 1) for each in (1, 2)]))
    assert missing[0].level == "bad" and missing[0].subject == "broker 3"


def test_partitions_that_refuse_producers_or_everybody() -> None:
    below, offline = row(0, 1, (1,), (2, 3)), row(1, -1, (3,), (3,))
    found = list(partition_findings([below, offline], (1, 2), {"t": 2}))
    assert [one.level for one in found] == ["bad", "bad"]
    assert "without a leader: t-1; broker 3 not running; broker 1, 2 not in sync" in found[0].found
    assert "min.insync.replicas" in found[1].found and "broker 3 not running" in found[1].found
    assert "broker 2 with a failed log directory" in found[1].found


def test_a_slow_follower() -> None:
    (found,) = partition_findings([row(0, 1, (1, 2))], (1, 2, 3), {"t": 2})
    assert "broker 3 behind" in found.found


def test_leaders_that_are_not_the_first_replicas() -> None:
    found = list(partition_findings([row(each, 2, (1, 2, 3)) for each in range(3)], (1, 2, 3), {}))
    assert found[-1].subject == "leaders" and "elect-preferred" in found[-1].advice


def test_opinions_about_the_controller() -> None:
    assert levels(broker_findings((), [BrokerFacts(1, -1)]))[-1] == ("bad", "controller")
    assert levels(broker_findings((), [BrokerFacts(1, 9)]))[-1] == ("bad", "controller")
    two = [BrokerFacts(1, 1), BrokerFacts(2, 2)]
    assert levels(broker_findings((), two))[-1] == ("warn", "controller")


def test_a_broker_in_trouble() -> None:
    silent = BrokerFacts(1, None, failure="timed out")
    sick = BrokerFacts(2, 2, 3.0, failed_directories=("/disk2",), clock_skew_ms=-5000, free_share=0.01)
    found = list(broker_findings((1, 2), [silent, sick]))
    assert [one.level for one in found] == ["bad", "ok", "bad", "warn", "bad", "ok"]
    assert "timed out" in found[0].found and "/disk2" in found[2].found
    assert "5.0 s behind" in found[3].found and "1% of its disk" in found[4].found


def test_zookeeper() -> None:
    assert levels(zookeeper_findings(ZooKeeperFacts("h:1", "refused"))) == [("bad", "zookeeper")]
    assert levels(zookeeper_findings(ZooKeeperFacts("h:1", None, 900, 1))) == [("warn", "zookeeper")]
    unclean = list(zookeeper_findings(ZooKeeperFacts("h:1", None, 9, 1, (2,))))
    assert levels(unclean) == [("ok", "zookeeper"), ("warn", "broker 2")]


def test_topics_from_when_there_was_one_broker() -> None:
    rows = [PartitionRow("old", each, 1, (1,), (1,), ()) for each in range(5)]
    found = [one for one in partition_findings(rows, (1, 2, 3), {}) if one.level == "warn"]
    assert "5 with a single replica: old-0, old-1, old-2 and 2 more" in found[0].found
    assert "--replication-factor 3" in found[0].advice
    assert [one.level for one in partition_findings(rows, (1,), {})] == ["ok"]
