"""What a tenant may order as an injected fault, and what is told of it. Pure."""

from dataclasses import dataclass
from typing import Final

from contracts.injected_faults import DELAY_MS_MAX, DURATION_S_MAX, FaultKind, InjectedFault
from tenants.rules.lifecycle import Fault
from wire.api_table import ApiKey

DURATION_S_DEFAULT: Final = 60
ABOVE_BYTES_MAX: Final = 2**31 - 1
_NOT_CLIENTS: Final = frozenset(
    {
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.CHARGE,
    }
)
APIS: Final[dict[str, ApiKey]] = {key.name.lower(): key for key in ApiKey if key not in _NOT_CLIENTS}
"""What clients ask for, by the names that metrics have."""
PARAMETERS: Final[dict[FaultKind, frozenset[str]]] = {
    FaultKind.LATENCY: frozenset({"delay_ms", "apis", "share_percent"}),
    FaultKind.THROTTLING: frozenset({"throttle_time_ms"}),
    FaultKind.LEADER_LOSS: frozenset({"share_percent"}),
    FaultKind.CONNECTION_RESET: frozenset({"share_percent", "once"}),
    FaultKind.MESSAGE_TOO_LARGE: frozenset({"above_bytes", "share_percent"}),
    FaultKind.CORRUPT_CHECKSUM: frozenset({"share_percent"}),
}
"""What an order of each kind may say beside its duration."""
REQUIRED: Final = {FaultKind.LATENCY: "delay_ms", FaultKind.THROTTLING: "throttle_time_ms"}
"""What an order of a kind must say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOrder:
    """What is ordered; None: not said."""

    kind: FaultKind
    duration_s: int = DURATION_S_DEFAULT
    share_percent: int | None = None
    delay_ms: int | None = None
    throttle_time_ms: int | None = None
    apis: tuple[str, ...] | None = None
    above_bytes: int | None = None
    once: bool | None = None


def order_faults(order: FaultOrder) -> list[Fault]:
    """Everything that is wrong with an order."""
    found = _out_of_bounds(order)
    named = {name for of_kind in PARAMETERS.values() for name in of_kind}
    given = {name for name in named if getattr(order, name) is not None}
    found += [
        Fault(name, f"means nothing for {order.kind.value}")
        for name in sorted(given - PARAMETERS[order.kind])
    ]
    required = REQUIRED.get(order.kind)
    if required is not None and required not in given:
        found.append(Fault(required, "is required"))
    if order.once and order.share_percent is not None:
        found.append(Fault("share_percent", "means nothing with once: every connection is reset"))
    unknown = sorted(set(order.apis or ()) - APIS.keys())
    if unknown:
        found.append(Fault("apis", f"there is no API '{unknown[0][:40]}': one of {', '.join(sorted(APIS))}"))
    return found


def _out_of_bounds(order: FaultOrder) -> list[Fault]:
    bounds = {
        "duration_s": (1, DURATION_S_MAX),
        "share_percent": (1, 100),
        "delay_ms": (1, DELAY_MS_MAX),
        "throttle_time_ms": (1, DELAY_MS_MAX),
        "above_bytes": (0, ABOVE_BYTES_MAX),
    }
    return [
        Fault(name, f"must be between {lowest:,} and {highest:,}")
        for name, (lowest, highest) in bounds.items()
        if (value := getattr(order, name)) is not None and not lowest <= value <= highest
    ]


def injected(order: FaultOrder, fault_id: str, now_ms: int) -> InjectedFault:
    """What gateways are told of an order that is in order."""
    return InjectedFault(
        id=fault_id,
        kind=order.kind.value,
        begins_at_ms=now_ms,
        ends_at_ms=now_ms + order.duration_s * 1000,
        share_percent=order.share_percent or 100,
        delay_ms=order.delay_ms or order.throttle_time_ms or 0,
        apis=tuple(sorted({int(APIS[name]) for name in order.apis or ()})),
        above_bytes=order.above_bytes or 0,
        once=bool(order.once),
    )


def summary(fault: InjectedFault) -> str:
    """For people and the audit log, in one line."""
    words = [fault.kind]
    if fault.delay_ms:
        words.append(f"{fault.delay_ms} ms")
    if fault.above_bytes:
        words.append(f"above {fault.above_bytes} bytes")
    if fault.apis:
        words.append("of " + ", ".join(ApiKey(key).name.lower() for key in fault.apis))
    if fault.once:
        words.append("of every connection once")
    elif fault.share_percent < 100:
        words.append(f"for {fault.share_percent} % of requests")
    return " ".join(words)
