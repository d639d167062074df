"""Names by which engines know lake tables: `shop.orders` for topic `orders` of instance `shop`. Pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

_OTHERS: Final = re.compile(r"[^0-9a-z_]+")
_ID_LENGTH: Final = 8
_SUFFIX: Final = {"lake": "", "decoded": "_decoded", "dead_letters": "_dead_letters"}


class Place(NamedTuple):
    """One table, by ids and by the names that tenants chose."""

    instance_id: str
    instance: str
    topic: str
    topic_id: str
    kind: str
    url: str


class Readable(NamedTuple):
    """A table's name in an engine: letters, digits and `_`, in small letters, as not all tell cases apart."""

    schema: str
    name: str
    place: Place


def readable(places: Sequence[Place]) -> list[Readable]:
    """Names of tables. Of those that would have one name, such as topics made again, the first has it, and
    the others have the beginning of their ids behind it.
    """
    schemas = _names({each.instance_id: each.instance for each in places})
    found = []
    for instance_id, schema in schemas.items():
        mine = [each for each in places if each.instance_id == instance_id]
        topics = {f"{each.topic_id} {each.kind}": each.topic + _SUFFIX[each.kind] for each in mine}
        names = _names(topics)
        found += [Readable(schema, names[f"{each.topic_id} {each.kind}"], each) for each in mine]
    return sorted(found, key=lambda each: each[:2])


def _names(texts: Mapping[str, str]) -> dict[str, str]:
    """Different names by id."""
    found: dict[str, str] = {}
    for each, text in texts.items():
        name = _OTHERS.sub("_", text.lower())
        taken = set(found.values())
        found[each] = name if name not in taken else f"{name}_{each[:_ID_LENGTH]}"
        assert found[each] not in taken, "ids differ in their beginning"
    return found


def spark_views(tables: Sequence[Readable]) -> list[str]:
    """Statements for a session of our own: what is a view is not written to by mistake."""
    return _schemas(tables, "`") + [
        f"CREATE VIEW `{each.schema}`.`{each.name}` AS SELECT * FROM delta.`{_for_spark(each.place.url)}`"
        for each in tables
    ]


def spark_tables(tables: Sequence[Readable]) -> list[str]:
    """Statements for a catalog that stays: Hive's, Unity, Glue."""
    return _schemas(tables, "`") + [
        f"CREATE TABLE IF NOT EXISTS `{each.schema}`.`{each.name}` USING delta LOCATION "
        f"{_quoted(_for_spark(each.place.url))}"
        for each in tables
    ]


def duckdb_views(tables: Sequence[Readable]) -> list[str]:
    """Statements for DuckDB with its extension `delta`."""
    return _schemas(tables, '"') + [
        f'CREATE OR REPLACE VIEW "{each.schema}"."{each.name}" AS SELECT * FROM '
        f"delta_scan({_quoted(each.place.url.replace('s3a://', 's3://', 1))})"
        for each in tables
    ]


def _schemas(tables: Sequence[Readable], quote: str) -> list[str]:
    names = dict.fromkeys(each.schema for each in tables)
    return [f"CREATE SCHEMA IF NOT EXISTS {quote}{each}{quote}" for each in names]


def _for_spark(url: str) -> str:
    """A path alone would be one of HDFS where Spark's settings say so."""
    return url if "://" in url else f"file://{url}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
