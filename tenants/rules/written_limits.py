"""What becomes of configs of topics when the limits that they hold change, those of their instance. Pure.

A config does not say whether it was asked for so or written down to the limit. What is as large as the limit
of before follows it up: nobody's records go earlier than they would on brokers that apply limits themselves.
"""

from collections.abc import Mapping
from typing import NamedTuple, Self

from contracts.specs import Limits
from contracts.topic_policy import MAX_MESSAGE_BYTES, RETENTION_MS, applied


class Written(NamedTuple):
    """Limits that are in configs of topics."""

    retention_ms_max: int
    message_bytes_max: int

    @classmethod
    def of(cls, limits: Limits) -> Self:
        """Those of an instance."""
        return cls(limits.retention_ms_max, limits.message_bytes_max)


def followed(configs: Mapping[str, str | None], limits: Limits, before: Written | None) -> dict[str, str]:
    """What is to be set of a topic. `configs`: those of its own; `before`: with which limits they were
    written, None: that is not known, and nothing is raised."""
    now = Written.of(limits)
    changes = {}
    for name, most, most_before in (
        (RETENTION_MS, now.retention_ms_max, before and before.retention_ms_max),
        (MAX_MESSAGE_BYTES, now.message_bytes_max, before and before.message_bytes_max),
    ):
        value = configs.get(name)
        if value is None or int(value) == most_before:
            wanted = str(most)
        else:
            wanted = applied(name, value, limits, is_own=True) or value
        if wanted != value:
            changes[name] = wanted
    return changes
