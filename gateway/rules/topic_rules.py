"""How many replicas the topics of a tenant have. Pure."""

from typing import Final

_REPLICATION_FACTOR_MAX: Final = 3


def replication_factor(brokers: int) -> int:
    """What a cluster of so many brokers gives every topic."""
    assert brokers >= 0
    return max(1, min(_REPLICATION_FACTOR_MAX, brokers))
