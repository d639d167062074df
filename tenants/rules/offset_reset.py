"""Where a group's committed offsets are set to: the rules, without asking anybody. Pure.

A target outside of a partition's log is moved to its nearest end, as Kafka's own tool does: a consumer would
otherwise start by its `auto.offset.reset`.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from tenants.rules.lifecycle import Fault

TopicPartition = tuple[str, int]


class ResetTo(StrEnum):
    """What the new offsets are taken from."""

    EARLIEST = "earliest"
    LATEST = "latest"
    DATETIME = "datetime"
    """The first record at or after a time; the end where there is none."""
    OFFSET = "offset"
    """One offset in every partition."""
    SHIFT = "shift"
    """So many records from the committed offset: backwards below zero."""
    OFFSETS = "offsets"
    """An offset for each partition, as a file lists them."""


class Wish(NamedTuple):
    """What was asked for. The fields belong to one `to` each."""

    to: ResetTo
    at_ms: int | None = None
    offset: int | None = None
    shift: int | None = None
    offsets: Mapping[TopicPartition, int] = {}


class Known(NamedTuple):
    """What is known of one partition. None: it has no leader, or the group has nothing committed."""

    log_start_offset: int | None
    log_end_offset: int | None
    committed_offset: int | None
    offset_at_time: int | None = None
    """-1: no record is that young."""


class Planned(NamedTuple):
    """One partition's new offset; None where there can be none, `note` says why or what was changed."""

    topic: str
    partition: int
    committed_offset: int | None
    new_offset: int | None
    note: str | None


_NEEDS = {
    ResetTo.DATETIME: ("at", "a time"),
    ResetTo.OFFSET: ("offset", "an offset"),
    ResetTo.SHIFT: ("shift", "a number of records"),
    ResetTo.OFFSETS: ("offsets", "an offset for each partition"),
}


def wish_faults(to: ResetTo, given: Iterable[str]) -> list[Fault]:
    """Fields that are missing, or that mean nothing with this `to`. `given`: names of those with a value."""
    present = set(given)
    wanted, what = _NEEDS.get(to, ("", ""))
    faults = [Fault(name, f"means nothing when resetting to {to}") for name in sorted(present - {wanted})]
    if wanted and wanted not in present:
        faults.append(Fault(wanted, f"resetting to {to} needs {what}"))
    return faults


def plan(wish: Wish, known: Mapping[TopicPartition, Known]) -> list[Planned]:
    """The new offset of every partition, sorted."""
    return [_planned(wish, topic, partition, facts) for (topic, partition), facts in sorted(known.items())]


def _planned(wish: Wish, topic: str, partition: int, facts: Known) -> Planned:
    start, end = facts.log_start_offset, facts.log_end_offset
    if start is None or end is None:
        return Planned(topic, partition, facts.committed_offset, None, "the partition has no leader now")
    wanted = _wanted(wish, (topic, partition), facts, start, end)
    if wanted is None:
        return Planned(topic, partition, facts.committed_offset, None, "nothing is committed to shift from")
    new = min(max(wanted, start), end)
    note = None if new == wanted else f"{wanted} is outside of the log, which has {start} to {end}"
    return Planned(topic, partition, facts.committed_offset, new, note)


def _wanted(wish: Wish, key: TopicPartition, facts: Known, start: int, end: int) -> int | None:
    match wish.to:
        case ResetTo.EARLIEST:
            return start
        case ResetTo.LATEST:
            return end
        case ResetTo.DATETIME:
            found = facts.offset_at_time
            return end if found is None or found < 0 else found
        case ResetTo.SHIFT:
            assert wish.shift is not None
            return None if facts.committed_offset is None else facts.committed_offset + wish.shift
        case ResetTo.OFFSETS:
            return wish.offsets[key]
    assert wish.offset is not None
    return wish.offset
