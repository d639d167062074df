"""Types of fields, which are Arrow's, as Spark's DDL writes them: read without Spark. Pure.

A field that records must have is not nullable; columns of tables take nulls, as decoding checks requirements.
"""

import re
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from pipeline.errors import PipelineError

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
JSON_TEXT: Final = pa.large_string()
"""A string column whose values are JSON: of what has no type of its own."""
_PLAIN: Final = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_SAME: Final = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float"}
_NAMES: Final = {kind: name for name, kind in _PLAIN.items()} | {JSON_TEXT: "string"}
_PRECISION_MAX: Final = 38
_DEPTH_MAX: Final = 16
_FIELDS_MAX: Final = 2000
_NOT_IN_NAMES: Final = re.compile(r"[ ,;{}()\n\t=]")
_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([A-Za-z0-9_$.\-]+)|([<>(),:]))")


def array_of(items: pa.DataType) -> pa.DataType:
    """A list, as tables have them."""
    return pa.list_(pa.field("element", items))


def items_of(kind: pa.DataType) -> pa.DataType | None:
    """The items of an array, or the values of a map, whose keys are strings as JSON's are."""
    if pa.types.is_list(kind):
        return kind.value_type
    return kind.item_type if pa.types.is_map(kind) else None


def ddl_of(kind: pa.DataType) -> str:
    """A type as Spark writes it."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_struct(kind):
        return f"struct<{fields_ddl(kind, ':')}>"
    if (items := items_of(kind)) is not None:
        return f"map<string, {ddl_of(items)}>" if pa.types.is_map(kind) else f"array<{ddl_of(items)}>"
    return _NAMES[kind]


def fields_ddl(fields: pa.Schema | pa.StructType, separator: str = "") -> str:
    """Fields as they are read again."""
    return ", ".join(
        "`{}`{} {}{}".format(
            each.name.replace("`", "``"), separator, ddl_of(each.type), "" if each.nullable else " NOT NULL"
        )
        for each in fields
    )


def columns_of(fields: pa.Schema | pa.StructType) -> list[pa.Field]:
    """Fields as a table's columns."""
    return [pa.field(each.name, _column(each.type)) for each in fields]


def _column(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(columns_of(kind))
    if (items := items_of(kind)) is not None:
        inner = _column(items)
        return pa.map_(kind.key_type, inner) if pa.types.is_map(kind) else array_of(inner)
    return kind


def parse_fields(ddl: str) -> pa.Schema:
    """`name TYPE [NOT NULL], ...`. Raises: PipelineError with what is expected where."""
    reader = _Reader(ddl)
    fields = reader.fields(separator="", depth=0)
    if (token := reader.next()) is not None:
        raise reader.refused(f"'{token}' is not expected here")
    return pa.schema(fields)


def check_names(fields: list[pa.Field]) -> None:
    """Whether a table can have them as columns. Raises: PipelineError."""
    seen: dict[str, str] = {}
    for each in fields:
        if _NOT_IN_NAMES.search(each.name):
            raise PipelineError(
                f"the field name '{each.name}' cannot be a column: leave out spaces and any of ,;{{}}()="
            )
        if each.name.lower() in seen:
            other = seen[each.name.lower()]
            raise PipelineError(
                f"the field '{each.name}' is there twice"
                if other == each.name
                else f"fields '{other}' and '{each.name}' differ only in case: a table holds one of them"
            )
        seen[each.name.lower()] = each.name


class _Reader:
    """Recursive descent over DDL's tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split(text))
        self._at = 0

    def next(self) -> str | None:
        """The token at hand."""
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def fields(self, separator: str, depth: int) -> list[pa.Field]:
        """Fields up to the first token that is no comma; struct fields have a `:` after their names."""
        found: list[pa.Field] = []
        while not found or self._skip(","):
            if len(found) == _FIELDS_MAX:
                raise self.refused(f"it has more than {_FIELDS_MAX} fields")
            name = self._name()
            if separator:
                self._expect(separator)
            kind = self._type(depth)
            required = self._skip("not")
            if required:
                self._expect("null")
            found.append(pa.field(name, kind, nullable=not required))
        check_names(found)
        return found

    def refused(self, reason: str) -> PipelineError:
        """A sentence about the schema's text."""
        shown = self._text if len(self._text) <= 200 else f"{self._text[:200]}..."
        return PipelineError(f"the schema '{shown}' cannot be read: {reason}")

    def _type(self, depth: int) -> pa.DataType:
        if depth > _DEPTH_MAX:
            raise self.refused(f"types are nested more than {_DEPTH_MAX} deep")
        word = self._take("a type").lower()
        name = _SAME.get(word, word)
        if name in _PLAIN:
            return _PLAIN[name]
        if name == "decimal":
            return self._decimal()
        if name not in ("array", "map", "struct"):
            raise self.refused(f"'{word}' is no type: use {', '.join(_PLAIN)}, decimal, array, map or struct")
        self._expect("<")
        found = self._composite(name, depth + 1)
        self._expect(">")
        return found

    def _composite(self, name: str, depth: int) -> pa.DataType:
        if name == "struct":
            return pa.struct(self.fields(":", depth))
        if name == "array":
            return array_of(self._type(depth))
        if (key := self._take("the type of keys").lower()) != "string":
            raise self.refused(f"keys of a map are strings in JSON, not {key}")
        self._expect(",")
        return pa.map_(pa.string(), self._type(depth))

    def _decimal(self) -> pa.DataType:
        precision, scale = 10, 0
        if self._skip("("):
            precision = self._digits()
            scale = self._digits() if self._skip(",") else 0
            self._expect(")")
        if not 1 <= precision <= _PRECISION_MAX or scale > precision:
            raise self.refused(f"decimal({precision},{scale}) is none: at most {_PRECISION_MAX} digits")
        return pa.decimal128(precision, scale)

    def _digits(self) -> int:
        token = self._take("a number")
        if not (token.isascii() and token.isdigit() and len(token) <= 3):
            raise self.refused(f"'{token}' is no number of digits")
        return int(token)

    def _name(self) -> str:
        token = self._take("a field name")
        if token in "<>(),:":
            raise self.refused(f"a field name is expected where '{token}' is")
        return token[1:-1].replace("``", "`") if token.startswith("`") else token

    def _take(self, expected: str) -> str:
        token = self.next()
        if token is None:
            raise self.refused(f"it ends where {expected} is expected")
        self._at += 1
        return token

    def _skip(self, token: str) -> bool:
        found = (self.next() or "").lower() == token
        self._at += found
        return found

    def _expect(self, token: str) -> None:
        if (found := self._take(f"'{token}'")).lower() != token:
            raise self.refused(f"'{token}' is expected where '{found}' is")

    def _split(self, text: str) -> Iterator[str]:
        position, end = 0, len(text.rstrip())
        while position < end:
            found = _TOKEN.match(text, position)
            if found is None:
                raise self.refused(f"'{text[position : position + 20].strip()}' is not expected here")
            position = found.end()
            yield next(group for group in found.groups() if group)
