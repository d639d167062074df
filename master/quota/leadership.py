"""Which points lead what of one instance: their own word, and of those not heard of, the others' metadata.

A silent broker's share stays reserved while it may still serve. What the cluster moved away from it, it no
longer serves: the others report so, from the controller's word, and its share is free at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from master.quota.ledger import Entry


@dataclass(frozen=True, slots=True)
class Heard:
    """One point's entry, and how long ago the point was heard of."""

    entry: Entry
    age_ms: int


@dataclass(frozen=True, slots=True)
class Leadership:
    """The entries that lead something, in the order given, with the age of their word and who is silent."""

    entries: tuple[Entry, ...]
    ages_ms: tuple[int, ...]
    silent: tuple[bool, ...]
    is_settled: bool
    """Every partition is counted once. During a move two points, or none, may count it as theirs."""


def leadership(heard: Sequence[Heard], *, silent_ms: int, late_ms: int) -> Leadership:
    """`late_ms` without a report make room for others' newer word, `silent_ms` for anybody's."""
    assert 0 < late_ms <= silent_ms
    newest = _newest([one for one in heard if one.age_ms < silent_ms])
    entries, ages_ms, silent = [], [], []
    for one in heard:
        entry = _as_led(one, newest, silent_ms, late_ms)
        if entry.partitions_led > 0:
            entries.append(entry)
            ages_ms.append(one.age_ms)
            silent.append(one.age_ms >= silent_ms)
    counted = sum(entry.partitions_led for entry in entries)
    settled = newest is None or counted == sum(newest.leaders.values())
    return Leadership(tuple(entries), tuple(ages_ms), tuple(silent), settled)


def _newest(heard: Sequence[Heard]) -> Entry | None:
    """The entry with the newest word on all leaders; of equal ones the one heard last."""
    knowing = [one for one in heard if one.entry.leaders]
    if not knowing:
        return None
    return max(knowing, key=lambda one: (one.entry.leaders_version, -one.age_ms)).entry


def _as_led(one: Heard, newest: Entry | None, silent_ms: int, late_ms: int) -> Entry:
    """The entry with n as it is now: a point that reports knows best what it leads itself."""
    entry = one.entry
    if newest is None or one.age_ms < late_ms:
        return entry
    is_outdated = newest.leaders_version > entry.leaders_version
    if not is_outdated and one.age_ms < silent_ms:
        return entry
    return _leading(entry, newest.leaders)


def _leading(entry: Entry, leaders: Mapping[int, int]) -> Entry:
    """The part of the stored bytes that goes with the partitions that are left, taking them to be alike."""
    led = leaders.get(entry.node_id, 0)
    if led == entry.partitions_led:
        return entry
    stored = entry.stored_bytes * min(led, entry.partitions_led) // max(1, entry.partitions_led)
    return replace(entry, partitions_led=led, stored_bytes=stored)
