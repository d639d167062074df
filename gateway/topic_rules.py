"""What an instance allows its tenant to create: how many partitions, how many replicas. Pure."""

from typing import Final

_REPLICATION_FACTOR_MAX: Final = 3


def replication_factor(brokers: int) -> int:
    """What a cluster of so many brokers gives every topic."""
    assert brokers >= 0
    return max(1, min(_REPLICATION_FACTOR_MAX, brokers))


def partitions_fault(present: int, wanted: int, partitions_max: int) -> str | None:
    """Why so many more partitions do not fit, with the numbers, or None."""
    assert present >= 0 and wanted >= 0
    if present + wanted <= partitions_max:
        return None
    return f"the instance has {present} of at most {partitions_max} partitions; {wanted} more do not fit"
