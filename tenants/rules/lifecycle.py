"""The life cycle of an instance and the rules its fields must keep. Pure: no clock, no randomness, no IO.

`TRANSITIONS` is the whole state machine; a pair that is absent is not possible.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from contracts.names import ID_ALPHABET, ID_LENGTH, is_instance_id
from contracts.request_time import REQUEST_PERCENT_MAX, REQUEST_PERCENT_MIN
from contracts.shapes import matching
from contracts.specs import Limits
from contracts.units import format_bytes, format_duration


class State(StrEnum):
    """Where an instance is. `purged` rows stay for ever: ids are never reused."""

    CREATING = "creating"
    RUNNING = "running"
    SUSPENDED = "suspended"
    FAILED = "failed"
    DELETED = "deleted"
    """Gone for its tenant; its data waits for the end of its grace, or to be taken back."""
    PURGING = "purging"
    """Ordered for good: its data is being removed."""
    PURGED = "purged"


class Event(StrEnum):
    """What happens to an instance."""

    SERVED = "served"
    """Every live gateway has applied its revision."""
    REFUSED = "refused"
    """A gateway cannot serve it, or its port is in use."""
    SUSPEND = "suspend"
    RESUME = "resume"
    DELETE = "delete"
    UNDELETE = "undelete"
    PURGE = "purge"
    """Its grace is over, or an operator said so."""
    PURGED = "purged"
    """Nothing of it is left on its cluster."""


TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.CREATING, Event.SERVED): State.RUNNING,
    (State.CREATING, Event.REFUSED): State.FAILED,
    (State.CREATING, Event.SUSPEND): State.SUSPENDED,
    (State.CREATING, Event.DELETE): State.DELETED,
    (State.RUNNING, Event.REFUSED): State.FAILED,
    (State.RUNNING, Event.SUSPEND): State.SUSPENDED,
    (State.RUNNING, Event.DELETE): State.DELETED,
    (State.SUSPENDED, Event.RESUME): State.CREATING,
    (State.SUSPENDED, Event.DELETE): State.DELETED,
    (State.FAILED, Event.SERVED): State.RUNNING,
    (State.FAILED, Event.SUSPEND): State.SUSPENDED,
    (State.FAILED, Event.DELETE): State.DELETED,
    (State.DELETED, Event.UNDELETE): State.CREATING,
    (State.DELETED, Event.PURGE): State.PURGING,
    (State.PURGING, Event.PURGE): State.PURGING,
    (State.PURGING, Event.PURGED): State.PURGED,
    (State.PURGED, Event.PURGE): State.PURGING,
}
"""Resume and undelete go through `creating`: an instance is `running` only once gateways serve it again.
A purge is repeated when data of it turns up later, on a broker that was away."""


def transition(state: State, event: Event) -> State | None:
    """The state after an event, or None when the event is not possible in this state."""
    return TRANSITIONS.get((state, event))


class Fault(NamedTuple):
    """A field of a request and why it is refused."""

    field: str
    message: str
    is_said: bool = True
    """Whether the API's document says it: False of what no schema can (`unfit`)."""


def unfit(field: str, message: str) -> Fault:
    """A fault of a value that is as the document has it, and does not fit what there is, the clock, or
    another value."""
    return Fault(field, message, is_said=False)


RATE_MIN_BYTES_PER_S: Final = 100_000
"""The least rate that is sold."""
RATE_MAX_BYTES_PER_S: Final = 10**12
"""The largest rate that is sold, whatever the ceilings."""
DERIVED_PERCENT: Final = 0
"""Ordered request time: what goes with the byte rates."""
CAPACITY_MIN_BYTES: Final = 1_000_000
"""The least capacity that is sold."""
CAPACITY_MAX_BYTES: Final = 10**15
"""The largest capacity that is sold, whatever the ceilings."""
WHITELIST_ENTRIES_MAX: Final = 512
"""CIDRs of one whitelist, an instance's or a topic's."""
LIMIT_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "partitions_max": (1, 100_000),
    "partitions_default": (1, 1_000),
    "connections_max": (1, 1_000_000),
    "connections_per_ip_max": (1, 1_000_000),
    "connection_rate_max": (1, 1_000_000),
    "controller_mutation_rate_max": (1, 10_000),
    "message_bytes_max": (1_024, 12_000_000),
    "request_bytes_max": (1_024, 100 * 1024 * 1024),
    "retention_ms_max": (60_000, 30 * 24 * 3600 * 1000),
    "login_ms_max": (0, 30 * 24 * 3600 * 1000),
}
NAME_SHAPE: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""What instances, tenants, keys and users may be called, but for what looks like an instance's id."""
_NAME: Final = matching(NAME_SHAPE)


def draw_instance_id(below: Callable[[int], int]) -> str:
    """A new instance id; `below(n)` draws uniformly from 0 to n-1 (`secrets.randbelow`)."""
    letters = (ID_ALPHABET[below(len(ID_ALPHABET))] for _ in range(ID_LENGTH - 1))
    return "i" + "".join(letters)


def name_fault(name: str, what: str = "an instance") -> str | None:
    """Why a name is refused, or None. A name may not look like an id: either addresses an instance."""
    if _NAME.match(name) is None:
        return (
            f"the name of {what} is 1 to 64 letters, digits, '.', '_' and '-', "
            "and starts with a letter or digit"
        )
    if is_instance_id(name):
        return "the name looks like an instance id (i and 11 characters of a-z, 2-7): choose another"
    return None


def sold_faults(name: str | None, produce_rate: int, consume_rate: int, capacity_bytes: int) -> list[Fault]:
    """What is wrong with a name, None for one that stays, and with what is bought."""
    fault = None if name is None else name_fault(name)
    named = [] if fault is None else [Fault("name", fault)]
    return named + rate_faults(produce_rate, consume_rate) + capacity_faults(capacity_bytes)


def rate_faults(produce: int, consume: int) -> list[Fault]:
    """What is wrong with the purchased rates."""
    faults = []
    for name, value in (("produce_rate_bytes_per_s", produce), ("consume_rate_bytes_per_s", consume)):
        if value < RATE_MIN_BYTES_PER_S:
            faults.append(
                Fault(name, f"rates under 100 kB/s are refused, not {format_bytes(value, rate=True)}")
            )
        elif value > RATE_MAX_BYTES_PER_S:
            faults.append(Fault(name, "at most 1 TB/s"))
    return faults


def capacity_faults(capacity: int) -> list[Fault]:
    """What is wrong with a capacity."""
    if capacity < CAPACITY_MIN_BYTES:
        return [Fault("capacity_bytes", f"at least 1 MB, not {format_bytes(capacity)}")]
    if capacity > CAPACITY_MAX_BYTES:
        return [Fault("capacity_bytes", "at most 1000 TB")]
    return []


def request_percent_faults(percent: int, default: int, is_operator: bool) -> list[Fault]:
    """What is wrong with ordered request time.

    `default` goes with the byte rates. More is the operator's to give, or whoever bought the smallest rates
    could take every core.
    """
    if percent == DERIVED_PERCENT:
        return []
    if not REQUEST_PERCENT_MIN <= percent <= REQUEST_PERCENT_MAX:
        bounds = f"{REQUEST_PERCENT_MIN} to {REQUEST_PERCENT_MAX} percent of a core"
        return [Fault("request_percent", f"{bounds}, or {DERIVED_PERCENT} for what goes with the rates")]
    if percent > default and not is_operator:
        return [
            unfit("request_percent", f"at most {default}, which goes with the rates: operators give more")
        ]
    return []


def mutation_rate_faults(rate: int, before: int, is_operator: bool) -> list[Fault]:
    """What is wrong with the rate at which an instance may create and delete partitions. More than everybody
    has, or it had before, is the operator's to give: its neighbours pay for it."""
    most = max(before, Limits().controller_mutation_rate_max)
    if rate > most and not is_operator:
        return [unfit("limits.controller_mutation_rate_max", f"at most {most}: operators give more")]
    return []


def shrink_fault(
    capacity: int | None, partitions_max: int | None, stored: int | None, partitions: int | None
) -> str | None:
    """Why an instance cannot be made that small, or None; None of an argument: as it is, or not known.

    Less capacity than is stored would block every producer of the tenant at once, which nobody asks for
    by resizing: the sentence says what to do first instead.
    """
    if capacity is not None and stored is not None and capacity < stored:
        have, wish = format_bytes(stored), format_bytes(capacity)
        found = (
            f"a little more than {wish} is stored" if have == wish else f"{have} are stored, more than {wish}"
        )
        return f"{found}: delete data or shorten retention first"
    if partitions_max is not None and partitions is not None and partitions_max < partitions:
        exist = "1 partition exists" if partitions == 1 else f"{partitions:,} partitions exist"
        return f"{exist}, more than {partitions_max:,}: delete topics first"
    return None


def _shown(limit: str, value: int) -> str:
    """A limit's value with its unit."""
    if "_bytes_" in limit:
        return format_bytes(value)
    return format_duration(value) if "_ms_" in limit else f"{value:,}"


def limit_faults(limits: Limits) -> list[Fault]:
    """What is wrong with the limits, cross-field rules included."""
    faults = []
    for name, (lowest, highest) in LIMIT_BOUNDS.items():
        value: int = getattr(limits, name)
        if not lowest <= value <= highest:
            bounds = f"must be between {_shown(name, lowest)} and {_shown(name, highest)}"
            faults.append(Fault(f"limits.{name}", f"{bounds}, not {_shown(name, value)}"))
    if not faults and limits.request_bytes_max < limits.message_bytes_max:
        faults.append(
            unfit(
                "limits.request_bytes_max",
                f"must hold one batch of message_bytes_max, {format_bytes(limits.message_bytes_max)}",
            )
        )
    if not faults and limits.partitions_default > limits.partitions_max:
        faults.append(
            unfit("limits.partitions_default", f"is more than partitions_max, {limits.partitions_max:,}")
        )
    return faults


def first_repeated(names: Iterable[str]) -> str | None:
    """The first name that stands twice, or None."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
