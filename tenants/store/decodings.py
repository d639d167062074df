"""Rows of how messages of topics are read, and of the schema registries of instances."""

from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, insert, select

from contracts.registered_schemas import SchemaKind
from tenants.rules.decoding import Decoding
from tenants.store import schema
from tenants.store.engine import put


@dataclass(frozen=True, slots=True)
class RegistryRow:
    """Where an instance's schema registry is. `password` is sealed, empty: there is none."""

    url: str
    user: str
    password: str = field(repr=False)
    revision: int


def registry_of(connection: Connection, instance_id: str) -> RegistryRow | None:
    """An instance's; None: it has none."""
    table = schema.schema_registries
    query = select(table).where(table.c.instance_id == instance_id)
    row = connection.execute(query).mappings().first()
    return None if row is None else RegistryRow(row["url"], row["user"], row["password"], row["revision"])


def put_registry(connection: Connection, instance_id: str, row: RegistryRow) -> None:
    """Set it."""
    values = {"url": row.url, "user": row.user, "password": row.password, "revision": row.revision}
    put(connection, schema.schema_registries, {"instance_id": instance_id}, values)


def remove_registry(connection: Connection, instance_id: str) -> bool:
    """Whether there was one."""
    table = schema.schema_registries
    return connection.execute(delete(table).where(table.c.instance_id == instance_id)).rowcount > 0


def decoding_of(connection: Connection, instance_id: str, topic: str) -> Decoding | None:
    """A topic's; None: nobody has said."""
    table = schema.topic_decodings
    query = select(table).where(table.c.instance_id == instance_id, table.c.topic == topic)
    row = connection.execute(query).mappings().first()
    return None if row is None else _decoding(row)


def count(connection: Connection, instance_id: str) -> int:
    """Topics of an instance of which somebody has said."""
    table = schema.topic_decodings
    query = select(func.count()).select_from(table).where(table.c.instance_id == instance_id)
    return connection.scalar(query) or 0


def put_decoding(connection: Connection, instance_id: str, topic: str, decoding: Decoding) -> None:
    """Set it."""
    values: dict[str, Any] = {
        "kind": decoding.kind and decoding.kind.value,
        "schema_text": decoding.schema,
        "message": decoding.message,
        "has_registry_header": decoding.has_registry_header,
        "masked_fields": list(decoding.masked_fields),
        "masked_headers": list(decoding.masked_headers),
        "masks_key": decoding.masks_key,
    }
    table = schema.topic_decodings
    connection.execute(delete(table).where(table.c.instance_id == instance_id, table.c.topic == topic))
    connection.execute(insert(table).values(instance_id=instance_id, topic=topic, **values))


def remove_decoding(connection: Connection, instance_id: str, topic: str) -> bool:
    """Whether there was one."""
    table = schema.topic_decodings
    its = (table.c.instance_id == instance_id) & (table.c.topic == topic)
    return connection.execute(delete(table).where(its)).rowcount > 0


def forget_instance(connection: Connection, instance_id: str) -> None:
    """It is purged."""
    for table in (schema.topic_decodings, schema.schema_registries):
        connection.execute(delete(table).where(table.c.instance_id == instance_id))


def _decoding(row: RowMapping) -> Decoding:
    return Decoding(
        kind=None if row["kind"] is None else SchemaKind(row["kind"]),
        schema=row["schema_text"],
        message=row["message"],
        has_registry_header=row["has_registry_header"],
        masked_fields=tuple(row["masked_fields"]),
        masked_headers=tuple(row["masked_headers"]),
        masks_key=row["masks_key"],
    )
