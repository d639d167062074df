"""What a schema registry is asked, by the API that Confluent's, Karapace and Apicurio (ccompat) answer.

How it is reached, and within which bounds of time and bytes, is the caller's: some call addresses that
tenants gave.
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import quote

import msgspec

from contracts.registered_schemas import SchemaKind, SchemaName, SchemaText

REFERENCES_MAX: Final = 30
"""Schemas that one refers to, over all levels."""
REFERRED_BYTES_MAX: Final = 2 * 1024 * 1024
"""Bytes of all that one schema refers to."""
ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_VERSION_MAX: Final = 1_000_000_000
Ask: TypeAlias = Callable[[str], Awaitable[tuple[int, bytes]]]
"""GET of a path below the registry's URL: the answer's status and body. Raises: NotHadError."""


class NotHadError(Exception):
    """A schema that was asked for is not there to use; the sentence says why."""

    is_final = False
    """Whether the registry has said so: asked again, it says the same."""


class NoSuchSchemaError(NotHadError):
    """The registry has it not, or not as one that can be used."""

    is_final = True


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _Registered(msgspec.Struct):
    schema: str
    schema_type: str = msgspec.field(default="AVRO", name="schemaType")
    references: list[_Reference] | None = None
    version: int = 0
    """Told where a subject is asked."""


class SubjectSchema(NamedTuple):
    """What a subject has at one of its versions."""

    version: int
    schema: SchemaText


async def schema_named(ask: Ask, name: SchemaName) -> SchemaText:
    """The schema that records name. Raises: NotHadError."""
    known_by = "ids" if isinstance(name, int) else "guids"
    what = f"schema {name}"
    return await _whole(ask, await _get(ask, f"/schemas/{known_by}/{name}", what), what)


async def schema_of_subject(ask: Ask, subject: str, version: int | None = None) -> SubjectSchema:
    """The newest of a subject, or the one of a version. Raises: NotHadError."""
    what = f"a schema of subject {subject}" + ("" if version is None else f" at version {version}")
    told = await _get(ask, _version(subject, "latest" if version is None else version), what)
    if not 1 <= told.version <= _VERSION_MAX:
        raise NotHadError(f"the schema registry's answer is no {what}")
    return SubjectSchema(told.version, await _whole(ask, told, what))


def _version(subject: str, version: int | str) -> str:
    return f"/subjects/{quote(subject, safe='')}/versions/{version}"


async def _whole(ask: Ask, registered: _Registered, what: str) -> SchemaText:
    try:
        kind = SchemaKind(registered.schema_type.lower())
    except ValueError:
        raise NoSuchSchemaError(f"{what} is of a type that is not known here") from None
    references: dict[str, str] = {}
    await _refer(ask, registered, references, [])
    return SchemaText(kind.value, registered.schema, tuple(references.items()))


async def _refer(ask: Ask, registered: _Registered, found: dict[str, str], above: list[str]) -> None:
    """What a schema refers to, each in front of who refers to it."""
    for one in registered.references or ():
        if one.name in found or one.name in above:
            continue
        if len(found) + len(above) >= REFERENCES_MAX:
            raise NoSuchSchemaError(f"its schema refers to more than {REFERENCES_MAX} others")
        told = await _get(ask, _version(one.subject, one.version), "a schema that its schema refers to")
        await _refer(ask, told, found, [*above, one.name])
        found[one.name] = told.schema
        if sum(map(sys.getsizeof, found.values())) > REFERRED_BYTES_MAX:
            raise NoSuchSchemaError(f"what its schema refers to is larger than {REFERRED_BYTES_MAX} bytes")


async def _get(ask: Ask, path: str, what: str) -> _Registered:
    status, body = await ask(path)
    if status == 404:
        raise NoSuchSchemaError(f"the schema registry has not {what}")
    if status != 200:
        raise NotHadError(f"the schema registry answered {status} for {what}")
    try:
        return msgspec.json.decode(body, type=_Registered)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotHadError(f"the schema registry's answer is no {what}") from error
