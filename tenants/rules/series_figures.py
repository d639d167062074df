"""What is recorded of instances at one step, from what the quota master, gateways and clusters told. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from contracts.quota_view import BrokerQuota, QuotaView
from tenants.rules import client_sums, series
from tenants.rules.client_sums import ClientFigure
from tenants.rules.series import DEPLOYMENT, REST, Figures, Kind, Point


class TopicFigure(NamedTuple):
    """What was seen of a topic."""

    records_per_s: int | None
    """None: it was seen once."""
    stored_bytes: int | None


class GroupFigure(NamedTuple):
    """How far a group is behind."""

    lag_records: int
    lag_ms: int | None


class Seen(NamedTuple):
    """What is known of one instance."""

    view: QuotaView
    connections: int | None
    topics: Mapping[str, TopicFigure]
    topics_by_weight: Sequence[str]
    """The busiest first."""
    groups: Mapping[str, GroupFigure]
    clients: Mapping[str, ClientFigure]
    """By client id."""


def of_instance(seen: Seen) -> Figures:
    """One instance's series."""
    view, cpu = seen.view, seen.view.cpu.total
    found: Figures = {
        Kind.INSTANCE: {
            REST: (
                *(view.produce.rate_per_s, view.consume.rate_per_s, cpu.rate_per_s),
                *(view.produce.throttled_ms_per_s, view.consume.throttled_ms_per_s, cpu.throttled_ms_per_s),
                *(view.stored_bytes, view.capacity_bytes),
                *(view.produce.purchased_per_s, view.consume.purchased_per_s),
                *(seen.connections, int(view.blocked)),
            )
        }
    }
    brokers = {str(one.node_id): _broker(one) for one in view.brokers}
    by_load = sorted(view.brokers, key=lambda one: -(one.produce.rate_per_s + one.consume.rate_per_s))
    kinds: tuple[tuple[Kind, dict[str, Point], Sequence[str]], ...] = (
        (Kind.BROKER, brokers, [str(one.node_id) for one in by_load]),
        (Kind.TOPIC, {name: tuple(one) for name, one in seen.topics.items()}, seen.topics_by_weight),
        (Kind.GROUP, {name: tuple(one) for name, one in seen.groups.items()}, _latest(seen.groups)),
        (
            Kind.CLIENT,
            {name: tuple(one) for name, one in seen.clients.items()},
            client_sums.busiest(seen.clients),
        ),
    )
    for kind, points, names in kinds:
        if points:
            found[kind] = series.bounded(kind, points, names)
    return found


def _latest(groups: Mapping[str, GroupFigure]) -> list[str]:
    return sorted(groups, key=lambda name: (-groups[name].lag_records, name))


def _broker(one: BrokerQuota) -> Point:
    """A silent broker's last rates are not what flows now."""
    flows: tuple[int | None, ...] = (
        *(one.produce.rate_per_s, one.consume.rate_per_s),
        *(one.produce.throttled_ms_per_s, one.consume.throttled_ms_per_s),
    )
    if one.silent:
        flows = (None, None, None, None)
    return (*flows, one.stored_bytes, one.partitions_led, int(one.silent))


def of_deployment(views: Sequence[QuotaView]) -> Figures:
    """All instances together, and each broker over all of them."""
    held = [
        max(one.produce.throttled_ms_per_s, one.consume.throttled_ms_per_s, one.cpu.total.throttled_ms_per_s)
        for one in views
    ]
    fleet = (
        *(sum(one.produce.rate_per_s for one in views), sum(one.consume.rate_per_s for one in views)),
        *(sum(ms > 0 for ms in held), sum(one.blocked for one in views), len(views)),
        *(sum(one.stored_bytes for one in views), sum(one.capacity_bytes for one in views)),
        *(
            sum(one.produce.purchased_per_s for one in views),
            sum(one.consume.purchased_per_s for one in views),
        ),
    )
    by_point: dict[str, list[Point]] = {}
    for view in views:
        for one in view.brokers:
            by_point.setdefault(one.point, []).append(_broker(one))
    together = {point: series.added_up(Kind.BROKER, every) for point, every in by_point.items()}
    by_load = sorted(together, key=lambda name: (-sum(value or 0 for value in together[name][:2]), name))
    found: Figures = {Kind.FLEET: {REST: fleet}}
    if together:
        found[Kind.BROKER] = series.bounded(Kind.BROKER, together, by_load)
    return found


def step(seen: Mapping[str, Seen], views: Sequence[QuotaView]) -> dict[str, Figures]:
    """Every owner's series at one step."""
    return {DEPLOYMENT: of_deployment(views), **{key: of_instance(one) for key, one in seen.items()}}
