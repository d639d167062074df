"""The consumer protocol's assignment bytes, as far as the console shows them. Pure.

Source: ConsumerProtocolAssignment.json; only the fields of version 0, which every version starts with.
Members of a tenant's group carry what the tenant's assignor wrote: the tenant's own topic names.
"""

import struct
from typing import Final

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")


def assigned_partitions(instance_id: str, assignment: bytes) -> dict[str, list[int]]:
    """Partitions by topic; nothing when the bytes are another protocol's."""
    try:
        return _parse(assignment, f"{instance_id}.")
    except (struct.error, UnicodeDecodeError, ValueError):
        return {}


def _parse(data: bytes, scope: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    (count,) = _I32.unpack_from(data, 2)
    at = 6
    for _ in range(max(count, 0)):
        (size,) = _I16.unpack_from(data, at)
        if size < 0 or at + 2 + size > len(data):
            raise ValueError("a topic name that runs past the end")
        name = data[at + 2 : at + 2 + size].decode().removeprefix(scope)
        at += 2 + size
        (partitions,) = _I32.unpack_from(data, at)
        at += 4
        if partitions < 0 or at + 4 * partitions > len(data):
            raise ValueError("partitions that run past the end")
        found[name] = sorted(struct.unpack_from(f">{partitions}i", data, at))
        at += 4 * partitions
    return found
