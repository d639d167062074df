"""Which brokers get the replicas of new partitions. Pure.

The first replica of partition i goes to broker (start + i) mod n, so leaders spread evenly; the others follow
at a distance that starts from `shift` and grows by one with each round of n partitions, so that the
followers of one broker's leaders spread evenly too. Start and shift are drawn by the caller: topics with few
partitions would otherwise pile up on the first brokers.
Source: seed 002 section 3.1.4; Kafka's AdminUtils.assignReplicasToBrokers (KIP-36 for racks).
"""

from collections.abc import Mapping, Sequence

Racks = Mapping[int, str | None]
"""Brokers that may get replicas, each with its rack."""


class TooFewBrokers(Exception):  # noqa: N818 - says what is so
    """A replication factor above the number of brokers."""


def assign_replicas(
    brokers: Racks, partitions: int, factor: int, *, start: int, shift: int, first_partition: int = 0
) -> list[tuple[int, ...]]:
    """Replicas of `partitions` partitions numbered from `first_partition`, the preferred leader first.

    Racks count when every broker has one: a partition's replicas are then in different racks as long as
    there are racks left. Raises: TooFewBrokers.
    Invariant: the replicas of a partition are distinct. Over any partitions the brokers' counts of first
    replicas differ by at most one; over whole rounds of n partitions their counts of replicas are equal
    (with racks: when these are of equal size and there are `factor` of them or more).
    """
    assert partitions >= 0 and factor >= 1 and start >= 0 and shift >= 0 and first_partition >= 0
    if factor > len(brokers):
        raise TooFewBrokers(f"{factor} replicas cannot be on {len(brokers)} brokers")
    racks = {broker: rack for broker, rack in brokers.items() if rack is not None}
    with_racks = len(racks) == len(brokers)
    order = _alternating(racks) if with_racks else sorted(brokers)
    rounds_before = max(first_partition - 1, 0) // len(order)
    assignment = []
    for index in range(first_partition, first_partition + partitions):
        first = (index + start) % len(order)
        grown_shift = shift + index // len(order) - rounds_before
        if with_racks:
            assignment.append(_spread_over_racks(order, racks, first, grown_shift, factor))
        else:
            assignment.append(_spread(order, first, grown_shift, factor))
    return assignment


def assign_added(
    brokers: Racks, existing: Sequence[Sequence[int]], added: int, *, start: int
) -> list[tuple[int, ...]]:
    """Replicas of partitions added to a topic: the same factor, going on where its first partition began.

    `start` stands in when the first partition's preferred leader is not among `brokers`. Raises:
    TooFewBrokers.
    """
    assert existing and added >= 0
    order = sorted(brokers)
    position = order.index(existing[0][0]) if existing[0][0] in brokers else start % max(len(order), 1)
    return assign_replicas(
        brokers, added, len(existing[0]), start=position, shift=position, first_partition=len(existing)
    )


def _follower(first: int, shift: int, j: int, count: int) -> int:
    """Position of the j-th replica after the first: never the first's own."""
    return (first + 1 + (shift + j) % (count - 1)) % count


def _spread(order: Sequence[int], first: int, shift: int, factor: int) -> tuple[int, ...]:
    followers = (order[_follower(first, shift, j, len(order))] for j in range(factor - 1))
    return (order[first], *followers)


def _spread_over_racks(
    order: Sequence[int], racks: Mapping[int, str], first: int, shift: int, factor: int
) -> tuple[int, ...]:
    """Spread, but pass over brokers in racks already used while there are unused ones."""
    rack_count = len(set(racks.values()))
    replicas = [order[first]]
    used_racks = {racks[order[first]]}
    j = 0
    while len(replicas) < factor:
        broker = order[_follower(first, shift * rack_count, j, len(order))]
        j += 1
        if broker in replicas or (racks[broker] in used_racks and len(used_racks) < rack_count):
            continue
        replicas.append(broker)
        used_racks.add(racks[broker])
    return tuple(replicas)


def _alternating(racks: Mapping[int, str]) -> list[int]:
    """Brokers in an order in which neighbours are of different racks where possible."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    lines = [by_rack[rack] for rack in sorted(by_rack)]
    return [line[place] for place in range(max(map(len, lines))) for line in lines if place < len(line)]
