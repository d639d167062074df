"""Who shall read which partitions of a consumer group: Kafka's server-side assignors `uniform` and `range`.

Both take who subscribes to what and what members should have had so far, and give each member its target.
`uniform` moves as little as it can; `range` gives each member a run of each topic.
"""

import heapq
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from broker.groups.consumer_records import NO_PARTITIONS, Partitions

Target: TypeAlias = dict[str, Partitions]


class Subscription(NamedTuple):
    """One member, as an assignor sees it."""

    instance_id: str | None
    topic_ids: frozenset[UUID]
    """Topics that it subscribes to and that are there."""


Members: TypeAlias = Mapping[str, Subscription]
Sizes: TypeAlias = Mapping[UUID, int]
"""How many partitions the topics have."""
Assignor: TypeAlias = Callable[[Members, Sizes, Mapping[str, Partitions]], Target]

_ONE_MORE: Final = "\U0010ffff"
"""A member id behind all others, as one is that has nothing yet."""


class _Shares:
    """What members get, while it is shared out."""

    def __init__(self, members: Members, sizes: Sizes, former: Mapping[str, Partitions]) -> None:
        self.members: Final = members
        self.given: dict[str, dict[UUID, set[int]]] = {member_id: {} for member_id in members}
        self.counts = dict.fromkeys(members, 0)
        self.free = {topic_id: set(range(sizes[topic_id])) for topic_id in sorted(sizes)}
        """Nobody's partitions."""
        self.former = former

    def keep(self, member_id: str, count_max: int | None) -> None:
        """Let a member keep what it had, up to so many."""
        subscribed = self.members[member_id].topic_ids
        for topic_id, indexes in self.former.get(member_id, NO_PARTITIONS).items():
            if topic_id not in subscribed or topic_id not in self.free:
                continue
            for index in sorted(indexes & self.free[topic_id]):
                if count_max is not None and self.counts[member_id] >= count_max:
                    return
                self.free[topic_id].discard(index)
                self.give(member_id, topic_id, index)

    def give(self, member_id: str, topic_id: UUID, index: int) -> None:
        """A partition has a new owner."""
        self.given[member_id].setdefault(topic_id, set()).add(index)
        self.counts[member_id] += 1

    def take(self, member_id: str, topic_id: UUID) -> int:
        """Take a member's last partition of a topic from it."""
        index = max(self.given[member_id][topic_id])
        self.given[member_id][topic_id].discard(index)
        if not self.given[member_id][topic_id]:
            del self.given[member_id][topic_id]
        self.counts[member_id] -= 1
        return index

    def target(self) -> Target:
        """What everybody has now."""
        return {
            member_id: {topic_id: frozenset(indexes) for topic_id, indexes in given.items()}
            for member_id, given in self.given.items()
        }


def uniform(members: Members, sizes: Sizes, former: Mapping[str, Partitions]) -> Target:
    """As many partitions for each member as for every other, as far as subscriptions allow."""
    if not members:
        return {}
    subscriptions = {member.topic_ids for member in members.values()}
    if len(subscriptions) == 1:
        (topic_ids,) = subscriptions
        return _among_equals(_Shares(members, {key: sizes[key] for key in topic_ids}, former))
    return _among_different(_Shares(members, sizes, former))


def _among_equals(shares: _Shares) -> Target:
    """All subscribe to the same: quotas differ by one at most, and who had most keeps the larger ones."""
    total = sum(map(len, shares.free.values()))
    quota, larger = divmod(total, len(shares.members))
    order = sorted(shares.members, key=lambda key: (-_size(shares, key), key))
    quotas = {member_id: quota + (at < larger) for at, member_id in enumerate(order)}
    for member_id in order:
        shares.keep(member_id, quotas[member_id])
    free = iter([(topic_id, index) for topic_id, indexes in shares.free.items() for index in sorted(indexes)])
    for member_id in order:
        while shares.counts[member_id] < quotas[member_id]:
            shares.give(member_id, *next(free))
    return shares.target()


def _size(shares: _Shares, member_id: str) -> int:
    former = shares.former.get(member_id, NO_PARTITIONS)
    return sum(len(indexes & shares.free.get(topic_id, set())) for topic_id, indexes in former.items())


def _among_different(shares: _Shares) -> Target:
    """Free partitions go to the subscriber that has least; then who has two more gives one away."""
    subscribers: dict[UUID, list[str]] = {topic_id: [] for topic_id in shares.free}
    for member_id in sorted(shares.members):
        shares.keep(member_id, None)
        for topic_id in shares.members[member_id].topic_ids:
            subscribers[topic_id].append(member_id)
    # Topics that few read first: their readers can take nothing else.
    for topic_id in sorted(shares.free, key=lambda key: (len(subscribers[key]), key)):
        heap = [(shares.counts[member_id], member_id) for member_id in subscribers[topic_id]]
        heapq.heapify(heap)
        for index in sorted(shares.free[topic_id]) if heap else ():
            count, member_id = heap[0]
            shares.give(member_id, topic_id, index)
            heapq.heapreplace(heap, (count + 1, member_id))
    for topic_id, readers in subscribers.items():
        _level(shares, topic_id, readers)
    return shares.target()


def _level(shares: _Shares, topic_id: UUID, readers: list[str]) -> None:
    """Move partitions of one topic from its readers with most to those with least."""
    least = [(shares.counts[member_id], member_id) for member_id in readers]
    most = [(-shares.counts[key], key) for key in readers if topic_id in shares.given[key]]
    heapq.heapify(least)
    heapq.heapify(most)
    while most and least:
        negative, giver = heapq.heappop(most)
        if -negative != shares.counts[giver] or topic_id not in shares.given[giver]:
            continue
        count, taker = heapq.heappop(least)
        if count != shares.counts[taker]:
            heapq.heappush(least, (shares.counts[taker], taker))
            heapq.heappush(most, (negative, giver))
            continue
        if -negative - count < 2:
            return
        shares.give(taker, topic_id, shares.take(giver, topic_id))
        heapq.heappush(least, (shares.counts[taker], taker))
        heapq.heappush(most, (-shares.counts[giver], giver))


def range_(members: Members, sizes: Sizes, former: Mapping[str, Partitions]) -> Target:  # noqa: ARG001 - see Assignor
    """Each topic in runs, in the order of the members: static ones by their instance id."""
    order = sorted(members, key=lambda key: (members[key].instance_id or key, key))
    given: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    readers: dict[UUID, list[str]] = {}
    for member_id in order:
        for topic_id in members[member_id].topic_ids:
            readers.setdefault(topic_id, []).append(member_id)
    for topic_id, member_ids in readers.items():
        quota, larger = divmod(sizes[topic_id], len(member_ids))
        start = 0
        for at, member_id in enumerate(member_ids):
            end = start + quota + (at < larger)
            if end > start:
                given[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(given)


def movers(assign: Assignor, target: Mapping[str, Partitions]) -> frozenset[str]:
    """Members that would give a partition if one more came, or be given one if one left, as if all subscribed
    to the same.

    `uniform` moves one of each: of n members with p partitions about p / n give and as many are given, never
    many more than the root of p. `range` moves nearly everybody. Who leaves is not known: whoever it is, what
    it had goes to those to whom it would go from the member with most, or to that one.
    """
    sizes: dict[UUID, int] = {}
    for partitions in target.values():
        for topic_id, indexes in partitions.items():
            sizes[topic_id] = max(sizes.get(topic_id, 0), max(indexes, default=-1) + 1)
    subscription = Subscription(None, frozenset(sizes))
    found = _moved(target, assign(dict.fromkeys([*target, _ONE_MORE], subscription), sizes, target))
    order = sorted(target, key=lambda key: (-sum(map(len, target[key].values())), key))
    if len(order) > 1:
        left = {member_id: target[member_id] for member_id in order[1:]}
        found |= {order[0]} | _moved(left, assign(dict.fromkeys(left, subscription), sizes, left))
    return found


def _moved(before: Mapping[str, Partitions], after: Target) -> frozenset[str]:
    return frozenset(member_id for member_id, had in before.items() if had != after[member_id])


ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": uniform, "range": range_}
"""By the names that clients ask for."""
DEFAULT_ASSIGNOR: Final = "uniform"
