"""What one request may hold, by API: bytes of its frame and list entries. One table for gateway and broker.

A request is handled in one turn of a loop, and a turn may not take more than about 50 ms; an entry costs 2 to
8 us in a gateway or broker. So the entries of one request are bounded, all its lists together (`wire.walk`
and the scanners of Produce and Fetch count them), and with them the bytes that have to be collected for it.
Beyond a bound the connection is closed with its cause. Right clients are far below: they speak to one broker
about what it leads, and an API with the usual bound takes 5,000 topics of one partition, or a topic of
10,000 partitions, which is the largest there is.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from wire.api_table import ApiKey
from wire.scope import SCOPE_BYTES

T = TypeVar("T")
MIB: Final = 1024 * 1024
_ADDED_CONFIG_BYTES: Final = 64
"""A scope, and `segment.bytes` with its value."""
_WIDER_LENGTH_BYTES: Final = 1
"""Of a name in a flexible version."""


class RequestBound(NamedTuple):
    """The largest request of one API."""

    entries_max: int
    """Entries of all lists together. Short lists of numbers are free: the entry around them counts."""
    frame_bytes_max: int | None = MIB
    """Size as the client sends it. None: `request_bytes_max` of the instance or broker alone."""
    is_added_to: bool = False
    """A gateway puts in an entry of its own for each: a broker takes twice as many."""
    in_portions_max: int = 0
    """Entries that a gateway takes where it asks brokers for a portion at a time; 0: as many as they."""
    why: str = ""
    """Whose requests the bound was made for, where it is not the usual one."""

    @property
    def tenant_entries_max(self) -> int:
        """Entries at a gateway."""
        return max(self.entries_max, self.in_portions_max)

    @property
    def physical_entries_max(self) -> int:
        """Entries at a broker behind a gateway."""
        return 2 * self.entries_max if self.is_added_to else self.entries_max

    @property
    def physical_frame_bytes_max(self) -> int | None:
        """Size at a broker: a gateway has put a scope in front of every name and perhaps configs in."""
        if self.frame_bytes_max is None:
            return None
        each_bytes = _ADDED_CONFIG_BYTES if self.is_added_to else SCOPE_BYTES + _WIDER_LENGTH_BYTES
        return self.frame_bytes_max + each_bytes * (self.entries_max + 1)


USUAL: Final = RequestBound(10_500)
PARTITIONS_AT_ONCE: Final = 4_000
"""So many of any topics fit into every request that names a topic for each."""
CONFIGS_AT_ONCE: Final = 500
"""Topics whose configs are asked for."""
SUBSCRIBED_NAMES_MAX: Final = 12_000
"""Topic names inside the metadata of one JoinGroup: 3,000 topics, named again as owned, in two protocols."""

_ADMIN: Final = "tools make, change or remove topics by the dozen; an instance has 300 partitions by default"
_COMMIT: Final = "5,000 partitions with metadata of 700 bytes, as stream processors write it"
_BOUNDS: Final[dict[int, RequestBound]] = {
    ApiKey.PRODUCE: RequestBound(
        8_000, None, why="records are passed on as they are; a producer batches what one broker leads"
    ),
    ApiKey.FETCH: RequestBound(6_500, why="a consumer fetches what one broker leads of its assignment"),
    ApiKey.METADATA: RequestBound(10_000, why="clients name the topics they use, or none for all"),
    ApiKey.OFFSET_COMMIT: RequestBound(5_000, 4 * MIB, why=_COMMIT),
    ApiKey.OFFSET_FETCH: RequestBound(
        6_000,
        why="a member asks for its assignment, a tool for some hundred groups; all topics are one null",
    ),
    ApiKey.TXN_OFFSET_COMMIT: RequestBound(5_000, 4 * MIB, why=_COMMIT),
    ApiKey.JOIN_GROUP: RequestBound(
        1_000, 8 * MIB, why="a member offers few protocols; a Streams app's metadata may be megabytes"
    ),
    ApiKey.SYNC_GROUP: RequestBound(10_500, 8 * MIB, why="assignments: bytes for each member of a group"),
    ApiKey.LEAVE_GROUP: RequestBound(3_000, why="tools remove all static members of a group at once"),
    ApiKey.CREATE_TOPICS: RequestBound(
        1_000, is_added_to=True, why=f"{_ADMIN}; each is answered with all its configs"
    ),
    ApiKey.DELETE_TOPICS: RequestBound(3_000, why=_ADMIN),
    ApiKey.CREATE_PARTITIONS: RequestBound(3_000, why=_ADMIN),
    ApiKey.DESCRIBE_CONFIGS: RequestBound(
        1_000,
        in_portions_max=10_500,
        why="consoles and Kafka's tools ask for all topics at once; each is answered with all its configs",
    ),
    ApiKey.ALTER_CONFIGS: RequestBound(2_000, is_added_to=True, why=_ADMIN),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: RequestBound(2_000, why=_ADMIN),
    ApiKey.CREATE_ACLS: RequestBound(1_000, why="an instance has no more of them"),
    ApiKey.DELETE_ACLS: RequestBound(200, why="each filter is held against all ACLs"),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: RequestBound(200, why="an instance has no more users"),
    ApiKey.OFFSET_DELETE: RequestBound(6_000, why="tools forget the offsets of topics a group has left"),
    ApiKey.SASL_HANDSHAKE: RequestBound(1, 1024, why="the name of a mechanism"),
    ApiKey.SASL_AUTHENTICATE: RequestBound(
        100, 64 * 1024, why="a password or a token; strangers send it, too"
    ),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: RequestBound(1, 1024, why="an id"),
    ApiKey.PUSH_TELEMETRY: RequestBound(
        1, MIB, why="metrics of one client in one field; beyond half of it the client is told so"
    ),
    ApiKey.CHARGE: RequestBound(1, 1024, why="numbers that a gateway tells"),
    ApiKey.TRACE: RequestBound(1, 64, why="two numbers that a gateway tells"),
    **{
        key: RequestBound(50_000, None, why="between processes of ours")
        for key in (
            ApiKey.LEADER_AND_ISR,
            ApiKey.STOP_REPLICA,
            ApiKey.UPDATE_METADATA,
            ApiKey.CONTROLLED_SHUTDOWN,
            ApiKey.WRITE_TXN_MARKERS,
            ApiKey.ADOPT,
        )
    },
}
assert all(bound.why for bound in _BOUNDS.values()), "an unusual bound has a reason"


def bound_of(api_key: int) -> RequestBound:
    """The bound of one API."""
    return _BOUNDS.get(api_key, USUAL)


def pieces(every: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """For whoever asks about more than one request may name."""
    for first in range(0, len(every), most):
        yield every[first : first + most]
