"""Types of decoded fields: a small language, Spark's DDL, read without Spark. Pure."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from pipeline.errors import PipelineError

_INTEGERS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_SAME: Final = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float"}
_PLAIN: Final = (*_INTEGERS, "boolean", "float", "double", "string", "binary", "date", "timestamp")
_PRECISION_MAX: Final = 38
_DEPTH_MAX: Final = 16
_FIELDS_MAX: Final = 2000
_NOT_IN_NAMES: Final = re.compile(r"[ ,;{}()\n\t=]")
_TOKEN: Final = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|([A-Za-z0-9_$.\-]+)|([<>(),:]))")


class Field(NamedTuple):
    """A named value of a record or of a structure in it."""

    name: str
    type: "FieldType"
    required: bool = False
    """A record that lacks it, or has null, does not parse."""


class FieldType(NamedTuple):
    """`name` as Spark's DDL has it; the rest is used by the types that need it."""

    name: str
    precision: int = 0
    scale: int = 0
    fields: tuple[Field, ...] = ()
    """A struct's fields."""
    items: "FieldType | None" = None
    """Items of an array, or the values of a map, whose keys are strings as JSON's are."""

    @property
    def bits(self) -> int:
        """Bits of an integer; 0 for others."""
        return _INTEGERS.get(self.name, 0)

    def ddl(self) -> str:
        """The type as Spark writes it."""
        match self.name:
            case "decimal":
                return f"decimal({self.precision},{self.scale})"
            case "struct":
                return (
                    f"struct<{', '.join(f'{quoted(each.name)}: {each.type.ddl()}' for each in self.fields)}>"
                )
            case "array" | "map":
                assert self.items is not None
                return f"{self.name}<{'string, ' if self.name == 'map' else ''}{self.items.ddl()}>"
        return self.name


def quoted(name: str) -> str:
    """A name as DDL takes any."""
    return "`" + name.replace("`", "``") + "`"


def parse_fields(ddl: str) -> tuple[Field, ...]:
    """`name TYPE [NOT NULL], ...`. Raises: PipelineError with what is expected where."""
    reader = _Reader(ddl)
    fields = tuple(reader.fields(separator="", depth=0))
    if (token := reader.next()) is not None:
        raise reader.refused(f"'{token}' is not expected here")
    _check_names(fields)
    return fields


def _check_names(fields: tuple[Field, ...]) -> None:
    seen: dict[str, str] = {}
    for each in fields:
        if _NOT_IN_NAMES.search(each.name):
            raise PipelineError(
                f"the field name '{each.name}' cannot be a column: leave out spaces and any of ,;{{}}()="
            )
        if (other := seen.setdefault(each.name.lower(), each.name)) != each.name:
            raise PipelineError(
                f"fields '{other}' and '{each.name}' differ only in case: a table holds one of them"
            )
    names = [each.name for each in fields]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise PipelineError(f"the field '{twice[0]}' is there twice")


class _Reader:
    """Recursive descent over DDL's tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split(text))
        self._at = 0

    def next(self) -> str | None:
        """The token at hand."""
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def fields(self, separator: str, depth: int) -> Iterator[Field]:
        """Fields up to the first token that is no comma; struct fields have a `:` after their names."""
        for _ in range(_FIELDS_MAX):
            name = self._name()
            if separator:
                self._expect(separator)
            kind = self._type(depth)
            required = (self.next() or "").lower() == "not"
            if required:
                self._at += 1
                self._expect("null")
            yield Field(name, kind, required)
            if self.next() != ",":
                return
            self._at += 1
        raise self.refused(f"it has more than {_FIELDS_MAX} fields")

    def refused(self, reason: str) -> PipelineError:
        """A sentence about the schema's text."""
        shown = self._text if len(self._text) <= 200 else f"{self._text[:200]}..."
        return PipelineError(f"the schema '{shown}' cannot be read: {reason}")

    def _type(self, depth: int) -> FieldType:
        if depth > _DEPTH_MAX:
            raise self.refused(f"types are nested more than {_DEPTH_MAX} deep")
        word = self._take("a type").lower()
        name = _SAME.get(word, word)
        if name in _PLAIN:
            return FieldType(name)
        if name == "decimal":
            return self._decimal()
        if name not in ("array", "map", "struct"):
            raise self.refused(f"'{word}' is no type: use {', '.join(_PLAIN)}, decimal, array, map or struct")
        self._expect("<")
        found = self._composite(name, depth + 1)
        self._expect(">")
        return found

    def _composite(self, name: str, depth: int) -> FieldType:
        if name == "struct":
            fields = tuple(self.fields(":", depth))
            _check_names(fields)
            return FieldType("struct", fields=fields)
        if name == "map":
            if (key := self._take("the type of keys").lower()) != "string":
                raise self.refused(f"keys of a map are strings in JSON, not {key}")
            self._expect(",")
        return FieldType(name, items=self._type(depth))

    def _decimal(self) -> FieldType:
        precision, scale = 10, 0
        if self.next() == "(":
            self._at += 1
            precision = self._digits()
            if self.next() == ",":
                self._at += 1
                scale = self._digits()
            self._expect(")")
        if not 1 <= precision <= _PRECISION_MAX or scale > precision:
            raise self.refused(f"decimal({precision},{scale}) is none: at most {_PRECISION_MAX} digits")
        return FieldType("decimal", precision, scale)

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
