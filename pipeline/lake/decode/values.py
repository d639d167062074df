"""Values of records as typed columns, or why they are none: strict, and the same on every run. Pure.

Values are decoded by msgspec into structures without dictionaries; what parses nothing, exceeds its type or
lacks a required field is an error of its record alone. Fields that the schema does not name are passed over
and told.
"""

import csv
import io
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from pipeline.lake.decode.columns import arrow_column
from pipeline.lake.decode.field_types import Field, FieldType
from pipeline.lake.decode.schema import RecordSchema, ValueFormat

_TIMESTAMP_MS_MIN: Final = -62_135_596_800_000
_TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
_FLOAT_MAX: Final = 3.4028235677973366e38
_UNKNOWN_MAX: Final = 20
_NAME_LENGTH_MAX: Final = 200
_MESSAGE_LENGTH_MAX: Final = 500
_CONFLUENT_HEADER_BYTES: Final = 5
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

NULL_VALUE: Final = "null_value"
MALFORMED: Final = "malformed"
BAD_FRAMING: Final = "bad_framing"
MISSING_FIELD: Final = "missing_field"
WRONG_TYPE: Final = "wrong_type"
OUT_OF_RANGE: Final = "out_of_range"
WRONG_COLUMNS: Final = "wrong_columns"
"""Classes of errors, as dead letters name them."""


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


class _FaultError(Exception):
    """Carries a Fault out of a decoder."""

    def __init__(self, error_class: str, message: str) -> None:
        super().__init__(message)
        self.fault = Fault(error_class, message[:_MESSAGE_LENGTH_MAX])


Row = Any
"""A msgspec structure with a field `f<n>` for the schema's n-th field."""


class ValueDecoder:
    """Decodes values with one schema."""

    def __init__(self, schema: RecordSchema) -> None:
        self._fields = schema.fields
        self._strict: msgspec.json.Decoder[Row] = msgspec.json.Decoder(
            _row_type(schema.fields, forbid_unknown=True)
        )
        self._lenient: msgspec.json.Decoder[Row] = msgspec.json.Decoder(
            _row_type(schema.fields, forbid_unknown=False)
        )
        self._plain_type = _row_type(schema.fields, forbid_unknown=False)
        self._decode = self._decoder(schema.format)
        self._checks = [
            (f"f{index}", each) for index, each in enumerate(schema.fields) if _needs_check(each.type)
        ]

    def decode(self, values: Sequence[bytes | None]) -> DecodedBatch:
        """Every value is either good or has a fault."""
        rows: list[Row] = []
        good: list[int] = []
        unknown: list[list[str] | None] = []
        faults: dict[int, Fault] = {}
        strict, checks = self._decode, self._checks
        for index, value in enumerate(values):
            try:
                if value is None:
                    raise _FaultError(NULL_VALUE, "the record has no value")
                row, strange = strict(value)
                for name, field in checks:
                    _check(getattr(row, name), field.type, field.name)
            except _FaultError as error:
                faults[index] = error.fault
                continue
            rows.append(row)
            good.append(index)
            unknown.append(strange)
        columns = [
            arrow_column([getattr(row, f"f{index}") for row in rows], each.type)
            for index, each in enumerate(self._fields)
        ]
        return DecodedBatch(good, columns, unknown, faults)

    def _decoder(self, form: ValueFormat) -> Callable[[bytes], tuple[Row, list[str] | None]]:
        match form:
            case ValueFormat.JSON:
                return self._json
            case ValueFormat.CONFLUENT_JSON:
                return self._confluent_json
            case ValueFormat.CSV:
                return self._csv
            case ValueFormat.TEXT:
                return self._text

    def _json(self, value: bytes) -> tuple[Row, list[str] | None]:
        try:
            return self._strict.decode(value), None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # mostly a field that the schema does not have: tried again without that rule
        try:
            row = self._lenient.decode(value)
            return row, unknown_fields(msgspec.json.decode(value), self._fields)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _fault_of(error) from error

    def _confluent_json(self, value: bytes) -> tuple[Row, list[str] | None]:
        if len(value) < _CONFLUENT_HEADER_BYTES or value[0] != 0:
            raise _FaultError(BAD_FRAMING, "the value does not begin with a zero byte and a 4-byte schema id")
        return self._json(value[_CONFLUENT_HEADER_BYTES:])

    def _text(self, value: bytes) -> tuple[Row, list[str] | None]:
        try:
            return self._plain_type(value.decode()), None
        except UnicodeDecodeError as error:
            raise _fault_of(error) from error

    def _csv(self, value: bytes) -> tuple[Row, list[str] | None]:
        try:
            lines = list(csv.reader(io.StringIO(value.decode(), newline=""), strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise _FaultError(MALFORMED, str(error)) from error
        if len(lines) != 1:
            raise _FaultError(MALFORMED, f"the value has {len(lines)} lines of CSV, not one")
        if len(lines[0]) != len(self._fields):
            raise _FaultError(
                WRONG_COLUMNS, f"the line has {len(lines[0])} values, the schema {len(self._fields)} fields"
            )
        named = {
            each.name: _csv_value(text, each.type)
            for each, text in zip(self._fields, lines[0], strict=True)
            if text
        }
        try:
            return msgspec.convert(named, self._plain_type, strict=False), None
        except msgspec.ValidationError as error:
            raise _fault_of(error) from error


def _csv_value(text: str, kind: FieldType) -> object:
    return text if kind.name == "string" else text.strip()


def unknown_fields(value: object, fields: tuple[Field, ...], inside: str = "") -> list[str]:
    """Paths of what an object has and the schema has not, at most twenty."""
    found: list[str] = []
    if isinstance(value, dict):
        known = {each.name: each.type for each in fields}
        for name, inner in value.items():
            path = f"{inside}{name}"[:_NAME_LENGTH_MAX]
            if name not in known:
                found.append(path)
            elif known[name].name == "struct":
                found += unknown_fields(inner, known[name].fields, f"{path}.")
            if len(found) >= _UNKNOWN_MAX:
                break
    return found[:_UNKNOWN_MAX]


def _fault_of(error: Exception) -> _FaultError:
    text = str(error)
    if isinstance(error, RecursionError):
        return _FaultError(MALFORMED, "it is nested too deep")
    if not isinstance(error, msgspec.ValidationError):
        return _FaultError(MALFORMED, text)
    if "missing required" in text:
        return _FaultError(MISSING_FIELD, text)
    if "<=" in text or ">=" in text or "out of range" in text:
        return _FaultError(OUT_OF_RANGE, text)
    return _FaultError(WRONG_TYPE, text)


def _row_type(fields: tuple[Field, ...], *, forbid_unknown: bool) -> type:
    # Structures of plain values are no garbage that the collector would have to look at.
    required = [each for each in enumerate(fields) if each[1].required]
    optional = [each for each in enumerate(fields) if not each[1].required]
    members: list[Any] = [(f"f{n}", _msgspec_type(each.type, forbid_unknown)) for n, each in required]
    members += [(f"f{n}", _msgspec_type(each.type, forbid_unknown) | None, None) for n, each in optional]
    return msgspec.defstruct(
        "Row",
        members,
        rename={f"f{n}": each.name for n, each in enumerate(fields)},
        forbid_unknown_fields=forbid_unknown,
        gc=False,
    )


def _msgspec_type(kind: FieldType, forbid_unknown: bool) -> Any:
    if kind.bits:
        half = 2 ** (kind.bits - 1)
        return Annotated[int, msgspec.Meta(ge=-half, le=half - 1)]
    match kind.name:
        case "struct":
            return _row_type(kind.fields, forbid_unknown=forbid_unknown)
        case "array":
            assert kind.items is not None
            return list[_msgspec_type(kind.items, forbid_unknown) | None]  # type: ignore[misc]
        case "map":
            assert kind.items is not None
            return dict[str, _msgspec_type(kind.items, forbid_unknown) | None]  # type: ignore[misc]
        case "timestamp":
            milliseconds = Annotated[int, msgspec.Meta(ge=_TIMESTAMP_MS_MIN, le=_TIMESTAMP_MS_MAX)]
            return datetime | milliseconds
    return _SCALARS[kind.name]


_SCALARS: Final[dict[str, Any]] = {
    "boolean": bool,
    "float": float,
    "double": float,
    "decimal": Decimal,
    "string": str,
    "binary": bytes,
    "date": date,
}


def _needs_check(kind: FieldType) -> bool:
    """Whether values that msgspec accepts may still be none of the type."""
    return kind.name in ("decimal", "float", "timestamp") or any(
        _needs_check(inner)
        for inner in (*(each.type for each in kind.fields), *([kind.items] if kind.items else []))
    )


def _check(value: Any, kind: FieldType, path: str) -> None:
    """Raises: _FaultError for what the type cannot hold."""
    if value is None:
        return
    match kind.name:
        case "decimal":
            _check_decimal(value, kind, path)
        case "float":
            if abs(value) > _FLOAT_MAX:
                raise _FaultError(OUT_OF_RANGE, f"{value} is more than a float holds - at `$.{path}`")
        case "timestamp":
            if not _in_years(value):
                raise _FaultError(OUT_OF_RANGE, f"{value} is not in the years 1 to 9999 - at `$.{path}`")
        case "struct":
            for index, each in enumerate(kind.fields):
                _check(getattr(value, f"f{index}"), each.type, f"{path}.{each.name}")
        case "array" | "map":
            assert kind.items is not None
            for each in value if kind.name == "array" else value.values():
                _check(each, kind.items, f"{path}[...]")


def _in_years(value: datetime | int) -> bool:
    if not isinstance(value, datetime) or not value.utcoffset():
        return True
    since = (value - _EPOCH) // timedelta(milliseconds=1)
    return _TIMESTAMP_MS_MIN <= since <= _TIMESTAMP_MS_MAX


def _check_decimal(value: Decimal, kind: FieldType, path: str) -> None:
    """Exactly what the column can hold: nothing is rounded."""
    try:
        fits = value.is_finite() and abs(value.adjusted()) <= 100
        exponent = value.normalize().as_tuple().exponent if fits else 0
    except InvalidOperation:
        fits, exponent = False, 0
    assert isinstance(exponent, int)
    whole_digits = value.adjusted() + 1 if fits and value else 0
    if not fits or -exponent > kind.scale or whole_digits > kind.precision - kind.scale:
        raise _FaultError(OUT_OF_RANGE, f"{str(value)[:100]} is no {kind.ddl()} - at `$.{path}`")
