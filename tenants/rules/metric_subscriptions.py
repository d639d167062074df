"""Subscriptions to client metrics of one instance: how many, and what they may say. Pure."""

from collections.abc import Sequence

from contracts.client_metrics import (
    SUBSCRIPTIONS_MAX,
    MetricsSubscription,
    SubscriptionFault,
    subscription,
)
from tenants.rules.errors import Conflict, Invalid
from tenants.rules.lifecycle import Fault
from wire.patterns import compiled_pattern


def with_changed(
    present: tuple[MetricsSubscription, ...], changed: Sequence[MetricsSubscription]
) -> tuple[MetricsSubscription, ...]:
    """Each in place of the one of its name; one that says nothing is gone. Raises: Invalid, Conflict."""
    faults = [fault for one in changed if (fault := _fault(one)) is not None]
    if faults:
        raise Invalid(faults)
    by_name = {one.name: one for one in (*present, *changed)}
    kept = tuple(by_name[name] for name in sorted(by_name) if by_name[name].configs)
    if len(kept) > max(SUBSCRIPTIONS_MAX, len(present)):
        raise Conflict(f"an instance has at most {SUBSCRIPTIONS_MAX} subscriptions: delete some first")
    return kept


def _fault(one: MetricsSubscription) -> Fault | None:
    try:
        subscription(one.name, one.configs)
    except SubscriptionFault as fault:
        return Fault("client_metrics", str(fault))
    bad = [pattern for pattern in one.matches.values() if compiled_pattern(pattern) is None]
    return Fault("client_metrics", f"no pattern of RE2: {bad[0][:100]}") if bad else None


def described(changed: Sequence[MetricsSubscription]) -> str:
    """For the audit log."""
    return "; ".join(
        f"{one.name}: " + (", ".join(f"{key}={value}" for key, value in one.configs.items()) or "deleted")
        for one in changed
    )[:1000]
