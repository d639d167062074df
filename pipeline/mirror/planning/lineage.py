"""The header of each mirrored record that says where it came from. Pure."""

from collections.abc import Iterable
from typing import Final

HEADER: Final = "mirror.source"
"""Value: `<cluster id>/<topic id>/<partition>/<offset>`. A record mirrored twice has two, in order."""

Headers = Iterable[tuple[str, bytes | None]]


def came_from(headers: Headers, cluster: bytes) -> bool:
    """Whether a record was in a cluster before. `cluster`: its id and the slash behind it."""
    return any(name == HEADER and (value or b"").startswith(cluster) for name, value in headers)


def source_offset(headers: Headers | None, lineage: bytes) -> int | None:
    """The offset at the source of a record that was mirrored last as one of a unit's."""
    values = [value or b"" for name, value in headers or () if name == HEADER]
    if not values or not values[-1].startswith(lineage):
        return None
    digits = values[-1].removeprefix(lineage)
    return int(digits) if digits.isdigit() else None
