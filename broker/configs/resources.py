"""Config resources: what AlterConfigs, DescribeConfigs and ListConfigResources are about. Pure."""

from typing import Final

TOPIC: Final = 2
BROKER: Final = 4
GROUP: Final = 32
LISTED_TYPES: Final = frozenset({TOPIC, BROKER, 8, 16, GROUP})
"""What ListConfigResources may be asked for; 8 and 16 are brokers' loggers and client metrics."""


def broker_fault(name: str, node_id: int, *, empty_allowed: bool) -> str | None:
    """Why a broker resource is not this broker, or None."""
    if name == str(node_id) or (empty_allowed and name == ""):
        return None
    expected = f"{node_id} or empty string" if empty_allowed else str(node_id)
    return f"Unexpected broker id, expected {expected}, but received {name[:40]}"
