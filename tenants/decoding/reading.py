"""What one view reads: keys and values by the topic's schemas, without what its viewer may not see."""

import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from contracts.registered_schemas import SchemaKind, SchemaName, SchemaText
from tenants.decoding.decoder import Decoder
from tenants.decoding.messages import Field, Told
from tenants.decoding.registry import Asks, Registry, Schemas
from tenants.rules.decoding import (
    KEY_GUID_HEADER,
    MASKED,
    REGISTRY_HEADER_BYTES,
    VALUE_GUID_HEADER,
    Decoding,
    Note,
    Read,
    masked_headers,
    schema_guid_of,
    schema_id_of,
)
from tenants.rules.model import Instance
from wire.record_views import RecordView

FIELD_BYTES_MAX: Final = 1024 * 1024
"""Keys and values that are larger are not decoded."""
_HIDDEN: Final = memoryview(MASKED)
Headers: TypeAlias = tuple[tuple[memoryview, memoryview | None], ...]
_BLANKS: Final = b" \t\r\n"


class _Asked(NamedTuple):
    """One key or value that has to be decoded."""

    whole: memoryview
    data: memoryview
    """Without a registry's header."""
    schema: SchemaName | None
    """Of the registry; None: by the pasted schema, or by none."""
    is_pasted: bool = False
    problem: str = ""
    """It cannot be."""
    places: bytes = b""
    """Where its message is in a Protobuf schema, as a header told it."""


class Reading:
    """Of one view. `asks`: what it may ask the registry for. `is_masked`: whether the viewer may not see what
    the topic's owner has hidden."""

    def __init__(
        self,
        decoder: Decoder,
        schemas: Schemas,
        instance: Instance,
        decoding: Decoding,
        registry: Registry | None,
        *,
        asks: Asks,
        is_masked: bool,
    ) -> None:
        self._decoder, self._schemas = decoder, schemas
        self._instance, self._decoding, self._registry = instance, decoding, registry
        self._is_masked = is_masked and decoding.masks
        self._fields = decoding.masked_fields if self._is_masked else ()
        self._asks = asks
        self._kinds: dict[str, SchemaKind] = {}

    @property
    def changes_nothing(self) -> bool:
        """Whether every record is shown as it was sent."""
        return self._registry is None and self._decoding.kind is None and not self._is_masked

    @property
    def shows_all(self) -> bool:
        """Whether nothing is hidden from the viewer."""
        return not self._is_masked

    async def read(self, records: Sequence[RecordView]) -> list[Read]:
        """The records as the viewer may see them."""
        keys = [self._key(one.key, one.headers) for one in records]
        values = [self._value(one.value, one.headers) for one in records]
        asked = [one for one in (*keys, *values) if one is not None]
        told = iter(await self._decoded(asked))
        shown_keys = [
            (record.key, Note()) if one is None else self._shown(one, next(told))
            for record, one in zip(records, keys, strict=True)
        ]
        shown_values = [
            (record.value, Note()) if one is None else self._shown(one, next(told))
            for record, one in zip(records, values, strict=True)
        ]
        return [
            self._read(record, *key, *value)
            for record, key, value in zip(records, shown_keys, shown_values, strict=True)
        ]

    def _read(
        self,
        record: RecordView,
        key: memoryview | None,
        key_note: Note,
        value: memoryview | None,
        value_note: Note,
    ) -> Read:
        headers = record.headers
        if self._is_masked:
            headers = masked_headers(headers, self._decoding.masked_headers)
            if self._decoding.masks_key and key is not None:
                key, key_note = _HIDDEN, Note(is_raw=False)
        return Read(record._replace(key=key, value=value, headers=headers), key_note, value_note)

    def _key(self, data: memoryview | None, headers: Headers) -> _Asked | None:
        if data is None or (self._is_masked and self._decoding.masks_key):
            return None
        if self._registry is not None and (named := _named(data, headers, KEY_GUID_HEADER)):
            return named
        # Most keys are no documents, and are hidden as a whole or not at all.
        is_document = self._fields and bytes(data).lstrip(_BLANKS)[:1] in (b"{", b"[")
        return _asked(data) if is_document else None

    def _value(self, data: memoryview | None, headers: Headers) -> _Asked | None:
        if data is None:
            return None
        decoding = self._decoding
        if decoding.kind is not None:
            if decoding.has_registry_header and schema_id_of(data) is None:
                problem = "it does not begin as a schema registry's serializers write"
                return _Asked(data, data, None, is_pasted=True, problem=problem)
            return _asked(data, is_pasted=True, skips=decoding.has_registry_header)
        if self._registry is not None and (named := _named(data, headers, VALUE_GUID_HEADER)):
            return named
        return _asked(data) if self._fields else None

    async def _decoded(self, asked: Sequence[_Asked]) -> list[Told]:
        decoding = self._decoding
        schemas: dict[str, SchemaText] = {}
        if decoding.kind is not None:
            schemas[_pasted_key(decoding)] = SchemaText(
                decoding.kind.value, decoding.schema, message=decoding.message
            )
        problems = {}
        if self._registry is not None:
            names = sorted({one.schema for one in asked if one.schema is not None}, key=str)
            for name, found in (await self._schemas.of(self._registry, names, self._asks)).items():
                if isinstance(found, str):
                    problems[name] = found
                else:
                    schemas[self._key_of(name)] = found
        fields = []
        told: list[Told | None] = []
        for one in asked:
            problem = one.problem or ("" if one.schema is None else problems.get(one.schema, ""))
            told.append(Told(None, problem) if problem else None)
            if not problem:
                fields.append(self._field(one))
        tenant, instance_id = self._instance.tenant, self._instance.id
        found_fields = iter(
            await self._decoder.decode(tenant, instance_id, schemas, fields, self._fields) if fields else ()
        )
        self._kinds |= {key: SchemaKind(one.kind) for key, one in schemas.items()}
        return [next(found_fields) if one is None else one for one in told]

    def _field(self, one: _Asked) -> Field:
        if one.is_pasted:
            framed = self._decoding.has_registry_header
            return Field(_pasted_key(self._decoding), bytes(one.data), framed)
        key = "" if one.schema is None else self._key_of(one.schema)
        return Field(key, one.places + bytes(one.data), has_indexes=True)

    def _key_of(self, name: SchemaName) -> str:
        assert self._registry is not None, "names are a registry's"
        return f"{self._registry.revision}:{name}"

    def _shown(self, one: _Asked, told: Told) -> tuple[memoryview, Note]:
        kind = None
        if one.is_pasted:
            kind = self._decoding.kind
        elif one.schema is not None:
            kind = self._kinds.get(self._key_of(one.schema))
        is_own_text = kind is SchemaKind.JSON and not self._fields
        if told.text is not None and not is_own_text:
            return memoryview(told.text), Note(kind, one.schema, told.problem, is_raw=False)
        if told.text is not None:  # as it was written, to the last blank
            return one.data, Note(kind, one.schema, told.problem, is_raw=False)
        if self._fields:
            return _HIDDEN, Note(kind, one.schema, told.problem, is_raw=False)
        return one.whole, Note(kind, one.schema, told.problem)


def _pasted_key(decoding: Decoding) -> str:
    said = f"{decoding.kind}\0{decoding.message}\0{decoding.schema}"
    return hashlib.sha256(said.encode(errors="replace")).hexdigest()


def _named(data: memoryview, headers: Headers, name: bytes) -> _Asked | None:
    """By the schema that a header tells, or else the data's first bytes; None: neither does."""
    told = schema_guid_of(headers, name)
    if told is not None:
        guid, places = told
        return _asked(data)._replace(schema=guid, places=places)
    schema_id = schema_id_of(data)
    return None if schema_id is None else _asked(data, schema_id)


def _asked(
    data: memoryview, schema_id: int | None = None, *, is_pasted: bool = False, skips: bool = False
) -> _Asked:
    too_large = len(data) > FIELD_BYTES_MAX
    problem = f"it is larger than {FIELD_BYTES_MAX} bytes" if too_large else ""
    is_framed = skips or schema_id is not None
    return _Asked(data, data[REGISTRY_HEADER_BYTES:] if is_framed else data, schema_id, is_pasted, problem)
