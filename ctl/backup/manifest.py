"""What an archive says of itself: what its other members are, and what they must hash to. Pure."""

from typing import Final

import msgspec

FORMAT: Final = 1
"""The format of archives that this release writes; newer ones are refused."""
MANIFEST: Final = "manifest.json"
SIGNATURE: Final = "manifest.hmac"
"""The manifest's signature, with the deployment's secret."""
TREE: Final = "tree.jsonl"
"""The metadata tree: a node per line."""
SECRETS: Final = "secrets.age"
"""Sealed with a passphrase; `age -d` opens it, too."""
_STORE: Final = "store/"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A member of the archive."""

    name: str
    size_bytes: int
    """Unpacked, as are the hash and the entries."""
    sha256: str
    entries: int
    """Lines: rows or nodes."""


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Whose metadata the tree is."""

    cluster_id: str
    brokers: tuple[int, ...]
    """Node ids that hold replicas."""
    is_local: bool
    """The tree was the file of a broker alone, not ZooKeeper's."""
    backend: str | None = None
    """HOST:PORT,... of an Apache Kafka in place of brokers: the tree has no nodes then."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of an archive."""

    format: int = FORMAT
    release: str
    """Portico's release."""
    taken_at_ms: int
    """When the store was read; the tree was read after it."""
    deployment: str
    """A digest of the deployment's secret, which tells nothing of it."""
    store_id: str
    """The first feed of the store: the same after every restore."""
    schema: str
    """The store's."""
    database: str
    """`sqlite` or `postgresql`: where it came from. It goes into either."""
    master_term: int
    """The quota master's: points refuse leases of an earlier one."""
    cluster: ClusterFacts
    parts: tuple[Part, ...]


def store_part(table_name: str) -> str:
    """The member that holds a table's rows."""
    return f"{_STORE}{table_name}.jsonl"


def table_of(part_name: str) -> str | None:
    """The table whose rows a member holds, None for other members."""
    if not part_name.startswith(_STORE):
        return None
    return part_name.removeprefix(_STORE).removesuffix(".jsonl")
