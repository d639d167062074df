"""Whether the closed segments of a log are what they were: their sizes, and that all are there.

What recovery reads anyway is left to it. No bytes are read of a segment that has the size it was closed with;
one of which nothing is known is followed from its last index entry to its end.
"""

from itertools import pairwise

from broker.log.batch_scan import scan_valid, walk_headers
from broker.log.damage import Damage, DamageKind
from broker.log.sealed_segments import SealedSegments
from broker.log.segment import Segment
from broker.log.segment_list import SegmentList


def check_sealed(
    segments: list[Segment], sealed: SealedSegments, trusted_to: int, *, gapless: bool
) -> list[Damage]:
    """What is lost of the segments that end at `trusted_to` or before. `gapless`: no compaction can have left
    gaps where nothing is known. A damaged segment counts as long as it can be read. Raises: OSError."""
    damage = []
    for segment, following in pairwise(segments):
        if following.base_offset > trusted_to:
            break
        size_bytes = sealed.sizes.get(segment.base_offset)
        if size_bytes is None or size_bytes != segment.size_bytes:
            damage += _examined(segment, following.base_offset, sealed, gapless=gapless)
    return damage + _missing(segments, sealed, trusted_to)


def _examined(
    segment: Segment, following_base: int, sealed: SealedSegments, *, gapless: bool
) -> list[Damage]:
    file_size = segment.size_bytes
    known = sealed.sizes.get(segment.base_offset)
    wanted = file_size if known is None else known
    end, next_offset = _end_of(segment, min(file_size, wanted))
    segment.size_bytes = end
    if end == wanted and (known is not None or not gapless or next_offset == following_base):
        if known is None:
            sealed.add(segment.base_offset, end)
        return []
    return [Damage(next_offset, following_base, DamageKind.SHORT)] if next_offset < following_base else []


def _end_of(segment: Segment, limit: int) -> tuple[int, int]:
    """(position, next offset) behind the last whole batch in front of `limit`."""
    handle = segment.handle()
    starts = [0]
    if segment.index.is_sound(limit):
        starts = [segment.index.floor_position(limit), 0]
    for start in starts:
        end, next_offset = start, segment.base_offset
        for at, header in walk_headers(handle.fd, start, limit):
            end, next_offset = at + header.size_bytes, header.next_offset
        if end > start:
            return end, next_offset
    return 0, segment.base_offset


def is_readable(segments: SegmentList, damage: Damage) -> bool:
    """Whether the batches of a range that was damaged are whole now. Raises: OSError."""
    first, expected = damage.first_offset, -1
    for segment in segments.since(first):
        if segment.base_offset >= damage.next_offset:
            return True
        handle = segment.handle()
        end = segment.index.lookup(first) if segment.index.is_sound(segment.size_bytes) else 0
        for at, header in scan_valid(handle.fd, end, segment.size_bytes):
            if header.base_offset < expected or header.base_offset >= damage.next_offset:
                return False  # base offsets are not in the CRC
            end, expected = at + header.size_bytes, header.next_offset
            if expected >= damage.next_offset:
                return True
        if end != segment.size_bytes:
            return False
    return True


def _missing(segments: list[Segment], sealed: SealedSegments, trusted_to: int) -> list[Damage]:
    existing = {segment.base_offset for segment in segments}
    bases = sorted(existing | sealed.sizes.keys())
    return [
        Damage(base, following, DamageKind.MISSING)
        for base, following in pairwise(bases)
        if base not in existing and following <= trusted_to
    ]
