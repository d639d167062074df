"""Flow ids: revisions of the specs feed.

A change is written at once; what takes its time is that every gateway serves it. So the flow id of a change
is the feed's revision as it was then, and the task has succeeded once all live gateways acknowledged it.
"""

import asyncio
from typing import Any, Final

from tenants.console import Console
from tenants.store.engine import feed_position

_SUCCEEDED: Final = 0
_UNDER_WAY: Final = 2


def _newest(plane: Console) -> int:
    with plane.store.read() as connection:
        return feed_position(connection)[1]


def task_status(plane: Console, flow_id: int) -> int | None:
    """CKafka's number for what has become of a task; None: there was none of that number. Blocks."""
    if not 0 < flow_id <= _newest(plane):
        return None
    return _SUCCEEDED if plane.feed.applied_everywhere(flow_id) else _UNDER_WAY


async def done(plane: Console, revision: int | None = None) -> dict[str, Any]:
    """What a change answers with; `revision` None: it changed no spec, so the newest one there is."""
    flow_id = await asyncio.to_thread(_newest, plane) if revision is None else revision
    return {
        "ReturnCode": "0",
        "ReturnMessage": "ok",
        "Data": {"FlowId": flow_id, "RouteDTO": None},
    }
