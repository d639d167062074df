"""What the members of a group read and committed, and what must not be so."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Event(NamedTuple):
    """One line that a member told: `read` an offset, or `committed` the one to read next."""

    what: str
    partition: int
    offset: int
    at_ns: int


def events(told: Iterable[str]) -> list[Event]:
    """Of all members, in the order of time. Other lines are for people; one that a kill cut short is none."""
    found = []
    for line in told:
        words = line.split(" ")
        if words[0] in ("read", "committed") and len(words) == 4 and line.endswith("\n"):
            found.append(Event(words[0], *map(int, words[1:])))
    return sorted(found, key=lambda event: event.at_ns)


def faults(history: Iterable[Event], ends: Mapping[int, int]) -> list[str]:
    """Records that nobody read, and such that were read when a later offset had been committed before.

    `ends` has the offset behind the last record, by partition.
    """
    read: dict[int, set[int]] = {partition: set() for partition in ends}
    committed = dict.fromkeys(ends, 0)
    found = []
    for what, partition, offset, _ in history:
        if what == "committed":
            committed[partition] = max(committed[partition], offset)
            continue
        if offset < committed[partition]:
            found.append(f"{offset} of {partition} is read again, committed is {committed[partition]}")
        read[partition].add(offset)
    for partition, end in ends.items():
        lost = set(range(end)) - read[partition]
        if lost:
            found.append(f"{len(lost)} of {partition} are lost, the first is {min(lost)}")
    return found
