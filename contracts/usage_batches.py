"""Usage records as messages of topic `usage`: those of one run of a point together, in columns.

JSON, so that any client shows them; the names of columns and what is the same of all records stand once for
up to 1,000 of them. Messages are keyed by point, so records of one boot id stay in order.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final

import msgspec

from contracts.usage_records import USAGE_VERSION, Count, Grid, Identifier, UsageRecord, record_id

RECORDS_MAX: Final = 1_000
"""Such a message has 700 kB at most; producers and brokers take 1 MB unless they are told otherwise."""
OF_RUN: Final = ("point", "node_id", "cluster_id", "boot_id", "counted_since_ms", "grid_ms")
"""What is the same of all records of a message."""
COLUMNS: Final = tuple(
    name for name in UsageRecord.__struct_fields__ if name not in {*OF_RUN, "id", "instance_id", "version"}
)
"""The numbers that differ."""


class UsageBatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message. Entry n of each list is of its record n, whose id follows from the rest."""

    version: Annotated[int, msgspec.Meta(ge=USAGE_VERSION, le=USAGE_VERSION)]
    point: Identifier
    node_id: Count
    cluster_id: str
    boot_id: Identifier
    counted_since_ms: Count
    grid_ms: Grid
    instance_id: list[Identifier]
    columns: dict[str, list[Count]]
    """By the names of COLUMNS."""

    def __post_init__(self) -> None:
        if wrong := self.columns.keys() ^ set(COLUMNS):
            raise ValueError(f"columns that are missing or that nobody knows: {', '.join(sorted(wrong))}")
        if {len(values) for values in self.columns.values()} != {len(self.instance_id)}:
            raise ValueError("the columns are not of one length")

    def records(self) -> Iterator[UsageRecord]:
        """One by one."""
        run = {name: getattr(self, name) for name in OF_RUN}
        numbers = zip(*(self.columns[name] for name in COLUMNS), strict=True)
        for instance_id, row in zip(self.instance_id, numbers, strict=True):
            own = dict(zip(COLUMNS, row, strict=True))
            made = record_id(self.boot_id, instance_id, own["interval_start_ms"])
            yield UsageRecord(id=made, instance_id=instance_id, version=self.version, **run, **own)


def by_message(records: Iterable[UsageRecord]) -> Iterator[list[UsageRecord]]:
    """Records that one message holds, in order; none is left out."""
    runs: dict[tuple[object, ...], list[UsageRecord]] = {}
    for record in records:
        runs.setdefault(tuple(getattr(record, name) for name in OF_RUN), []).append(record)
    for run in runs.values():
        for first in range(0, len(run), RECORDS_MAX):
            yield run[first : first + RECORDS_MAX]


def encoded(records: Sequence[UsageRecord]) -> bytes:
    """The message of what `by_message` gives together."""
    return msgspec.json.encode(
        UsageBatch(
            version=USAGE_VERSION,
            **{name: getattr(records[0], name) for name in OF_RUN},
            instance_id=[one.instance_id for one in records],
            columns={name: [getattr(one, name) for one in records] for name in COLUMNS},
        )
    )


class OtherVersionError(Exception):
    """A message of another version of this format."""


class _Versioned(msgspec.Struct):
    version: int


_versions: Final = msgspec.json.Decoder(_Versioned)
_batches: Final = msgspec.json.Decoder(UsageBatch)


def decoded(message: bytes) -> UsageBatch:
    """Raises: msgspec.MsgspecError where it is none, with what is wrong; OtherVersionError."""
    try:
        try:
            return _batches.decode(message)
        except msgspec.ValidationError as error:
            version = _versions.decode(message).version
            if version == USAGE_VERSION:
                raise
            raise OtherVersionError(f"version {USAGE_VERSION} is read here, not {version}") from error
    except (RecursionError, UnicodeDecodeError) as error:
        raise msgspec.DecodeError(f"{type(error).__name__}: {error}") from error
