"""How far a partition was mirrored, told by the lineage headers in the tail of the target partition.

This is what decides without transactions: a record that is there was mirrored, whatever became of its reply.
"""

import time
from collections.abc import Iterator
from typing import Final

from pipeline.mirror.cluster import EARLIEST, LATEST, Cluster
from pipeline.mirror.columns import records_in
from pipeline.mirror.planning.errors import Unreachable
from pipeline.mirror.planning.rebatch import lineage_of
from pipeline.mirror.planning.units import Unit
from pipeline.mirror.source import OutOfRange, PartitionReader, Payload, payload_of, whole_batches

_EVERYTHING: Final = 0
"""Isolation level: also what is in open transactions."""
_WITHIN_S: Final = 600.0


def source_offsets(payload: Payload, lineage: bytes) -> Iterator[tuple[int, int]]:
    """(offset delta, source offset) of the records that are of this unit. Raises: ValueError."""
    records = records_in(*payload)
    columns = (records.headers_at, records.end, records.offset_delta)
    places = zip(*(column.tolist() for column in columns), strict=True)
    for headers_at, end, offset_delta in places:
        found = _source_offset(payload.data, headers_at, end, lineage)
        if found is not None:
            yield offset_delta, found


def _source_offset(payload: bytes, headers_at: int, end: int, lineage: bytes) -> int | None:
    *_, newest = (b"", *lineage_of(payload, headers_at, end))
    digits = newest.removeprefix(lineage)
    return int(digits) if newest.startswith(lineage) and digits.isdigit() else None


def mirrored_in_tail(cluster: Cluster, unit: Unit, position: int, target_position: int) -> tuple[int, int]:
    """(source position, target position) behind the last record of this unit, from a known place on.

    -1 for either: nothing is known. The result is never below what was known.
    """
    topic = cluster.topic(unit.target_topic)
    if topic is None or unit.partition >= len(topic.leaders):
        raise Unreachable(f"{unit.target_topic}-{unit.partition} of the target is not there yet")
    wanted = [unit.partition]
    start = cluster.offsets(topic, EARLIEST, committed=False, partitions=wanted)[unit.partition]
    end = cluster.offsets(topic, LATEST, committed=False, partitions=wanted)[unit.partition]
    scan_from = max(start, target_position)
    if scan_from >= end:
        return position, target_position
    reader = PartitionReader(cluster, unit.target_topic, unit.partition, scan_from, isolation=_EVERYTHING)
    deadline = time.monotonic() + _WITHIN_S
    try:
        while reader.position < end:
            part = reader.read().part
            for at, header in whole_batches(part):
                if header.is_control:
                    continue
                payload = payload_of(part, at, header)
                for offset_delta, found in source_offsets(payload, unit.lineage):
                    if found >= position:
                        position, target_position = found + 1, header.base_offset + offset_delta + 1
            if time.monotonic() > deadline:
                raise Unreachable(f"the tail of {unit.target_topic}-{unit.partition} could not be read")
    except OutOfRange as error:
        raise Unreachable(f"{error}: looked at again") from error
    finally:
        reader.close()
    return position, target_position
