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
        fields = (base_offset, header[1], leader_epoch, *header[3:])
        numbered.append((at, tuple.__new__(BatchHeader, fields)))  # as `parse_header` makes them
        base_offset += header.last_offset_delta + 1
    return tuple(numbered)
