"""Rows of usage as it is counted before the pipeline settles it."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields
from itertools import islice
from typing import Final

from sqlalchemy import Connection, RowMapping, Table, bindparam, delete, func, insert, select, tuple_, update

from tenants.rules.counted_usage import CountedHour, HourKey, Meter, MeterKey, Position
from tenants.store import schema
from tenants.store.engine import put

_KEYS_PER_READ: Final = 400
_COUNTS: Final = tuple(one.name for one in fields(CountedHour))


def positions(connection: Connection, cluster_id: str) -> dict[int, Position]:
    """How far each partition of topic `usage` is counted."""
    table = schema.usage_positions
    query = select(table).where(table.c.cluster_id == cluster_id)
    rows = connection.execute(query).mappings()
    return {row["partition"]: Position(row["topic_id"], row["next_offset"]) for row in rows}


def move_on(connection: Connection, cluster_id: str, moved: Mapping[int, Position]) -> None:
    """What lies in front of these is counted."""
    for partition, position in moved.items():
        key = {"cluster_id": cluster_id, "partition": partition}
        put(connection, schema.usage_positions, key, position._asdict())


def meters(connection: Connection, keys: Collection[MeterKey]) -> dict[MeterKey, Meter]:
    """Those that there are."""
    table = schema.usage_meters
    return {
        (row["boot_id"], row["instance_id"]): Meter(
            row["until_ms"], row["produce_bytes_total"], row["consume_bytes_total"]
        )
        for row in _of(connection, table, ("boot_id", "instance_id"), keys)
    }


def hours(connection: Connection, keys: Collection[HourKey]) -> dict[HourKey, CountedHour]:
    """Those that there are."""
    table = schema.usage_hours
    return {
        (row["instance_id"], row["hour_start_ms"]): _hour(row)
        for row in _of(connection, table, ("instance_id", "hour_start_ms"), keys)
    }


def of_instance(
    connection: Connection, instance_id: str, from_ms: int, to_ms: int
) -> list[tuple[int, CountedHour]]:
    """The hours of an instance that begin in a span, oldest first."""
    table = schema.usage_hours
    query = (
        select(table)
        .where(table.c.instance_id == instance_id)
        .where(table.c.hour_start_ms >= from_ms, table.c.hour_start_ms < to_ms)
        .order_by(table.c.hour_start_ms)
    )
    return [(row["hour_start_ms"], _hour(row)) for row in connection.execute(query).mappings()]


def save(
    connection: Connection,
    changed_meters: Mapping[MeterKey, Meter],
    changed_hours: Mapping[HourKey, CountedHour],
    known: Collection[MeterKey | HourKey],
) -> None:
    """Write them; `known`: the keys of rows that are there."""
    rows = {key: meter._asdict() for key, meter in changed_meters.items()}
    _put_all(connection, schema.usage_meters, ("boot_id", "instance_id"), rows, known)
    counts = {key: hour.limited() for key, hour in changed_hours.items()}
    _put_all(connection, schema.usage_hours, ("instance_id", "hour_start_ms"), counts, known)


def newest_hour_ms(connection: Connection) -> int | None:
    """When the last hour begins of which anything is counted."""
    found: int | None = connection.execute(select(func.max(schema.usage_hours.c.hour_start_ms))).scalar()
    return found


def forget(connection: Connection, before_ms: int) -> None:
    """Leave out what is long past."""
    hour, meter = schema.usage_hours, schema.usage_meters
    connection.execute(delete(hour).where(hour.c.hour_start_ms < before_ms))
    connection.execute(delete(meter).where(meter.c.until_ms < before_ms))


def _hour(row: RowMapping) -> CountedHour:
    return CountedHour(**{name: row[name] for name in _COUNTS})


def _of(
    connection: Connection, table: Table, names: tuple[str, str], keys: Collection[MeterKey | HourKey]
) -> Iterator[RowMapping]:
    columns = tuple_(*(table.c[name] for name in names))
    left = iter(keys)
    while some := list(islice(left, _KEYS_PER_READ)):
        yield from connection.execute(select(table).where(columns.in_(some))).mappings()


def _put_all(
    connection: Connection,
    table: Table,
    names: tuple[str, str],
    rows: Mapping[MeterKey, Mapping[str, int]] | Mapping[HourKey, Mapping[str, int]],
    known: Collection[MeterKey | HourKey],
) -> None:
    new = [
        dict(zip(names, key, strict=True)) | dict(values) for key, values in rows.items() if key not in known
    ]
    old = [
        {f"key_{name}": part for name, part in zip(names, key, strict=True)} | dict(values)
        for key, values in rows.items()
        if key in known
    ]
    if new:
        connection.execute(insert(table), new)
    if old:
        its = [table.c[name] == bindparam(f"key_{name}") for name in names]
        connection.execute(update(table).where(*its), old)
