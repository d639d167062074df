"""Faults that a tenant injects into its own instance, for a time (docs/faults.md)."""

import asyncio
from typing import Annotated

from fastapi import Path

from contracts.injected_faults import FaultKind
from runtime.clock import epoch_ms
from tenants.api import views
from tenants.api.context import Asker, Found, Plane, Tenant, at, home_or_all
from tenants.api.fault_models import ActiveFault, ActiveFaultList, FaultList, FaultStart, FaultView
from tenants.api.routers import api_router
from tenants.console import Console
from tenants.rules.fault_orders import FaultOrder, summary
from tenants.rules.model import Caller, Instance
from tenants.store.injected_faults import Recorded
from wire.api_table import ApiKey

router = api_router("/v1", "faults")
FaultId = Annotated[str, Path(max_length=16, description="the id of the fault", examples=["f0a1b2c3d4e5f"])]


@router.get("/faults")
async def active_faults(plane: Plane, caller: Asker, tenant: Tenant = None) -> ActiveFaultList:
    """Faults that act now on a tenant's instances. Operators: of all with `?tenant=*`."""
    home = await home_or_all(plane, caller, tenant)
    found = await asyncio.to_thread(plane.faults.active, home)
    items = [
        ActiveFault(tenant=instance.tenant, instance_name=instance.name, fault=view)
        for instance, one in found
        if (view := _view(plane, caller, instance, one)).active
    ]
    return ActiveFaultList(items=items)


@router.get("/instances/{instance}/faults")
async def faults(plane: Plane, caller: Asker, found: Found) -> FaultList:
    """Faults that act, and the last that have ended."""
    recorded = await asyncio.to_thread(plane.faults.of_instance, found.id)
    return FaultList(items=[_view(plane, caller, found, one) for one in recorded])


@router.post("/instances/{instance}/faults", status_code=201)
async def start_fault(plane: Plane, caller: Asker, found: Found, body: FaultStart) -> FaultView:
    """Have clients of this instance, and of no other, feel a fault. It ends by itself."""
    order = FaultOrder(
        **body.model_dump(exclude={"kind", "apis"}),
        kind=body.kind,
        apis=None if body.apis is None else tuple(body.apis),
    )
    recorded = await asyncio.to_thread(plane.faults.start, caller, found.id, order)
    return _view(plane, caller, await asyncio.to_thread(plane.instances.get, caller, found.id), recorded)


@router.delete("/instances/{instance}/faults")
async def end_faults(plane: Plane, caller: Asker, found: Found) -> FaultList:
    """End all that act, at once. Answers those that have ended by it."""
    ended = await asyncio.to_thread(plane.faults.end, caller, found.id, None)
    return FaultList(items=[_view(plane, caller, found, one) for one in ended])


@router.delete("/instances/{instance}/faults/{fault}")
async def end_fault(plane: Plane, caller: Asker, found: Found, fault: FaultId) -> FaultView:
    """End one at once. One that has ended stays as it is."""
    (ended,) = await asyncio.to_thread(plane.faults.end, caller, found.id, fault)
    return _view(plane, caller, found, ended)


def _view(plane: Console, caller: Caller, instance: Instance, recorded: Recorded) -> FaultView:
    fault = recorded.fault
    return FaultView(
        id=fault.id,
        instance=instance.id,
        kind=fault.kind,
        summary=summary(fault),
        share_percent=fault.share_percent,
        delay_ms=fault.delay_ms if fault.kind == FaultKind.LATENCY else None,
        throttle_time_ms=fault.delay_ms if fault.kind == FaultKind.THROTTLING else None,
        apis=[ApiKey(key).name.lower() for key in fault.apis],
        above_bytes=fault.above_bytes if fault.kind == FaultKind.MESSAGE_TOO_LARGE else None,
        once=fault.once,
        active=recorded.ended_at_ms is None and epoch_ms() < fault.ends_at_ms,
        applied=plane.feed.applied_everywhere(instance.revision),
        started_at=at(fault.begins_at_ms),
        ends_at=at(fault.ends_at_ms),
        ended_at=None if recorded.ended_at_ms is None else at(recorded.ended_at_ms),
        started_by=views.actor_for(caller, recorded.started_by),
        ended_by=recorded.ended_by and views.actor_for(caller, recorded.ended_by),
    )
