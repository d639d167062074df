"""What the instances on this broker's topics were sold, as far as the feed has told: bounds of their topics.

An instance that no spec has named is not bounded: what nobody knows must neither delete data nor refuse work.
"""

from contracts.names import owner_of
from contracts.specs import InstanceSpec, InstanceState, Limits


class InstanceLimits:
    """Limits by instance, kept up to date by the feed."""

    def __init__(self) -> None:
        self._limits: dict[str, Limits] = {}

    def take(self, spec: InstanceSpec) -> bool:
        """Follow the feed; whether the settings of the instance's logs change with it."""
        if spec.state is InstanceState.PURGED:
            self._limits.pop(spec.instance_id, None)
            return False
        before = self._limits.get(spec.instance_id)
        self._limits[spec.instance_id] = spec.limits
        return before is None or _of_logs(before) != _of_logs(spec.limits)

    def of_topic(self, topic: str) -> Limits | None:
        """The limits of the instance a topic belongs to; None for topics of nobody, or of nobody we know."""
        owner = owner_of(topic)
        return None if owner is None else self._limits.get(owner)


def _of_logs(limits: Limits) -> tuple[int, int]:
    """What `ConfigLayers.log_config` goes by."""
    return limits.retention_ms_max, limits.message_bytes_max
