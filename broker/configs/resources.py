"""Config resources: what AlterConfigs and DescribeConfigs are about. Pure."""

from typing import Final

TOPIC: Final = 2
BROKER: Final = 4


def broker_fault(name: str, node_id: int, *, empty_allowed: bool) -> str | None:
    """Why a broker resource is not this broker, or None."""
    if name == str(node_id) or (empty_allowed and name == ""):
        return None
    expected = f"{node_id} or empty string" if empty_allowed else str(node_id)
    return f"Unexpected broker id, expected {expected}, but received {name[:40]}"
