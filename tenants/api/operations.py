"""Health."""

import asyncio

from fastapi import Request

from contracts.specs import ConsumerKind
from runtime.clock import monotonic_ms
from tenants.api import models
from tenants.api.context import Plane, maybe_caller
from tenants.api.routers import api_router
from tenants.console import Console
from tenants.rules.errors import Unavailable

router = api_router("/v1", "operations")


@router.get("/health")
async def health(request: Request, plane: Plane) -> models.HealthView:
    """Whether instances can be served, always with status 200: the console itself works. Operators are
    also told by whom."""
    gateways = plane.feed.live(ConsumerKind.GATEWAY)
    brokers = len(plane.feed.live(ConsumerKind.BROKER)) + plane.apaches.live()
    caller = maybe_caller(request)
    is_operator = caller is not None and caller.is_operator
    has_master = await _has_master(plane)
    absent = await asyncio.to_thread(plane.absent)
    status = "ok" if gateways and brokers and has_master and not absent else "degraded"
    if not is_operator:
        return models.HealthView(status=status)
    connections = plane.gateways.connections_by_worker(monotonic_ms())
    return models.HealthView(
        status=status,
        revision=plane.feed.revision,
        brokers_live=brokers,
        gateways=[
            models.GatewayView(
                consumer=name,
                applied_revision=one.applied_revision,
                live=name in gateways,
                connections=connections.get(name, 0),
            )
            for name, one in sorted(plane.feed.followers().items())
            if one.kind is ConsumerKind.GATEWAY
        ],
        quota_master=has_master,
        absent_instances=len(absent),
        redis=None if plane.redis is None else plane.redis.trouble or "ok",
    )


async def _has_master(plane: Console) -> bool:
    try:
        await plane.quota.overview()
    except Unavailable:
        return False
    return True
