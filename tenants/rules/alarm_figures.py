"""Figures of alarms over time: windows of samples, and what they say in words. Pure."""

import math
from collections import deque
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from contracts.quota_view import DirectionQuota, QuotaView
from tenants.rules.alarms import LOOK_EVERY_MS, Finding, Rule
from tenants.rules.record_time import Oldest

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_COVERED: Final = 0.7
"""Of the looks of a window, so many must have told something before it says that all is well."""
_GROWTH_MS_MIN: Final = 600_000
"""A growth over less says nothing of the hours to come."""
LAGS_EVERY_MS: Final = 60_000
"""Lags are asked for so often."""
UNKNOWN_LOOKS: Final = 10
"""Looks in a row after which nobody waits any more for an age that is not known."""
NO_MASTER: Final = "the quota master does not tell this instance's figures"
NO_GATEWAY: Final = "no gateway reports"


@dataclass(frozen=True, slots=True)
class Minute:
    """Samples of one minute: their sum, how many, and the last."""

    number: int
    total: float
    count: int
    last: float


@dataclass(slots=True)
class Window:
    """Samples of the last minutes, summed up by the minute."""

    _minutes: deque[Minute] = field(default_factory=deque)

    def add(self, now_ms: int, value: float, minutes: int) -> None:
        """Take a sample, and let go of what is older than the window."""
        number = now_ms // _MINUTE_MS
        if self._minutes and self._minutes[-1].number == number:
            last = self._minutes.pop()
            self._minutes.append(Minute(number, last.total + value, last.count + 1, value))
        else:
            self._minutes.append(Minute(number, value, 1, value))
        while self._minutes and self._minutes[0].number < number - minutes:
            self._minutes.popleft()

    def _within(self, now_ms: int, minutes: int) -> list[Minute]:
        """The minute that is not over comes on top: each of those before counts whole."""
        oldest = now_ms // _MINUTE_MS - minutes
        return [one for one in self._minutes if one.number >= oldest]

    def total(self, now_ms: int, minutes: int) -> float:
        """The sum of the samples."""
        return sum(one.total for one in self._within(now_ms, minutes))

    def mean(self, now_ms: int, minutes: int) -> float:
        """Of the samples that there are; 0 without any."""
        within = self._within(now_ms, minutes)
        count = sum(one.count for one in within)
        return sum(one.total for one in within) / count if count else 0.0

    def is_covered(self, now_ms: int, minutes: int) -> bool:
        """Whether enough of the window was looked at to say that nothing happened in it."""
        wanted = _COVERED * minutes * _MINUTE_MS / LOOK_EVERY_MS
        return sum(one.count for one in self._within(now_ms, minutes)) >= wanted

    def growth_per_hour(self, now_ms: int, minutes: int) -> float | None:
        """Of the last sample over the first; None: over too little time to say."""
        within = self._within(now_ms, minutes)
        if len(within) < 2 or (within[-1].number - within[0].number) * _MINUTE_MS < min(
            _GROWTH_MS_MIN, minutes * _MINUTE_MS * _COVERED
        ):
            return None
        hours = (within[-1].number - within[0].number) * _MINUTE_MS / _HOUR_MS
        return (within[-1].last - within[0].last) / hours


class Count(NamedTuple):
    """A counter of somebody that grows from 0 in each of its boots."""

    boot_id: str
    value: int


@dataclass(slots=True)
class Counted:
    """Counters of several, as samples of their growth."""

    window: Window = field(default_factory=Window)
    _last: Mapping[str, Count] = field(default_factory=dict)

    def add(self, now_ms: int, counts: Mapping[str, Count], heard: Set[str], minutes: int) -> None:
        """Take counters by whose they are. What somebody counted who was not `heard` of before is from
        any time: nothing is said of it."""
        grown = 0
        for name in counts.keys() & heard:
            boot_id, count = counts[name]
            last = self._last.get(name)
            grown += max(0, count - (last.value if last is not None and last.boot_id == boot_id else 0))
        self._last = counts
        if heard:
            self.window.add(now_ms, grown, minutes)


def throttled(
    window: Window, told: QuotaView | None, direction: DirectionQuota | None, rule: Rule, now_ms: int
) -> Finding:
    """The share of the time in which clients were held back."""
    if told is None or direction is None:
        return Finding(None, NO_MASTER)
    minutes = rule.window_minutes
    window.add(now_ms, direction.throttled_ms_per_s / 10, minutes)
    share = window.mean(now_ms, minutes)
    if not window.is_covered(now_ms, minutes):
        return Finding(None, f"not looked at for {minutes} min yet")
    return Finding(
        round(share, 1),
        f"throttled {share:.0f} % of the last {minutes} min; {_rate(direction.rate_per_s)} now, "
        f"{_rate(direction.purchased_per_s)} are bought. {direction.explanation}",
    )


def full(window: Window, told: QuotaView | None, rule: Rule, now_ms: int) -> Finding:
    """Hours until an instance is full, at the growth of the last minutes."""
    if told is None:
        return Finding(None, NO_MASTER)
    window.add(now_ms, told.stored_bytes, rule.window_minutes)
    stored = f"{_size(told.stored_bytes)} of {_size(told.capacity_bytes)} are stored"
    if told.blocked:
        return Finding(0, f"producers are blocked: {stored}")
    growth = window.growth_per_hour(now_ms, rule.window_minutes)
    if growth is None:
        return Finding(None, f"{stored}; too little is known of its growth yet")
    if growth <= 0:
        return Finding(math.inf, f"{stored}, and it does not grow")
    hours = max(0, told.capacity_bytes - told.stored_bytes) / growth
    grows = f"it grows by {_size(round(growth))} an hour and is full in {hours:.1f} h"
    return Finding(round(hours, 1), f"{stored}; {grows}")


def counted(
    counter: Counted,
    counts: Mapping[str, Count] | None,
    heard: Set[str],
    what: str,
    rule: Rule,
    now_ms: int,
    example: str = "",
) -> Finding:
    """How often something happened. Enough of it alarms at once; that nothing did is known only when all of
    the window was looked at. `heard`: who told anything at the look before, though of others."""
    if counts is None:
        return Finding(None, NO_GATEWAY)
    minutes = rule.window_minutes
    counter.add(now_ms, counts, heard, minutes)
    found = round(counter.window.total(now_ms, minutes))
    says = f"{found} {what} in the last {minutes} min{example}"
    if found < rule.threshold and not counter.window.is_covered(now_ms, minutes):
        return Finding(None, f"not looked at for {minutes} min yet")
    return Finding(found, says)


def silent_brokers(told: QuotaView | None) -> Finding:
    """Of the brokers that lead partitions of an instance."""
    if told is None:
        return Finding(None, NO_MASTER)
    silent = [one for one in told.brokers if one.silent]
    if not silent:
        return Finding(0, "all brokers that lead its partitions report")
    words = ", ".join(
        f"broker {one.node_id}, which led {one.partitions_led} partitions, for {one.report_age_ms // 1000} s"
        for one in silent
    )
    return Finding(len(silent), f"silent: {words}")


class GroupLag(NamedTuple):
    """How far a group is behind, over all its partitions."""

    group: str
    records: int
    seconds: float | None = None
    """The age of the first record that it has not consumed; None: not known, or not asked for."""


class Age(NamedTuple):
    """How late a group is."""

    seconds: float | None
    """The largest of its partitions that is known now: it is so late at least. None: none is known."""
    is_whole: bool
    """Whether it is known of all."""
    may_be: float = 0.0
    """So late it was when that was known, and nobody has seen that it is not any more."""
    unknown_looks: int = 0
    """Looks in a row that did not know it."""

    def after(self, told: Oldest | None) -> "Age":
        """What the next look makes of it. `told`: None where nobody could be asked of the group."""
        if told is None:
            return Age(None, False, self.may_be, self.unknown_looks + 1)
        if told.is_whole:
            return Age(told.seconds, True, told.seconds or 0.0)
        # A record may have no time for ever: what it hides was late once, which does not make it late always.
        held = self.may_be if self.unknown_looks < UNKNOWN_LOOKS else 0.0
        return Age(told.seconds, False, max(held, told.seconds or 0.0), self.unknown_looks + 1)

    def may_be_late(self, threshold: float) -> bool:
        """Whether it cannot be said yet that it is not."""
        return not self.is_whole and (self.unknown_looks < UNKNOWN_LOOKS or self.may_be >= threshold)


_NEVER_KNOWN: Final = Age(None, False)


@dataclass(slots=True)
class LagSeen:
    """Lags of an instance's groups at the last look that could ask for them."""

    lags: dict[str, GroupLag] = field(default_factory=dict)
    at_ms: int | None = None
    is_compared: bool = False
    """Whether there was a look before: one alone does not say who catches up."""
    worst: GroupLag | None = None
    """The largest of those that did not shrink since the look before."""
    ages: dict[str, Age] | None = None
    """By group; None: nobody has asked for seconds."""
    aged_at_ms: int = 0
    """When they were told last."""
    every_ms: int = LAGS_EVERY_MS
    """How often its turn comes."""

    def worst_of(self, found: list[GroupLag], untold: frozenset[str]) -> GroupLag | None:
        """What `worst` is with these lags."""
        before = self.lags
        every = [*found, *(one for one in before.values() if one.group in untold)]
        stays = [one for one in every if one.group in before and one.records >= before[one.group].records]
        return max(stays, key=lambda one: one.records, default=None)

    def take(self, found: list[GroupLag], untold: frozenset[str], now_ms: int) -> None:
        """Take a look's lags. Of groups that are there and `untold` what was known holds."""
        kept = [one for one in self.lags.values() if one.group in untold]
        self.worst = self.worst_of(found, untold)
        self.lags = {one.group: one for one in (*found, *kept)}
        self.is_compared = self.at_ms is not None
        self.at_ms = now_ms

    def take_ages(self, found: Mapping[str, Oldest], untold: frozenset[str], now_ms: int) -> None:
        """Take a look's ages, of groups that could be asked for and of `untold` ones."""
        before = self.ages or {}
        self.ages = {
            group: before.get(group, _NEVER_KNOWN).after(found.get(group))
            for group in sorted(found.keys() | untold)
        }
        self.aged_at_ms = now_ms

    def latest(self, now_ms: int) -> float | None:
        """The largest age that is known (s); None: none is, or it was told too long ago."""
        if self.ages is None or not self.is_fresh(self.aged_at_ms, now_ms):
            return None
        return max((age.seconds for age in self.ages.values() if age.seconds is not None), default=None)

    def is_fresh(self, at_ms: int | None, now_ms: int) -> bool:
        """Whether what was told then is not too old, by how often its turn comes."""
        return at_ms is not None and now_ms - at_ms <= 3 * self.every_ms


def lag_growing(seen: LagSeen | None, now_ms: int) -> Finding:
    """Records that the worst group is behind which does not catch up."""
    if seen is None or not seen.is_fresh(seen.at_ms, now_ms):
        return Finding(None, "its groups' lags could not be asked for lately")
    if not seen.is_compared:
        return Finding(
            None, "its groups' lags were asked for once: whether they catch up is known at the next"
        )
    if seen.worst is None or seen.worst.records == 0:
        return Finding(0, f"{len(seen.lags)} groups, all catch up or have nothing to do")
    worst = seen.worst
    seconds = "" if worst.seconds is None else f", {worst.seconds:.0f} s"
    behind = f"group {worst.group[:100]} is {worst.records} records{seconds} behind"
    return Finding(worst.records, f"{behind}, and does not catch up")


def lag_seconds(seen: LagSeen | None, rule: Rule, now_ms: int) -> Finding:
    """Seconds that the latest group is behind. Whose age is not known may be later than those that are, for a
    while, or as long as it was when somebody could tell; then it is told apart."""
    ages = None if seen is None else seen.ages  # a look may take others meanwhile
    if seen is None or ages is None or not seen.is_fresh(seen.aged_at_ms, now_ms):
        return Finding(None, "its groups' lags in seconds could not be asked for lately")
    known = {group: age.seconds for group, age in ages.items() if age.seconds is not None}
    latest = max(known, key=known.__getitem__, default=None)
    seconds = 0.0 if latest is None else known[latest]
    count = sum(not age.is_whole for age in ages.values())
    unknown = f"of {count} of {len(ages)} groups it is not known now" if count else ""
    waits = any(age.may_be_late(rule.threshold) for age in ages.values())
    if count and (latest is None or (waits and seconds < rule.threshold)):
        return Finding(None, unknown)
    besides = f"; {unknown}" if count else ""
    if latest is None or not seconds:
        return Finding(0, f"{len(ages) - count} groups, none is late{besides}")
    least = "" if ages[latest].is_whole else "at least "
    behind = f"group {latest[:100]} is {least}{seconds:.0f} s behind"
    lag = seen.lags.get(latest)
    records = "" if lag is None else f", {lag.records} records"
    return Finding(seconds, f"{behind}{records}{besides}")


def bill_above(total_minor: int | None, currency: str, digits: int) -> Finding:
    """The bill of this month so far."""
    if total_minor is None:
        return Finding(None, "there is no bill of this month yet: nothing has metered usage")
    return Finding(
        total_minor, f"this month's bill is {total_minor / 10**digits:.{digits}f} {currency} so far"
    )


def _rate(per_s: int) -> str:
    return f"{_size(per_s)}/s"


def _size(count: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if abs(count) >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"
