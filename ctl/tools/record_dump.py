"""The records of one batch as facts, those of the coordinators' topics in their own terms."""

import enum
from collections.abc import Iterator
from typing import Any

from broker.groups.record_fields import UnreadableRecord as UnreadableGroupRecord
from broker.groups.records import decode as decode_group_record
from broker.log.payload import records_of
from broker.transactions.records import UnreadableRecord as UnreadableTransactionRecord
from broker.transactions.records import decode as decode_transaction_record
from wire.batch import BatchError, BatchHeader, Record
from wire.compression import PayloadUnreadable
from wire.control import parse_marker


class Decoder(enum.Enum):
    """What keys and values are."""

    OFFSETS = "offsets"
    TRANSACTIONS = "transactions"


def records_in(batch: bytes, header: BatchHeader, decoder: Decoder | None) -> Iterator[dict[str, object]]:
    """Raises: ValueError where they cannot be read."""
    marker = parse_marker(batch, header) if header.is_control else None
    try:
        for record in records_of(batch, header):
            facts: dict[str, object] = {"offset": record.offset, "timestamp": record.timestamp_ms}
            if marker is not None:
                facts["endTxnMarker"] = "COMMIT" if marker.is_commit else "ABORT"
                facts["coordinatorEpoch"] = marker.coordinator_epoch
            elif decoder is not None and not header.is_control:
                facts |= _decoded(record, decoder)
            else:
                facts |= {"key": _text(record.key), "payload": _text(record.value)}
                facts |= {"headers": {name: _text(value) for name, value in record.headers}}
            yield facts
    except (PayloadUnreadable, BatchError) as error:
        raise ValueError(str(error)) from error


def _decoded(record: Record, decoder: Decoder) -> dict[str, object]:
    key = record.key or b""
    try:
        if decoder is Decoder.OFFSETS:
            found: Any = decode_group_record(key, record.value)
        else:
            found = decode_transaction_record(key, record.value)
    except (UnreadableGroupRecord, UnreadableTransactionRecord) as error:
        raise ValueError(f"offset {record.offset}: {error}") from error
    if found is None:
        return {"key": _text(record.key), "payload": _text(record.value)}
    return {name: _plain(value) for name, value in found._asdict().items()}


def _plain(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, (frozenset, set)):
        return [_plain(each) for each in sorted(value)]
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value


def _text(data: bytes | None) -> str | None:
    """UTF-8, or what is none in hexadecimal."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"
