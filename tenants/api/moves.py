"""Moving instances between clusters, for operators (docs/backends.md)."""

import asyncio
from functools import partial

from tenants.api.context import Asker, Found, Plane, at
from tenants.api.move_models import MoveList, MoveOrder, MoveView
from tenants.api.routers import api_router
from tenants.rules.moves import Move

router = api_router("/v1", "operations")


@router.get("/moves")
async def moves(plane: Plane) -> MoveList:
    """Moves of instances that are under way, and those whose old copy is kept."""
    found = await asyncio.to_thread(plane.moves.every)
    return MoveList(items=[_view(move) for move, _ in found])


@router.get("/instances/{instance}/move")
async def move(plane: Plane, found: Found) -> MoveView:
    """The newest move of an instance."""
    return _view(await asyncio.to_thread(plane.moves.newest, found.id))


@router.post("/instances/{instance}/move", status_code=202)
async def start_move(plane: Plane, operator: Asker, found: Found, body: MoveOrder) -> MoveView:
    """Move an instance to another cluster behind its vports, with offsets, groups and transactions as they
    are. Refused where an Apache Kafka could not keep the offsets."""
    await asyncio.to_thread(plane.moves.check, found, body.cluster)
    await plane.mover.check(found, body.cluster, fills_gaps=body.fill_gaps)
    order = partial(plane.moves.order, operator, found.id, body.cluster, fills_gaps=body.fill_gaps)
    return _view(await asyncio.to_thread(order))


@router.delete("/instances/{instance}/move")
async def cancel_move(plane: Plane, operator: Asker, found: Found) -> MoveView:
    """Leave an instance where it is, as long as it was not switched: the copy at the target is removed."""
    return _view(await asyncio.to_thread(plane.moves.cancel, operator, found.id))


@router.delete("/instances/{instance}/move/old-copy", status_code=202)
async def purge_old_copy(plane: Plane, operator: Asker, found: Found) -> MoveView:
    """Remove the copy that is left on the cluster where an instance was. It cannot be taken back."""
    return _view(await asyncio.to_thread(plane.moves.purge_old, operator, found.id))


def _view(one: Move) -> MoveView:
    return MoveView(
        id=one.id,
        instance=one.instance_id,
        source=one.source,
        target=one.target,
        phase=one.phase,
        reason=one.reason,
        copied_bytes=one.copied_bytes,
        total_bytes=one.total_bytes,
        tries=one.tries,
        gap_ms=one.gap_ms,
        fill_gaps=one.fills_gaps,
        started_at=at(one.started_at_ms),
        switched_at=None if one.switched_at_ms is None else at(one.switched_at_ms),
        started_by=one.started_by,
    )
