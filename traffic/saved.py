"""What a traffic point keeps on disk, so that a restarted process neither forgets a block nor a debt."""

from typing import Final

import msgspec

from contracts.quota import Count

FORMAT_VERSION: Final = 1


class SavedCpu(msgspec.Struct, frozen=True, kw_only=True):
    """Request time of one instance. Rate 0: no spec was known, nothing was limited."""

    lease_epoch: Count = 0
    lease_left_ms: int = 0
    rate_us_per_s: int = 0
    balance_us: int = 0
    """What the bucket held; negative: debt."""


class SavedInstance(msgspec.Struct, frozen=True, kw_only=True):
    """One instance. Rates 0: no spec was known, nothing was limited."""

    instance_id: str
    lease_epoch: Count
    lease_left_ms: int
    produce_rate_bytes_per_s: int
    consume_rate_bytes_per_s: int
    produce_debt_bytes: int
    consume_debt_bytes: int
    others_led: int | None
    blocked: bool
    stored_bytes: int
    left_bytes: int | None
    own_stored_bytes: int
    cpu: SavedCpu = SavedCpu()


class SavedPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The file's content, as JSON."""

    saved_at_epoch_ms: int
    instances: tuple[SavedInstance, ...]
    version: int = FORMAT_VERSION


def decode(data: bytes) -> SavedPoint:
    """Raises: ValueError when the bytes are not a file of this version."""
    saved = msgspec.json.decode(data, type=SavedPoint)
    if saved.version != FORMAT_VERSION:
        raise ValueError(f"saved leases have version {saved.version}, this is {FORMAT_VERSION}")
    return saved
