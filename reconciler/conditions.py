"""The conditions of an object's status, as Kubernetes has them. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

READY: Final = "Ready"
_MESSAGE_CHARACTERS_MAX: Final = 1024


def with_ready(
    conditions: Sequence[Mapping[str, Any]],
    *,
    ready: bool,
    reason: str,
    message: str,
    generation: int,
    now: str,
) -> list[dict[str, Any]]:
    """The conditions with Ready as it is now. `now` is RFC 3339; the time of the last transition moves only
    when the status does."""
    status = "True" if ready else "False"
    before = next((each for each in conditions if each.get("type") == READY), None)
    since = before["lastTransitionTime"] if before and before.get("status") == status else now
    condition = {
        "type": READY,
        "status": status,
        "reason": reason,
        "message": message[:_MESSAGE_CHARACTERS_MAX],
        "observedGeneration": generation,
        "lastTransitionTime": since,
    }
    return [dict(each) for each in conditions if each.get("type") != READY] + [condition]
