"""The limit on replicas that catch up."""

from collections.abc import Mapping

from broker.replication.throttle import LEADER, ReplicationThrottle
from contracts.cluster import UpdateMetadataPartitionState

RATE = "leader.replication.throttled.rate"
REPLICAS = "leader.replication.throttled.replicas"


class Cluster:
    """What a MetadataCache says."""

    def __init__(self, rates: Mapping[str, str], replicas: str, isr: tuple[int, ...] = (1, 2)) -> None:
        self.broker_configs = {name: {RATE: rate} for name, rate in rates.items()}
        self._replicas = replicas
        self._isr = isr

    def configs(self, name: str) -> Mapping[str, str]:
        return {REPLICAS: self._replicas} if name == "t" else {}

    def partition(self, name: str, index: int) -> UpdateMetadataPartitionState | None:
        return UpdateMetadataPartitionState(
            topic=name,
            partition=index,
            controller_epoch=1,
            leader=1,
            leader_epoch=1,
            isr=self._isr,
            partition_epoch=1,
            replicas=(1, 2, 4),
        )


def throttle(rates: Mapping[str, str], replicas: str = "0:4") -> ReplicationThrottle:
    return ReplicationThrottle(1, Cluster(rates, replicas), LEADER)


def test_only_named_replicas_that_are_out_of_sync_count() -> None:
    limit = throttle({"1": "1000"})
    assert limit.applies("t", 0, 4)
    assert not limit.applies("t", 1, 4)
    assert not limit.applies("t", 0, 2)
    assert not limit.applies("u", 0, 4)
    every = throttle({"1": "1000"}, "*")
    assert every.applies("t", 7, 4)
    assert not every.applies("t", 7, 2), "in sync"


def test_the_rate_is_the_brokers_else_the_clusters() -> None:
    assert not throttle({}).applies("t", 0, 4)
    assert not throttle({"2": "1000"}).applies("t", 0, 4)
    assert throttle({"": "500"}).allowance(0) == 500
    assert throttle({"": "500", "1": "900"}).allowance(0) == 900


def test_a_second_of_the_rate_then_debt_then_more() -> None:
    limit = throttle({"1": "1000"})
    assert limit.allowance(10_000) == 1000
    limit.charge(2500)
    assert limit.allowance(10_000) == -1500
    assert limit.wait_ms() in range(1501, 1504)
    assert limit.allowance(11_000) == -500
    assert limit.allowance(12_000) == 500
    assert limit.allowance(60_000) == 1000
    assert limit.wait_ms() == 0
