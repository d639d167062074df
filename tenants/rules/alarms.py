"""What is alarming: rules, and what a look at their figures makes of an alarm. Pure.

A figure that nobody tells raises nothing and clears nothing: the alarm is `unknown` until somebody does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from tenants.rules.lifecycle import Fault, unfit

LOOK_EVERY_MS: Final = 10_000
"""Figures are looked at so often; hysteresis is counted in looks."""
STALE_MS: Final = 60_000
"""Nobody has looked for so long: every alarm is shown as unknown."""
HISTORY_MAX: Final = 200
"""Entries that are kept of one instance's alarms, and of the operators' own; the oldest are forgotten."""
WINDOW_MINUTES_MAX: Final = 60
_LOOKS_MAX: Final = 360
DEPLOYMENT: Final = ""
"""In place of an instance's id: what concerns operators."""


class AlarmKind(StrEnum):
    """What an alarm is about."""

    THROTTLED_PRODUCE = "throttled_produce"
    THROTTLED_CONSUME = "throttled_consume"
    FULL = "full"
    UNKNOWN_ADDRESS = "unknown_address"
    WRONG_PASSWORDS = "wrong_passwords"
    LAG_GROWING = "lag_growing"
    LAG_SECONDS = "lag_seconds"
    BILL_ABOVE = "bill_above"
    CLUSTER_TROUBLE = "cluster_trouble"
    BROKER_SILENT = "broker_silent"
    GATEWAY_SILENT = "gateway_silent"
    CERTIFICATE_ENDS = "certificate_ends"


class Severity(StrEnum):
    """How much an alarm matters."""

    CRITICAL = "critical"
    """Clients cannot be served, or will not be unless somebody acts."""
    WARNING = "warning"


class AlarmState(StrEnum):
    """What is known of an alarm."""

    OK = "ok"
    RAISED = "raised"
    UNKNOWN = "unknown"
    """Nobody tells the figure. Whether it is raised is as it was when somebody did."""


class AlarmEvent(StrEnum):
    """What history keeps and sinks are told."""

    RAISED = "raised"
    CLEARED = "cleared"
    ACKNOWLEDGED = "acknowledged"
    SILENCED = "silenced"
    UNSILENCED = "unsilenced"


@dataclass(frozen=True, slots=True)
class Rule:
    """When an alarm of one kind is raised and cleared."""

    kind: AlarmKind
    enabled: bool
    threshold: int
    """In the kind's `Meaning.unit`."""
    window_minutes: int
    """Over so many minutes; 0: the figure is one of now."""
    raise_after: int
    """Looks in a row."""
    clear_after: int
    """Looks in a row."""


class Meaning(NamedTuple):
    """What a rule's threshold is, and what helps."""

    severity: Severity
    title: str
    unit: str
    threshold_min: int
    threshold_max: int
    has_window: bool
    is_ceiling: bool
    """Alarming is what reaches the threshold from below; else what falls to it."""
    remedy: str


MEANINGS: Final = {
    AlarmKind.THROTTLED_PRODUCE: Meaning(
        Severity.WARNING,
        "producers are throttled",
        "% of the time",
        *(1, 100, True, True),
        "Produce less, or resize the instance's produce rate; the Quota tab says which broker and why.",
    ),
    AlarmKind.THROTTLED_CONSUME: Meaning(
        Severity.WARNING,
        "consumers are throttled",
        "% of the time",
        *(1, 100, True, True),
        "Consume less, or resize the instance's consume rate; the Quota tab says which broker and why.",
    ),
    AlarmKind.FULL: Meaning(
        Severity.CRITICAL,
        "the instance is full, or soon is",
        "hours until full",
        *(0, 720, True, False),
        "Shorten retention, delete records or topics, or resize the capacity.",
    ),
    AlarmKind.UNKNOWN_ADDRESS: Meaning(
        Severity.WARNING,
        "an unknown address knocks",
        "refused connections",
        *(1, 1_000_000, True, True),
        "If it is yours, admit it on the Whitelist tab; else nothing need be done: it was refused.",
    ),
    AlarmKind.WRONG_PASSWORDS: Meaning(
        Severity.WARNING,
        "logins fail",
        "failed logins",
        *(1, 1_000_000, True, True),
        "A client has an old password, or somebody guesses: compare the users, give one a new password.",
    ),
    AlarmKind.LAG_GROWING: Meaning(
        Severity.WARNING,
        "a consumer group falls behind",
        "records behind, and not fewer than at the look before",
        *(1, 10**15, False, True),
        "Add consumers up to the partitions of the topic, or see whether consumers are throttled.",
    ),
    AlarmKind.LAG_SECONDS: Meaning(
        Severity.WARNING,
        "a consumer group is late",
        "seconds that the first record is old which a group has not consumed",
        *(1, 10**9, False, True),
        "Add consumers up to the partitions of the topic, or delete the group if nobody consumes by it.",
    ),
    AlarmKind.BILL_ABOVE: Meaning(
        Severity.WARNING,
        "the month's bill is above an amount",
        "minor units of the bill's currency",
        *(1, 10**15, False, True),
        "The Bill tab says what it is made of.",
    ),
    AlarmKind.CLUSTER_TROUBLE: Meaning(
        Severity.CRITICAL,
        "the cluster cannot be used",
        "1: it cannot",
        *(1, 1, False, True),
        "Data is safe, and serving goes on by itself; operators find the cause on the Brokers page.",
    ),
    AlarmKind.BROKER_SILENT: Meaning(
        Severity.CRITICAL,
        "a broker is silent",
        "silent brokers",
        *(1, 1000, False, True),
        "Its partitions are led by others as soon as its session ends; operators look at the broker.",
    ),
    AlarmKind.GATEWAY_SILENT: Meaning(
        Severity.CRITICAL,
        "a gateway is silent",
        "1: it is",
        *(1, 1, False, True),
        "Look at the worker's process and log; clients come in by the others.",
    ),
    AlarmKind.CERTIFICATE_ENDS: Meaning(
        Severity.CRITICAL,
        "a certificate ends",
        "days left",
        *(1, 365, False, False),
        "Exchange the certificate's file: gateways take it while they run.",
    ),
}
OF_INSTANCES: Final = (
    *(AlarmKind.THROTTLED_PRODUCE, AlarmKind.THROTTLED_CONSUME, AlarmKind.FULL, AlarmKind.UNKNOWN_ADDRESS),
    *(AlarmKind.WRONG_PASSWORDS, AlarmKind.LAG_GROWING, AlarmKind.LAG_SECONDS, AlarmKind.BILL_ABOVE),
    *(AlarmKind.CLUSTER_TROUBLE, AlarmKind.BROKER_SILENT),
)
OF_DEPLOYMENTS: Final = (
    *(AlarmKind.CLUSTER_TROUBLE, AlarmKind.BROKER_SILENT, AlarmKind.GATEWAY_SILENT),
    AlarmKind.CERTIFICATE_ENDS,
)
DEFAULTS: Final = {
    one.kind: one
    for one in (
        Rule(AlarmKind.THROTTLED_PRODUCE, True, 50, 5, 2, 6),
        Rule(AlarmKind.THROTTLED_CONSUME, True, 50, 5, 2, 6),
        Rule(AlarmKind.FULL, True, 24, 60, 3, 6),
        Rule(AlarmKind.UNKNOWN_ADDRESS, True, 5, 10, 1, 6),
        Rule(AlarmKind.WRONG_PASSWORDS, True, 10, 10, 1, 6),
        Rule(AlarmKind.LAG_GROWING, True, 100_000, 0, 30, 6),
        Rule(AlarmKind.LAG_SECONDS, False, 600, 0, 2, 6),
        Rule(AlarmKind.BILL_ABOVE, False, 100_000, 0, 1, 1),
        Rule(AlarmKind.CLUSTER_TROUBLE, True, 1, 0, 3, 3),
        Rule(AlarmKind.BROKER_SILENT, True, 1, 0, 3, 3),
        Rule(AlarmKind.GATEWAY_SILENT, True, 1, 0, 3, 3),
        Rule(AlarmKind.CERTIFICATE_ENDS, True, 14, 0, 1, 1),
    )
}
"""All are on but the bill's and the one of seconds: nobody but who reads knows how much is too much, and a
group that nobody uses any more is ever later."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look found."""

    value: float | None
    """In the unit of the kind's threshold; infinity where it is never reached; None: nobody tells."""
    says: str
    """The explanation for people."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing that may be alarming: what looks made of it."""

    instance_id: str
    kind: AlarmKind
    subject: str = ""
    """Which of several, such as a broker; an instance's alarms have none."""
    state: AlarmState = AlarmState.UNKNOWN
    since_ms: int = 0
    """Since when it is in this state."""
    raised_at_ms: int | None = None
    """None: it is not raised."""
    known_at_ms: int | None = None
    """When somebody told the figure last; None: never."""
    value: float | None = None
    says: str = ""
    is_told: bool = False
    """Whether sinks were told that it is raised."""
    streak: int = 0
    """Looks in a row that said otherwise; not stored."""

    @property
    def key(self) -> tuple[str, AlarmKind, str]:
        """What it is known by."""
        return (self.instance_id, self.kind, self.subject)


@dataclass(frozen=True, slots=True)
class Handling:
    """What people did about an alarm."""

    acked_at_ms: int | None = None
    acked_by: str | None = None
    silenced_until_ms: int | None = None
    silenced_by: str | None = None

    def is_silenced(self, now_ms: int) -> bool:
        """Whether nobody is told of it now."""
        return self.silenced_until_ms is not None and now_ms < self.silenced_until_ms


class Step(NamedTuple):
    """What a look led to."""

    alarm: Alarm
    event: AlarmEvent | None
    """For the history; None: it is as it was."""
    notice: AlarmEvent | None
    """For sinks."""


def printable(text: str) -> str:
    """A text that tenants had a word in, as every store and every reader can take it: a group's name may have
    a NUL, which Postgres refuses, half a surrogate, or turn the direction of what follows."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def step(before: Alarm, rule: Rule, found: Finding, handling: Handling, now_ms: int) -> Step:
    """What a look makes of an alarm. `now_ms` is epoch time."""
    after, event = _judged(before, rule, replace(found, says=printable(found.says)), now_ms)
    notice = None
    if event is AlarmEvent.CLEARED:
        notice = AlarmEvent.CLEARED if before.is_told else None
        after = replace(after, is_told=False)
    elif after.raised_at_ms is not None and not after.is_told and not handling.is_silenced(now_ms):
        # What was acknowledged while it was silent is known to somebody.
        is_known = event is None and handling.acked_at_ms is not None
        notice = None if is_known else AlarmEvent.RAISED
        after = replace(after, is_told=True)
    return Step(after, event, notice)


def _judged(before: Alarm, rule: Rule, found: Finding, now_ms: int) -> tuple[Alarm, AlarmEvent | None]:
    is_raised = before.raised_at_ms is not None
    if not rule.enabled:
        event = AlarmEvent.CLEARED if is_raised else None
        return _in_state(before, AlarmState.OK, "the rule is off", None, now_ms, raised_at_ms=None), event
    if found.value is None:
        return _in_state(before, AlarmState.UNKNOWN, found.says, before.value, now_ms), None
    known = replace(before, known_at_ms=now_ms)
    is_alarming = alarming(rule, found.value)
    streak = before.streak + 1 if is_alarming != is_raised else 0
    if streak >= (rule.clear_after if is_raised else rule.raise_after):
        raised_at_ms = None if is_raised else now_ms
        state = AlarmState.OK if is_raised else AlarmState.RAISED
        changed = _in_state(known, state, found.says, found.value, now_ms, raised_at_ms=raised_at_ms)
        return changed, AlarmEvent.CLEARED if is_raised else AlarmEvent.RAISED
    state = AlarmState.RAISED if is_raised else AlarmState.OK
    return replace(_in_state(known, state, found.says, found.value, now_ms), streak=streak), None


_AS_BEFORE: Final = -1


def _in_state(
    alarm: Alarm,
    state: AlarmState,
    says: str,
    value: float | None,
    now_ms: int,
    *,
    raised_at_ms: int | None = _AS_BEFORE,
) -> Alarm:
    return replace(
        alarm,
        state=state,
        says=says,
        value=value,
        since_ms=alarm.since_ms if alarm.state is state and alarm.since_ms else now_ms,
        raised_at_ms=alarm.raised_at_ms if raised_at_ms == _AS_BEFORE else raised_at_ms,
        streak=alarm.streak if state is AlarmState.UNKNOWN else 0,
    )


def alarming(rule: Rule, value: float) -> bool:
    """Whether a figure is beyond a rule's threshold."""
    return value >= rule.threshold if MEANINGS[rule.kind].is_ceiling else value <= rule.threshold


def shown_state(alarm: Alarm, looked_at_ms: int | None, now_ms: int) -> AlarmState:
    """The state that is shown: nothing is known while nobody looks."""
    if looked_at_ms is None or now_ms - looked_at_ms > STALE_MS:
        return AlarmState.UNKNOWN
    return alarm.state


def rule_of(
    kind: AlarmKind, instance_id: str, own: Mapping[tuple[str, AlarmKind], Rule], *, inherits: bool = True
) -> Rule:
    """The rule that holds: the instance's own, else the operators' for all, else the built-in one."""
    found = own.get((instance_id, kind))
    if found is None and inherits:
        found = own.get((DEPLOYMENT, kind))
    return DEFAULTS[kind] if found is None else found


def faults_of(rule: Rule) -> list[Fault]:
    """What of a rule does not fit its kind, all at once."""
    meaning = MEANINGS[rule.kind]
    low, high = meaning.threshold_min, meaning.threshold_max
    window_low, window_high = (1, WINDOW_MINUTES_MAX) if meaning.has_window else (0, 0)
    checks = (
        ("threshold", rule.threshold, low, high, meaning.unit),
        ("window_minutes", rule.window_minutes, window_low, window_high, "minutes"),
        ("raise_after", rule.raise_after, 1, _LOOKS_MAX, "looks"),
        ("clear_after", rule.clear_after, 1, _LOOKS_MAX, "looks"),
    )
    return [
        unfit(field, f"must be {low} to {high} ({unit})" if low < high else f"must be {low} for this kind")
        for field, value, low, high, unit in checks
        if not low <= value <= high
    ]
