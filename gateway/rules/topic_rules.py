"""How many replicas the topics of a tenant have, and what a tenant's own placement of them says. Pure."""

from collections.abc import Collection, Sequence
from typing import Final

_REPLICATION_FACTOR_MAX: Final = 3


def replication_factor(brokers: int) -> int:
    """What a cluster of so many brokers gives a topic by itself, and at most."""
    assert brokers >= 0
    return max(1, min(_REPLICATION_FACTOR_MAX, brokers))


def placement_fault(placed: Sequence[Sequence[int]], brokers: Collection[int]) -> str | None:
    """What keeps the replicas of some partitions, named by broker ids, from being a number of replicas.

    Where they go is the cluster's: a placement counts, as long as it could be had.
    """
    for replicas in placed:
        if not replicas:
            return "a partition without replicas"
        if len(set(replicas)) != len(replicas):
            return "a broker that is named twice for a partition"
        unknown = [each for each in replicas if each not in brokers]
        if unknown:
            return f"broker {unknown[0]} is not known"
    if len({len(replicas) for replicas in placed}) > 1:
        return "all partitions must have the same number of replicas"
    return None
