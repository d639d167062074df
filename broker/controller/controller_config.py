"""Settings of the controller."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class InternalTopic(NamedTuple):
    """A topic the controller creates by itself."""

    name: str
    partitions: int
    configs: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """What a controller decides by; the same on every broker of a cluster. Restart to change."""

    default_partitions: int = 1
    """num.partitions."""
    default_replication_factor: int | None = None
    """None: three, or as many as there are brokers if there are fewer."""
    partitions_per_broker_max: int = 20_000
    """Replicas a broker may hold; topics that need more are refused with POLICY_VIOLATION."""
    internal_topics: tuple[InternalTopic, ...] = ()
    internal_replication_factor: int = 3
    """Replicas of internal topics: they are created when as many brokers live (KIP-115)."""
    unclean_leader_election_enable: bool = False
    """Whether, in topics that do not say, a replica out of sync may lead when no other is left."""
    delete_topic_enable: bool = True
    """False: deletions are recorded in the tree, not carried out."""
    auto_leader_rebalance_enable: bool = True
    """Whether preferred replicas get leadership back by themselves."""
    leader_imbalance_check_interval_seconds: int = 300
    leaders_rest_ms: int = 30_000
    """How long brokers neither come nor go before leadership is given back. A leader that returns at once is
    too much for librdkafka: it may go on producing to the one in between for ever (its issue 4976)."""
    leader_imbalance_per_broker_percentage: int = 10
    """Tolerated share of the partitions that prefer a broker and are led elsewhere."""
