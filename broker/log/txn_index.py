"""The `.txnindex`: aborted transactions whose markers are in one segment. Pure: bytes in, bytes out.

Entries of 34 bytes {version i16 = 0, producer id, first offset, last offset (of the marker), last stable
offset when it ended, all i64}, in the order of markers.
Source: Kafka TransactionIndex, AbortedTxn.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

_ENTRY: Final = struct.Struct(">hqqqq")
ENTRY_SIZE: Final = _ENTRY.size
_VERSION: Final = 0


class TxnIndexCorrupt(ValueError):  # noqa: N818 - states what is so
    """The file does not parse; producers and batches rebuild it."""


class AbortedTransaction(NamedTuple):
    """A read_committed consumer drops the producer's records from `first_offset` to the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker."""
    last_stable_offset: int
    """When the marker was written: who looks for what began below it need not look further."""


def parse_txn_index(data: bytes, base_offset: int) -> list[AbortedTransaction]:
    """The file's entries. Raises: TxnIndexCorrupt."""
    if len(data) % ENTRY_SIZE:
        raise TxnIndexCorrupt(f"{len(data)} bytes are no multiple of {ENTRY_SIZE}")
    entries = []
    before = base_offset - 1
    for version, *fields in _ENTRY.iter_unpack(data):
        entry = AbortedTransaction._make(fields)
        if version != _VERSION:
            raise TxnIndexCorrupt(f"an entry of version {version}")
        if entry.last_offset <= before or not 0 <= entry.first_offset <= entry.last_offset:
            raise TxnIndexCorrupt(f"{entry} does not follow offset {before}")
        before = entry.last_offset
        entries.append(entry)
    return entries


def encode_txn_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """The file's bytes."""
    return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in entries)


def find_aborted(
    entries: Iterable[AbortedTransaction], fetch_offset: int, upper_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """(those with records in `fetch_offset`..`upper_offset`, exclusive; whether later segments have none)."""
    found = []
    for entry in entries:
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_offset:
            found.append(entry)
        if entry.last_stable_offset >= upper_offset:
            return found, True
    return found, False
