"""How far consumer groups are behind, by group and topic: looked at now and then, away from every request.

What tenants name is bounded: of each instance the groups and topics with most lag are told by name, the
others as one sum.
"""

import asyncio
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from contracts.names import owner_of

if TYPE_CHECKING:
    from prometheus_client.core import Metric

LOOK_EVERY_S: Final = 15.0
NAMED_PER_INSTANCE: Final = 20
"""Group and topic pairs of an instance that are told by name, those with most lag."""
NAMED_MAX: Final = 2_000
"""Pairs of all instances that are named: beyond it, those with least lag are told in the sums."""
PARTITIONS_AT_ONCE: Final = 500
"""Looked at before requests get their turn: a fraction of a millisecond."""
_NAME_LENGTH_MAX: Final = 200
_SCOPE_LENGTH: Final = 13

Committed = Iterable[tuple[str, str, int, int]]
"""(group, topic, partition, committed offset), names as the broker knows them."""
EndOffset = Callable[[str, int], int | None]
"""End offset of a partition; None: no replica of it is here."""


class PairLag(NamedTuple):
    """Lag of one group in one topic, over its partitions."""

    instance_id: str
    group: str
    topic: str
    records: int


class Lags(NamedTuple):
    """What is told."""

    named: tuple[PairLag, ...] = ()
    rest: tuple[tuple[str, int], ...] = ()
    """(instance, records) of the pairs that are not named."""
    unknown: tuple[tuple[str, int], ...] = ()
    """(instance, partitions with a committed offset of which no replica is here)."""


def summed(committed: Committed, end_offset: EndOffset) -> Iterator[tuple[str, str, str, int | None]]:
    """(instance, group, topic, lag) of each committed offset that an instance has; pure."""
    for group, topic, partition, offset in committed:
        instance_id = owner_of(group)
        if instance_id is not None:
            end = end_offset(topic, partition)
            lag = None if end is None else max(0, end - offset)
            yield instance_id, group[_SCOPE_LENGTH:], topic[_SCOPE_LENGTH:], lag


def told(pairs: dict[tuple[str, str, str], int], unknown: dict[str, int]) -> Lags:
    """What of all pairs is told by name, and the sums of the others."""
    by_lag = sorted(pairs.items(), key=lambda each: (-each[1], each[0]))
    named: list[PairLag] = []
    of_instance: defaultdict[str, int] = defaultdict(int)
    rest: dict[str, int] = dict.fromkeys((instance_id for instance_id, _group, _topic in pairs), 0)
    for (instance_id, group, topic), records in by_lag:
        if of_instance[instance_id] < NAMED_PER_INSTANCE and len(named) < NAMED_MAX:
            of_instance[instance_id] += 1
            named.append(PairLag(instance_id, shown_name(group), shown_name(topic), records))
        else:
            rest[instance_id] += records
    return Lags(tuple(named), tuple(sorted(rest.items())), tuple(sorted(unknown.items())))


def shown_name(name: str) -> str:
    """A name as a label's value: a long one is cut, and told apart by its checksum."""
    if len(name) <= _NAME_LENGTH_MAX:
        return name
    return f"{name[:_NAME_LENGTH_MAX]}~{zlib.crc32(name.encode()):08x}"


class GroupLag:
    """Looks, keeps what it saw, and is a collector of it."""

    def __init__(self, committed: Callable[[], Committed], end_offset: EndOffset) -> None:
        """`committed` is iterated over a while: what changes meanwhile must not break it."""
        self._committed = committed
        self._end_offset = end_offset
        self.lags = Lags()
        """What the last look found; replaced, never changed."""
        self.looks = 0

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Go through all committed offsets, in portions."""
        pairs: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        unknown: defaultdict[str, int] = defaultdict(int)
        for number, (instance_id, group, topic, lag) in enumerate(
            summed(self._committed(), self._end_offset), start=1
        ):
            if lag is None:
                unknown[instance_id] += 1
            else:
                pairs[instance_id, group, topic] += lag
            if number % PARTITIONS_AT_ONCE == 0:
                await asyncio.sleep(0)
        self.lags = told(pairs, unknown)
        self.looks += 1

    def collect(self) -> "Iterable[Metric]":
        """For the registry."""
        from prometheus_client.core import GaugeMetricFamily

        def gauge(name: str, text: str, labels: list[str], values: Iterable[tuple[Any, ...]]) -> "Metric":
            family = GaugeMetricFamily(name, text, labels=labels)
            for *named, value in values:
                family.add_metric([str(each) for each in named], value)
            return family

        lags = self.lags
        yield gauge(
            "portico_group_lag_records",
            "Records that a group has not committed yet, of an instance's pairs of group and topic with most",
            ["instance", "group", "topic"],
            lags.named,
        )
        yield gauge(
            "portico_group_lag_rest_records",
            "The same of its other pairs, summed",
            ["instance"],
            lags.rest,
        )
        yield gauge(
            "portico_group_lag_unknown_partitions",
            "Partitions with a committed offset that have no replica on the group's coordinator",
            ["instance"],
            lags.unknown,
        )
