"""A limit on the traffic of replicas that catch up, set by an operator for a reassignment (KIP-73). Pure.

Only replicas that a topic's `*.replication.throttled.replicas` names count, and only while they are out of
sync: what keeps the ISR whole is never held back. The rate is a broker's, from its dynamic configs.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, Protocol

from contracts.cluster import UpdateMetadataPartitionState

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
_BURST_MS: Final = 1_000
_EVERY: Final = "*"


class ThrottleView(Protocol):
    """What is asked of the MetadataCache."""

    broker_configs: Mapping[str, Mapping[str, str]]

    def configs(self, name: str) -> Mapping[str, str]:
        """A topic's layer of configs."""

    def partition(self, name: str, index: int) -> UpdateMetadataPartitionState | None:
        """The state of one partition."""


class ReplicationThrottle:
    """One direction of one broker: a token bucket that holds a second of the rate, and may go into debt."""

    def __init__(self, broker_id: int, cluster: ThrottleView, side: str) -> None:
        self._names = (str(broker_id), "")
        self._cluster = cluster
        self._rate_key = f"{side}.replication.throttled.rate"
        self._replicas_key = f"{side}.replication.throttled.replicas"
        self._tokens = 0.0
        self._filled_ms = 0
        self._rate: int | None = None

    def applies(self, topic: str, partition: int, replica_id: int) -> bool:
        """Whether traffic to this replica counts: it is named, out of sync, and there is a rate."""
        if not self._cluster.broker_configs or self._rate_now() is None:
            return False
        named = self._cluster.configs(topic).get(self._replicas_key)
        if not named or not _names(named, partition, replica_id):
            return False
        state = self._cluster.partition(topic, partition)
        return state is None or replica_id not in state.isr

    def allowance(self, now_ms: int) -> int:
        """Bytes that may go now; below zero there is a debt."""
        rate = self._rate_now()
        assert rate is not None, "asked only where it applies"
        if rate != self._rate:
            self._rate, self._tokens, self._filled_ms = rate, float(rate), now_ms
        burst = rate * _BURST_MS / 1000
        self._tokens = min(burst, self._tokens + rate * (now_ms - self._filled_ms) / 1000)
        self._filled_ms = now_ms
        return int(self._tokens)

    def charge(self, size_bytes: int) -> None:
        """So many bytes went."""
        self._tokens -= size_bytes

    def wait_ms(self) -> int:
        """Until there is an allowance again, as of the last `allowance`."""
        if self._tokens >= 1 or not self._rate:
            return 0
        return int(1000 * (1 - self._tokens) / self._rate) + 1

    def _rate_now(self) -> int | None:
        for name in self._names:
            text = self._cluster.broker_configs.get(name, {}).get(self._rate_key)
            if text is not None and text.isdecimal() and int(text) > 0:
                return int(text)
        return None


@lru_cache(maxsize=1024)
def _parsed(text: str) -> frozenset[tuple[int, int]] | None:
    """(partition, replica) of each entry; None: every one. The config was checked when it was set."""
    if text.strip() == _EVERY:
        return None
    pairs = (entry.partition(":") for entry in text.split(",") if entry.strip())
    return frozenset((int(partition), int(replica)) for partition, _, replica in pairs)


def _names(text: str, partition: int, replica_id: int) -> bool:
    parsed = _parsed(text)
    return parsed is None or (partition, replica_id) in parsed
