"""What is known to be damaged in a log: ranges of offsets, and why. Pure.

A range lasts until its records are fetched anew from another replica, or leave the log at its start. Who asks
for an offset in one gets CORRUPT_MESSAGE, as with Kafka: a gap that nobody hears of is worse.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from broker.log.checkpoint_text import CheckpointCorrupt, entries_of, formatted

RANGES_MAX: Final = 1_000
"""Ranges of one log; more become one from the first to the last."""


class DamageKind(Enum):
    """The values stand in the checkpoint."""

    SHORT = "short"
    """A closed segment's file is shorter, or longer, than it was."""
    MISSING = "missing"
    """A closed segment's file is gone."""
    CONTENT = "content"
    """Bytes are not what was written: CRC, lengths, offsets or epochs do not fit."""
    END = "end"
    """The log ended in front of what was committed when it was opened. Its offsets are given anew."""

    @property
    def shows_at_start(self) -> bool:
        """Whether every start finds it anew: then files that were put back are well again."""
        return self in (DamageKind.SHORT, DamageKind.MISSING)

    @property
    def is_hole(self) -> bool:
        """Whether nothing is readable there."""
        return self is not DamageKind.END


class Damage(NamedTuple):
    """Offsets `first`..`next`, exclusive."""

    first_offset: int
    next_offset: int
    kind: DamageKind


def merged(damage: Iterable[Damage]) -> tuple[Damage, ...]:
    """Sorted, those of one kind that touch as one, and not too many."""
    found: list[Damage] = []
    for each in sorted(set(damage), key=lambda one: (one.kind.value, one[:2])):
        if found and found[-1].kind is each.kind and each.first_offset <= found[-1].next_offset:
            found[-1] = found[-1]._replace(next_offset=max(found[-1].next_offset, each.next_offset))
        else:
            found.append(each)
    if len(found) > RANGES_MAX:
        found = [Damage(min(found)[0], max(each.next_offset for each in found), DamageKind.CONTENT)]
    return tuple(sorted(found, key=lambda one: one[:2]))


def within(damage: Iterable[Damage], start: int, end: int) -> tuple[Damage, ...]:
    """What of it still matters in a log that holds `start`..`end`."""
    kept = []
    for each in damage:
        first, following = max(each.first_offset, start), each.next_offset
        if each.kind.is_hole:
            following = min(following, end)
        if first < following:
            kept.append(each._replace(first_offset=first, next_offset=following))
    return tuple(kept)


def hole_at(damage: Iterable[Damage], offset: int) -> Damage | None:
    """The range in which nothing can be read at this offset."""
    for each in damage:
        if each.first_offset <= offset < each.next_offset and each.kind.is_hole:
            return each
    return None


class KnownDamage:
    """Ranges of one log that are known to be lost or damaged. Invariant: sorted, and none of them outside of
    the log."""

    __slots__ = ("ranges",)

    def __init__(self, ranges: tuple[Damage, ...]) -> None:
        self.ranges = ranges

    def note(self, found: Iterable[Damage], start: int, end: int) -> bool:
        """More of a log that holds `start`..`end` is damaged; whether that is news."""
        before = self.ranges
        self.ranges = within(merged((*before, *found)), start, end)
        return self.ranges != before

    def stay_within(self, start: int, end: int) -> None:
        """The log has a new start or end."""
        if self.ranges:
            self.ranges = within(self.ranges, start, end)

    def forget_ends(self, up_to: int) -> None:
        """A log that has everything below `up_to` again has lost nothing at its end."""
        self.ranges = tuple(each for each in self.ranges if each.kind.is_hole or up_to < each.next_offset)

    def forget_all(self) -> None:
        self.ranges = ()


Key = tuple[str, int]


def format_damage(damage: Mapping[Key, tuple[Damage, ...]]) -> str:
    """`topic partition firstOffset nextOffset kind` lines."""
    return formatted(
        f"{topic} {partition} {each.first_offset} {each.next_offset} {each.kind.value}"
        for (topic, partition), ranges in damage.items()
        for each in ranges
    )


def parse_damage(text: str) -> dict[Key, tuple[Damage, ...]]:
    """Raises: CheckpointCorrupt."""
    found: dict[Key, list[Damage]] = {}
    for topic, partition, first_offset, next_offset, kind in entries_of(text, 5):
        try:
            damage = Damage(int(first_offset), int(next_offset), DamageKind(kind))
            found.setdefault((topic, int(partition)), []).append(damage)
        except ValueError as error:
            raise CheckpointCorrupt(str(error)) from error
    return {key: merged(ranges) for key, ranges in found.items()}
