"""How a topic's messages are read: by which schema, and what of them only some may see. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from contracts.registered_schemas import SchemaKind, SchemaName
from contracts.shapes import matching
from tenants.rules.lifecycle import Fault
from wire.record_views import RecordView

SCHEMA_CHARACTERS_MAX: Final = 65_536
"""Characters of a schema that is pasted."""
MASKED_MAX: Final = 50
"""Fields of a topic that are masked, and headers as many."""
MASKED_CHARACTERS_MAX: Final = 200
"""Characters of a masked field's name or path."""
TOPICS_MAX: Final = 200
"""Topics of one instance with a way of reading of their own."""
MASKED: Final = b"***"
REGISTRY_HEADER_BYTES: Final = 5
"""A zero byte and the id of a schema in four: how serializers of a schema registry begin."""
KEY_GUID_HEADER: Final = b"__key_schema_id"
VALUE_GUID_HEADER: Final = b"__value_schema_id"
_GUID_BYTES: Final = 16
MASKED_SHAPE: Final = r"^[^.\u0000-\u001f]+(\.[^.\u0000-\u001f]+)*$"
"""What a masked field's name or path looks like."""
MESSAGE_SHAPE: Final = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
"""What the full name of a Protobuf message looks like."""
_PATH: Final = matching(MASKED_SHAPE)
_MESSAGE: Final = matching(MESSAGE_SHAPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How the messages of a topic are read."""

    kind: SchemaKind | None = None
    """Of the pasted schema of values; None: there is none, and the registry's are used."""
    schema: str = ""
    message: str = ""
    """Which message of a Protobuf schema values are; empty: its first."""
    has_registry_header: bool = False
    """Whether values begin as a registry's serializers write them, which the pasted schema passes over."""
    masked_fields: tuple[str, ...] = ()
    """Names, which mask a field wherever it is, or paths from the root: `customer.email`."""
    masked_headers: tuple[str, ...] = ()
    masks_key: bool = False

    @property
    def masks(self) -> bool:
        """Whether anything is shown to some only."""
        return bool(self.masked_fields or self.masked_headers or self.masks_key)


PLAIN: Final = Decoding()
"""As the bytes are, or as the registry's schemas say."""


class Note(NamedTuple):
    """How a key or value was read."""

    kind: SchemaKind | None = None
    """By what it was decoded; None: by no schema."""
    schema: SchemaName | None = None
    """The one of the registry that it names; None: it names none."""
    problem: str = ""
    """Why it was not decoded, or does not fit its schema; empty: nothing is wrong."""
    is_raw: bool = True
    """Whether it is shown as it was sent."""

    @property
    def schema_id(self) -> int | None:
        """None, too, where it names one by its GUID."""
        return self.schema if isinstance(self.schema, int) else None

    @property
    def schema_guid(self) -> str | None:
        """None, too, where it names one by its id."""
        return self.schema if isinstance(self.schema, str) else None


class Read(NamedTuple):
    """A record as somebody may see it: filters look at this one, too."""

    record: RecordView
    key: Note = Note()
    value: Note = Note()


def faults_of(decoding: Decoding) -> list[Fault]:
    """What is wrong with it by its looks; whether the schema is one is for its library to say."""
    faults = []
    if (decoding.kind is None) != (decoding.schema == ""):
        faults.append(Fault("schema", "give a schema and what it is written in, or neither"))
    if len(decoding.schema) > SCHEMA_CHARACTERS_MAX:
        faults.append(Fault("schema", f"has more than {SCHEMA_CHARACTERS_MAX} characters"))
    if decoding.message and decoding.kind is not SchemaKind.PROTOBUF:
        faults.append(Fault("message", "is for Protobuf: other schemas have one"))
    if decoding.message and not _MESSAGE.match(decoding.message):
        faults.append(Fault("message", "is no name of a message"))
    if decoding.has_registry_header and decoding.kind is None:
        faults.append(Fault("has_registry_header", "goes with a pasted schema"))
    return faults + _mask_faults(decoding)


def _mask_faults(decoding: Decoding) -> list[Fault]:
    faults = []
    for name, named in (
        ("masked_fields", decoding.masked_fields),
        ("masked_headers", decoding.masked_headers),
    ):
        if len(named) > MASKED_MAX:
            faults.append(Fault(name, f"are {len(named)}, {MASKED_MAX} are the most"))
        if any(not 0 < len(one) <= MASKED_CHARACTERS_MAX for one in named):
            faults.append(Fault(name, f"have 1 to {MASKED_CHARACTERS_MAX} characters each"))
    if any(one and not _PATH.match(one) for one in decoding.masked_fields):
        faults.append(Fault("masked_fields", "are names, or names joined by dots"))
    return faults


def schema_id_of(data: memoryview) -> int | None:
    """The schema that a key or value names; None: it names none."""
    if len(data) < REGISTRY_HEADER_BYTES or data[0] != 0:
        return None
    return int.from_bytes(data[1:REGISTRY_HEADER_BYTES])


def schema_guid_of(
    headers: Sequence[tuple[memoryview, memoryview | None]], name: bytes
) -> tuple[str, bytes] | None:
    """The GUID of the schema that the last header of this name tells, and what stands behind it: the places
    of a Protobuf message. None: it tells none. Source: Confluent's `HeaderSchemaIdSerializer`.
    """
    told = next((value for one, value in reversed(headers) if one == name), None)
    if told is None or len(told) <= _GUID_BYTES or told[0] != 1:
        return None
    return str(UUID(bytes=bytes(told[1 : _GUID_BYTES + 1]))), bytes(told[_GUID_BYTES + 1 :])


def masked_headers(
    headers: Iterable[tuple[memoryview, memoryview | None]], names: Sequence[str]
) -> tuple[tuple[memoryview, memoryview | None], ...]:
    """Headers without the values of some."""
    hidden = {name.encode(errors="replace") for name in names}
    return tuple(
        (name, memoryview(MASKED) if value is not None and bytes(name) in hidden else value)
        for name, value in headers
    )


class FieldMask:
    """Takes fields out of a document of JSON."""

    def __init__(self, fields: Iterable[str]) -> None:
        self._fields = frozenset(fields)
        self._depth = max((one.count(".") for one in self._fields), default=0)
        """The longest path has so many dots: deeper down only names count."""

    def apply(self, document: Any) -> Any:
        """The document, changed where it is. What is no object and no list has no fields: it is masked whole.

        Lists have no name: `items.price` is the price of each of them.
        """
        if not isinstance(document, dict | list):
            return MASKED.decode()
        left: list[tuple[Any, str, int]] = [(document, "", 0)]
        while left:
            found, path, depth = left.pop()
            if isinstance(found, list):
                left.extend((one, path, depth) for one in found if isinstance(one, dict | list))
                continue
            for name, value in found.items():
                whole = f"{path}.{name}" if path else str(name)
                if str(name) in self._fields or (depth <= self._depth and whole in self._fields):
                    found[name] = MASKED.decode()
                elif isinstance(value, dict | list):
                    left.append((value, whole if depth <= self._depth else "", depth + 1))
        return document
