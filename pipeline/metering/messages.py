"""Messages of topic `usage` as Arrow's columns: those that are batches of records, and those that are not."""

from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from contracts.usage_batches import COLUMNS, OF_RUN, OtherVersionError, UsageBatch, decoded
from pipeline.ingest.consume import MESSAGES
from pipeline.schema.usage_records import USAGE_RECORD

_OF_MESSAGE: Final = (*OF_RUN, "version")
BATCHES: Final = pa.schema(
    [
        *(MESSAGES.field(name) for name in ("kafka_partition", "kafka_offset")),
        *(USAGE_RECORD.field(name) for name in _OF_MESSAGE),
        *((name, pa.list_(USAGE_RECORD.field(name).type)) for name in ("instance_id", *COLUMNS)),
    ]
)
"""A row per message; its lists have an entry per record."""
UNREADABLE: Final = pa.schema([*MESSAGES, ("reason", pa.string()), ("error", pa.string())])
_AT_ONCE: Final = 100
"""So many messages are Python's objects at a time: 100,000 records at most."""


class Read(NamedTuple):
    """Each message is in one of them."""

    batches: pa.Table
    unreadable: pa.Table


def read(messages: pa.Table) -> Read:
    """Messages as `consume` gives them."""
    batches, unreadable = [BATCHES.empty_table()], [UNREADABLE.empty_table()]
    for part in messages.to_batches(max_chunksize=_AT_ONCE):
        found: dict[int, UsageBatch] = {}
        refused: dict[int, tuple[str, str]] = {}
        for place, value in enumerate(part["value"].to_pylist()):
            try:
                found[place] = decoded(value or b"")
            except OtherVersionError as error:
                refused[place] = ("version", str(error))
            except msgspec.MsgspecError as error:
                refused[place] = ("schema", str(error))
        if found:
            batches.append(_columns(part.take(pa.array([*found])), [*found.values()]))
        if refused:
            why = [pa.array(column) for column in zip(*refused.values(), strict=True)]
            unreadable.append(pa.table([*part.take(pa.array([*refused])).columns, *why], UNREADABLE))
    return Read(pa.concat_tables(batches), pa.concat_tables(unreadable))


def _columns(of: pa.RecordBatch, batches: list[UsageBatch]) -> pa.Table:
    values: list[Any] = [of["kafka_partition"], of["kafka_offset"]]
    values += ([getattr(one, name) for one in batches] for name in (*_OF_MESSAGE, "instance_id"))
    values += ([one.columns[name] for one in batches] for name in COLUMNS)
    return pa.Table.from_arrays(
        [pa.array(each, field.type) for each, field in zip(values, BATCHES, strict=True)], schema=BATCHES
    )
