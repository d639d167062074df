"""Values of records as typed columns, or why they are none: strict, and the same on every run. Pure.

A reader makes a document of a value: what parses nothing, exceeds its type or lacks a required field is an
error of its record alone. Fields that the schema does not name are passed over and told. Arrow makes columns
of all documents at once.
"""

import csv
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from pipeline.lake.decode.ddl import JSON_TEXT, columns_of, ddl_of, items_of
from pipeline.lake.decode.schema import RecordSchema, ValueFormat

_TIMESTAMP_MS_MIN: Final = -62_135_596_800_000
_TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
_FLOAT_MAX: Final = 3.4028235677973366e38
_UNKNOWN_MAX: Final = 20
_NAME_LENGTH_MAX: Final = 200
_MESSAGE_LENGTH_MAX: Final = 500
HEADER_BYTES: Final = 5
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

NULL_VALUE: Final = "null_value"
MALFORMED: Final = "malformed"
BAD_FRAMING: Final = "bad_framing"
MISSING_FIELD: Final = "missing_field"
WRONG_TYPE: Final = "wrong_type"
OUT_OF_RANGE: Final = "out_of_range"
WRONG_COLUMNS: Final = "wrong_columns"
"""Classes of errors, as dead letters name them."""


_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError, csv.Error)
"""What parsers raise of values that are not what they read."""


class Fault(NamedTuple):
    """Why a value is not what the schema says."""

    error_class: str
    message: str


class DecodedBatch(NamedTuple):
    """What became of values, in their order."""

    good: list[int]
    """Positions of the values that parse; `columns` has a row for each."""
    columns: list[pa.Array]
    unknown: list[list[str] | None]
    """Fields of each good value that the schema does not have."""
    faults: dict[int, Fault]
    """Faults of all other values, by position."""


class FaultError(Exception):
    """Carries a Fault out of a reader."""

    def __init__(self, error_class: str, message: str) -> None:
        super().__init__(message)
        self.fault = Fault(error_class, message[:_MESSAGE_LENGTH_MAX])


Document: TypeAlias = dict[str, Any]
Read: TypeAlias = Callable[[bytes], tuple[Document, list[str] | None]]
"""A value's document, and its unknown fields. Raises: FaultError, and what `_UNREADABLE` has."""
Fit: TypeAlias = Callable[[Any], Any]
"""Arrow's value of one that was read and is not null. Raises: FaultError."""


class ValueDecoder:
    """Makes columns of the documents that a reader has for their fields."""

    def __init__(self, fields: pa.Schema, read: Read) -> None:
        self._kind = pa.struct(columns_of(fields))
        self._read = read

    def decode(self, values: Sequence[bytes | None]) -> DecodedBatch:
        """Every value is either good or has a fault."""
        rows: list[Document] = []
        good: list[int] = []
        unknown: list[list[str] | None] = []
        faults: dict[int, Fault] = {}
        read = self._read
        for index, value in enumerate(values):
            try:
                if value is None:
                    raise FaultError(NULL_VALUE, "the record has no value")
                row, strange = read(value)
            except FaultError as error:
                faults[index] = error.fault
                continue
            except _UNREADABLE as error:
                faults[index] = _fault_of(error).fault
                continue
            rows.append(row)
            good.append(index)
            unknown.append(strange)
        return DecodedBatch(good, pa.array(rows, self._kind).flatten(), unknown, faults)


def decoder_of(schema: RecordSchema) -> ValueDecoder:
    """By a schema that somebody wrote."""
    return ValueDecoder(schema.fields, fitted(_reader(schema), schema.fields))


def fitted(read: Read, fields: pa.Schema) -> Read:
    """A reader whose documents Arrow takes."""
    fit = _struct_fit(fields, "$")
    if fit is None:
        return read

    def fitting(value: bytes) -> tuple[Document, list[str] | None]:
        document, unknown = read(value)
        return fit(document), unknown

    return fitting


def _reader(schema: RecordSchema) -> Read:
    match schema.format:
        case ValueFormat.JSON:
            return json_reader(schema.fields)
        case ValueFormat.CONFLUENT_JSON:
            read = json_reader(schema.fields)
            return lambda value: read(value[header_of(value) :])
        case ValueFormat.CSV:
            return _csv_reader(schema.fields)
        case ValueFormat.TEXT:
            [name] = schema.fields.names
            return lambda value: ({name: value.decode()}, None)
        case ValueFormat.REGISTRY:
            raise AssertionError("its values are read by the schemas that they name")


def header_of(value: bytes) -> int:
    """Bytes in front of the data. Raises: FaultError."""
    if len(value) < HEADER_BYTES or value[0] != 0:
        raise FaultError(BAD_FRAMING, "the value does not begin with a zero byte and a 4-byte schema id")
    return HEADER_BYTES


def json_reader(fields: pa.Schema) -> Read:
    """Of JSON objects."""
    strict: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_row_type(fields, forbid_unknown=True))
    lenient: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_row_type(fields, forbid_unknown=False))

    def read(value: bytes) -> tuple[Document, list[str] | None]:
        try:
            return _document(strict.decode(value)), None
        except _UNREADABLE:
            pass  # mostly a field that the schema does not have: tried again without that rule
        row = lenient.decode(value)
        return _document(row), unknown_fields(msgspec.json.decode(value), fields)

    return read


def _csv_reader(fields: pa.Schema) -> Read:
    row_type = _row_type(fields, forbid_unknown=False)

    def read(value: bytes) -> tuple[Document, list[str] | None]:
        lines = list(csv.reader(io.StringIO(value.decode(), newline=""), strict=True))
        if len(lines) != 1:
            raise FaultError(MALFORMED, f"the value has {len(lines)} lines of CSV, not one")
        if len(lines[0]) != len(fields):
            raise FaultError(
                WRONG_COLUMNS, f"the line has {len(lines[0])} values, the schema {len(fields)} fields"
            )
        named = {
            each.name: text if pa.types.is_string(each.type) else text.strip()
            for each, text in zip(fields, lines[0], strict=True)
            if text
        }
        return _document(msgspec.convert(named, row_type, strict=False)), None

    return read


def _document(row: object) -> Document:
    found: Document = msgspec.to_builtins(row, builtin_types=(bytes, datetime, date, Decimal))
    return found


def unknown_fields(value: object, fields: pa.Schema | pa.StructType, inside: str = "") -> list[str]:
    """Paths of what an object has and the schema has not, at most twenty."""
    found: list[str] = []
    if isinstance(value, dict):
        known = {each.name: each.type for each in fields}
        for name, inner in value.items():
            path = f"{inside}{name}"[:_NAME_LENGTH_MAX]
            if name not in known:
                found.append(path)
            elif pa.types.is_struct(known[name]):
                found += unknown_fields(inner, known[name], f"{path}.")
            if len(found) >= _UNKNOWN_MAX:
                break
    return found[:_UNKNOWN_MAX]


def _fault_of(error: Exception) -> FaultError:
    text = str(error)
    if isinstance(error, RecursionError):
        return FaultError(MALFORMED, "it is nested too deep")
    if not isinstance(error, msgspec.ValidationError):
        return FaultError(MALFORMED, text)
    if "missing required" in text:
        return FaultError(MISSING_FIELD, text)
    if "<=" in text or ">=" in text or "out of range" in text:
        return FaultError(OUT_OF_RANGE, text)
    return FaultError(WRONG_TYPE, text)


def _row_type(fields: pa.Schema | pa.StructType, *, forbid_unknown: bool) -> type:
    """A msgspec structure with a field `f<n>` for the n-th field."""
    # Structures of plain values are no garbage that the collector would have to look at.
    kinds = [_msgspec_type(each.type, forbid_unknown) for each in fields]
    members: list[Any] = [(f"f{n}", kinds[n]) for n, each in enumerate(fields) if not each.nullable]
    members += [(f"f{n}", kinds[n] | None, None) for n, each in enumerate(fields) if each.nullable]
    return msgspec.defstruct(
        "Row",
        members,
        rename={f"f{n}": each.name for n, each in enumerate(fields)},
        forbid_unknown_fields=forbid_unknown,
        gc=False,
    )


def _msgspec_type(kind: pa.DataType, forbid_unknown: bool) -> Any:
    if pa.types.is_integer(kind):
        half = 2 ** (kind.bit_width - 1)
        return Annotated[int, msgspec.Meta(ge=-half, le=half - 1)]
    if pa.types.is_struct(kind):
        return _row_type(kind, forbid_unknown=forbid_unknown)
    if (items := items_of(kind)) is not None:
        inner: Any = _msgspec_type(items, forbid_unknown) | None
        return dict[str, inner] if pa.types.is_map(kind) else list[inner]
    if pa.types.is_timestamp(kind):
        return datetime | Annotated[int, msgspec.Meta(ge=_TIMESTAMP_MS_MIN, le=_TIMESTAMP_MS_MAX)]
    return Decimal if pa.types.is_decimal(kind) else _SCALARS[kind]


_SCALARS: Final[dict[pa.DataType, Any]] = {
    pa.bool_(): bool,
    pa.float32(): Annotated[float, msgspec.Meta(ge=-_FLOAT_MAX, le=_FLOAT_MAX)],
    pa.float64(): float,
    pa.string(): str,
    pa.binary(): bytes,
    pa.date32(): date,
    JSON_TEXT: Any,
}


def _fit_of(kind: pa.DataType, path: str) -> Fit | None:
    """What values of a type need before Arrow takes them; None: nothing."""
    if pa.types.is_decimal(kind):
        return _decimal_fit(kind, path)
    if pa.types.is_timestamp(kind):
        return _timestamp_fit(path)
    if kind == JSON_TEXT:
        return lambda value: value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if pa.types.is_struct(kind):
        return _struct_fit(kind, path)
    items = items_of(kind)
    fit = None if items is None else _fit_of(items, f"{path}[...]")
    if fit is None:
        return None
    if pa.types.is_map(kind):
        return lambda value: {name: None if each is None else fit(each) for name, each in value.items()}
    return lambda value: [None if each is None else fit(each) for each in value]


def _struct_fit(kind: pa.Schema | pa.StructType, path: str) -> Fit | None:
    """In their place."""
    found = [(each.name, _fit_of(each.type, f"{path}.{each.name}")) for each in kind]
    fits = [(name, fit) for name, fit in found if fit is not None]

    def fit(value: Document) -> Document:
        for name, inner in fits:
            if (given := value.get(name)) is not None:
                value[name] = inner(given)
        return value

    return fit if fits else None


def _decimal_fit(kind: pa.DataType, path: str) -> Fit:
    """Exactly what the column can hold: nothing is rounded."""
    quantize = Context(prec=kind.precision, traps=[Inexact, InvalidOperation]).quantize
    last_digit = Decimal(1).scaleb(-kind.scale)

    def fit(value: Decimal) -> Decimal:
        with suppress(Inexact, InvalidOperation):
            if value.is_finite():
                return quantize(value, last_digit)
        raise FaultError(OUT_OF_RANGE, f"{str(value)[:100]} is no {ddl_of(kind)} - at `{path}`")

    return fit


def _timestamp_fit(path: str) -> Fit:
    """Numbers are milliseconds since 1970; a time without a zone is UTC."""

    def fit(value: datetime | int) -> datetime | int:
        if isinstance(value, int):
            return value * 1000
        if value.utcoffset():
            since = (value - _EPOCH) // _MILLISECOND
            if not _TIMESTAMP_MS_MIN <= since <= _TIMESTAMP_MS_MAX:
                raise FaultError(OUT_OF_RANGE, f"{value} is not in the years 1 to 9999 - at `{path}`")
        return value

    return fit
