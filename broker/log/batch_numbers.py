"""Numbering batches in place. Pure."""

from collections.abc import Sequence

from wire.batch import BatchHeader, WritableBuffer, assign_offset


def number_batches(
    records: WritableBuffer, batches: Sequence[tuple[int, BatchHeader]], base_offset: int, leader_epoch: int
) -> tuple[tuple[int, BatchHeader], ...]:
    """Give the batches at these positions consecutive offsets; their headers as they are now."""
    numbered = []
    for at, header in batches:
        assign_offset(records, at, base_offset, leader_epoch)
        numbered.append((at, BatchHeader(base_offset, header[1], leader_epoch, *header[3:])))
        base_offset += header.last_offset_delta + 1
    return tuple(numbered)
