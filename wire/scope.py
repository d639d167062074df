"""The scope of one instance: put in front of a tenant's names on the way up, taken off on the way down."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from wire.faults import NameTooLong

SCOPE_BYTES: Final = 13
"""Length of `<instance id>.`; all of it is ASCII, so bytes and characters agree."""

COMPACT_GROWTH: Final = SCOPE_BYTES + 1
"""Of a name that gets its scope in a flexible version: its length gets one byte wider, whether it has to or
not."""

STRING_BYTES_MAX: Final = 32767
_SURELY_FITS_CHARACTERS: Final = (STRING_BYTES_MAX - SCOPE_BYTES) // 4


class Scope:
    """The names of one instance. Immutable; make one per instance and keep it."""

    __slots__ = ("instance_id", "prefix", "prefix_bytes")

    def __init__(self, instance_id: str) -> None:
        assert len(instance_id) == SCOPE_BYTES - 1 and instance_id.isascii(), instance_id
        self.instance_id: Final = instance_id
        self.prefix: Final = f"{instance_id}."
        self.prefix_bytes: Final = self.prefix.encode()

    def physical(self, name: str) -> str:
        """The backend's name of a tenant's name.

        Raises: NameTooLong when Kafka's strings cannot hold it.
        """
        if len(name) > _SURELY_FITS_CHARACTERS and len(name.encode()) > STRING_BYTES_MAX - SCOPE_BYTES:
            raise NameTooLong(f"a name of {len(name.encode())} bytes")
        return self.prefix + name

    def tenant(self, physical: str) -> str | None:
        """The tenant's name of a physical one, or None when it belongs to somebody else."""
        return physical[SCOPE_BYTES:] if physical.startswith(self.prefix) else None


class View(NamedTuple):
    """What an instance sees instead of the cluster's own addresses and sizes."""

    brokers: Mapping[int, tuple[str, int]]
    """Node id -> advertised (host, port). A node that is missing here is invisible."""
    total_bytes: int = -1
    """Capacity of the instance; -1 is Kafka's 'unknown'."""
    usable_bytes: int = -1
    """What is left of it."""
