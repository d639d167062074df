"""Health and brokers."""

import asyncio

from fastapi import APIRouter, Request

from contracts.specs import ClusterSpec, ConsumerKind
from runtime.clock import epoch_ms, monotonic_ms
from tenants.api import models
from tenants.api.context import Operator, Plane, at, maybe_caller
from tenants.console import Console
from tenants.errors import Unavailable

router = APIRouter(prefix="/v1", tags=["operations"])


@router.get("/health")
async def health(request: Request, plane: Plane) -> models.HealthView:
    """Whether instances can be served, always with status 200: the console itself works. Operators are
    also told by whom."""
    gateways = plane.feed.live(ConsumerKind.GATEWAY)
    brokers = plane.feed.live(ConsumerKind.BROKER)
    caller = maybe_caller(request)
    is_operator = caller is not None and caller.is_operator
    has_master = await _has_master(plane)
    status = "ok" if gateways and brokers and has_master else "degraded"
    if not is_operator:
        return models.HealthView(status=status)
    connections = plane.gateways.connections_by_worker(monotonic_ms())
    return models.HealthView(
        status=status,
        revision=plane.feed.revision,
        brokers_live=len(brokers),
        gateways=[
            models.GatewayView(
                consumer=name,
                applied_revision=one.applied_revision,
                live=name in gateways,
                connections=connections.get(name, 0),
            )
            for name, one in sorted(plane.feed.consumers.items())
            if one.kind is ConsumerKind.GATEWAY
        ],
        quota_master=has_master,
    )


async def _has_master(plane: Console) -> bool:
    try:
        await plane.quota.overview()
    except Unavailable:
        return False
    return True


@router.get("/brokers")
async def brokers(plane: Plane, _operator: Operator) -> models.BrokerList:
    """The brokers that registered, and whether they follow the feed now."""
    specs: list[ClusterSpec] = await asyncio.to_thread(plane.clusters)
    now_ms = monotonic_ms()
    seen = {}
    for one in plane.feed.consumers.values():
        if one.broker is not None:
            cluster_id, address = one.broker
            age_ms = 0 if one.polls_open else now_ms - one.seen_ms
            seen[cluster_id, address.node_id] = (one.is_live(now_ms), epoch_ms() - age_ms)
    items = []
    for cluster in specs:
        for address in cluster.brokers:
            live, seen_ms = seen.get((cluster.cluster_id, address.node_id), (False, None))
            items.append(
                models.BrokerView(
                    cluster_id=cluster.cluster_id,
                    node_id=address.node_id,
                    host=address.host,
                    port=address.port,
                    live=live,
                    seen_at=None if seen_ms is None else at(seen_ms),
                )
            )
    return models.BrokerList(items=items)
