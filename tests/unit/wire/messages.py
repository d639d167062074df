"""Random Kafka messages from the schema, and a second, naive way to map their names (the oracle).

The oracle walks paths of the committed `classification.json` and knows nothing of how `wire.rewrite` is
compiled.
"""

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

import wire
from wire.schema import Field, fields_of, kind_of
from wire.scope import Scope, View

OWN = Scope("iabcdefghijk")
FOREIGN = Scope("izyxwvutsrqp")
VIEW = View({1: ("vip.example", 20001), 2: ("vip.example", 20002)}, total_bytes=10**10, usable_bytes=10**9)

TABLE: dict[str, dict[str, str]] = json.loads(
    (Path(wire.__file__).parent / "classification.json").read_text()
)["fields"]

SERVED: dict[str, range] = {
    "produce": range(3, 10),
    "fetch": range(4, 19),
    "list_offsets": range(1, 12),
    "metadata": range(12),
    "offset_commit": range(2, 9),
    "offset_fetch": range(1, 8),
    "find_coordinator": range(6),
    "join_group": range(10),
    "heartbeat": range(5),
    "leave_group": range(6),
    "sync_group": range(6),
    "describe_groups": range(7),
    "list_groups": range(6),
    "sasl_handshake": range(2),
    "sasl_authenticate": range(3),
    "api_versions": range(4),
    "create_topics": range(2, 8),
    "delete_topics": range(1, 7),
    "init_producer_id": range(6),
    "offset_for_leader_epoch": range(2, 5),
    "add_partitions_to_txn": range(4),
    "add_offsets_to_txn": range(5),
    "end_txn": range(5),
    "txn_offset_commit": range(5),
    "describe_acls": range(1, 3),
    "create_acls": range(1, 3),
    "delete_acls": range(1, 3),
    "describe_configs": range(1, 5),
    "alter_configs": range(3),
    "incremental_alter_configs": range(2),
    "delete_records": range(3),
    "create_partitions": range(4),
    "delete_groups": range(3),
    "elect_leaders": range(3),
    "alter_partition_reassignments": range(1),
    "list_partition_reassignments": range(1),
    "offset_delete": range(1),
    "describe_cluster": range(1),
    "describe_log_dirs": range(1, 3),
}
"""The `serve` column of the reference for gateways and brokers."""

NAME_CLASSES = {"topic name", "group id", "transactional id", "coordinator key"}
NAMES = st.text("ab.é", min_size=1, max_size=3)
FREE = st.text("xyz", max_size=4)
_MS = datetime.timedelta(milliseconds=1)
_EPOCH = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)

_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-3, 9),
    "uint8": st.integers(0, 255),
    "int16": st.integers(-3, 9),
    "uint16": st.integers(0, 65535),
    "int32": st.integers(-2, 9),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "error_code": st.sampled_from([ErrorCode.none, ErrorCode.not_coordinator, ErrorCode.invalid_request]),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda ms: ms * _MS),
    "timedelta_i64": st.integers(0, 2**40).map(lambda ms: ms * _MS),
    "datetime_i64": st.integers(0, 2**40).map(lambda ms: _EPOCH + ms * _MS),
    "uuid": st.integers(2, 2**128 - 1).map(lambda number: UUID(int=number)),
    "bytes": st.binary(max_size=20),
    "records": st.binary(max_size=200),
}

_FIXED_NAMES: dict[str, st.SearchStrategy[Any]] = {
    "replica_id": st.just(-1),
    "replica_epoch": st.just(-1),
    "protocol_type": st.sampled_from(["consumer", "connect"]),
}


def _value(message: str, path: str, field: Field) -> st.SearchStrategy[Any]:
    if field.kafka_type == "entity":
        values = _entities(field.value_type, message, path)
    elif field.name in _FIXED_NAMES:
        values = _FIXED_NAMES[field.name]
    elif field.name == "key_type":
        values = st.sampled_from([0, 1])
    elif field.name in ("resource_type", "resource_type_filter"):
        values = st.sampled_from([2, 3, 5])
    elif field.kafka_type == "string":
        named = TABLE[message][path] not in ("free text", "opaque", "error text")
        values = NAMES if named else FREE
    else:
        values = _PLAIN[field.kafka_type]
    if field.is_array:
        values = st.lists(values, max_size=3).map(tuple)
    nullable = field.nullable and field.tag is None and field.name != "resource_name_filter"
    return st.none() | values if nullable else values


@lru_cache(maxsize=4096)
def _entities(message_class: Any, message: str, path: str) -> st.SearchStrategy[Any]:
    parts = {}
    for field in fields_of(message_class):
        at = f"{path}.{field.name}" + ("[]" if field.is_array else "")
        parts[field.name] = _value(message, at, field)
    return st.builds(message_class, **parts)


def messages(message_class: Any) -> st.SearchStrategy[Any]:
    """Messages of one class as a tenant sees them: every name is the tenant's own."""
    return _entities(message_class, str(kind_of(message_class)), "")


def map_fields(entity: Any, mapped: Callable[[str, Any, Any], Any]) -> Any:
    """The message with every leaf replaced by `mapped(class of the field, value, entity beside it)`."""
    return _map_nested(entity, mapped, TABLE.get(str(kind_of(type(entity))), {}), "")


def _map_nested(entity: Any, mapped: Callable[[str, Any, Any], Any], rows: dict[str, str], path: str) -> Any:
    changes = {}
    for field in fields_of(type(entity)):
        value = getattr(entity, field.name)
        at = f"{path}.{field.name}" + ("[]" if field.is_array else "")
        if value is None or (field.kafka_type != "entity" and at not in rows):
            continue
        values = value if field.is_array else (value,)
        if field.kafka_type == "entity":
            new = tuple(_map_nested(each, mapped, rows, at) for each in values)
        else:
            new = tuple(mapped(rows[at], each, entity) for each in values)
        changes[field.name] = new if field.is_array else new[0]
    return replace(entity, **changes)
