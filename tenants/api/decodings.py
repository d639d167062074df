"""How messages are read: the schema registry of an instance, schemas and masked fields of a topic."""

import asyncio
from typing import Annotated, Final

from pydantic import ConfigDict, Field, StringConstraints

from contracts.registered_schemas import SchemaKind
from contracts.shapes import BASE_URL_SHAPE
from tenants.api.context import Asker, Found, Plane
from tenants.api.models import RequestModel, ViewModel
from tenants.api.routers import api_router
from tenants.api.shapes import NULL, Schema, of, where
from tenants.api.topics import Topic
from tenants.backend.topics import check_name
from tenants.rules.decoding import (
    MASKED_CHARACTERS_MAX,
    MASKED_MAX,
    MASKED_SHAPE,
    MESSAGE_SHAPE,
    SCHEMA_CHARACTERS_MAX,
    Decoding,
)
from tenants.rules.webhooks import URL_CHARACTERS_MAX
from tenants.store.decodings import RegistryRow

router = api_router("/v1/instances/{instance}", "messages")
_URL = (
    "of a registry with Confluent's API (Karapace; Apicurio at `/apis/ccompat/v7`). It must be in the public "
    "internet, unless operators allow its range"
)
_URLS = ["https://registry.example.com"]
_KIND = "what the pasted schema is written in; null: there is none, and values are read by the registry's"
_MESSAGE = "of Protobuf: which message values are, by its full name; empty: the first"
_HEADER = "whether values begin with the five bytes of a registry's serializers, which the schema passes over"
_FIELDS = "names, which mask a field wherever it is, or paths from the root, through lists: `customer.email`"
_HEADERS = "names of headers whose values are masked"
_Name = Annotated[str, StringConstraints(min_length=1, max_length=MASKED_CHARACTERS_MAX)]
_Field = Annotated[_Name, Field(json_schema_extra={"pattern": MASKED_SHAPE})]
_NONE: Final[Schema] = {"maxLength": 0}
_SOME: Final[Schema] = {"minLength": 1}


class SchemaRegistrySet(RequestModel):
    """PUT .../schema-registry: all of it anew."""

    url: str = Field(
        max_length=URL_CHARACTERS_MAX,
        description=_URL,
        examples=_URLS,
        json_schema_extra={"pattern": BASE_URL_SHAPE},
    )
    user: str = Field(
        default="",
        max_length=200,
        description="who asks; empty: nobody",
        examples=["portico"],
        json_schema_extra={"pattern": "^[^:]*$"},
    )
    password: str = Field(default="", max_length=1_000, description="its password; it is never told again")


class SchemaRegistryView(ViewModel):
    """Where schemas of an instance are."""

    url: str | None = Field(description=f"{_URL}; null: there is none", examples=_URLS)
    user: str = Field(description="who asks; empty: nobody", examples=["portico"])
    has_password: bool = Field(description="whether it is asked with a password", examples=[True])


class DecodingSet(RequestModel):
    """PUT .../decoding: all of it anew."""

    model_config = ConfigDict(
        json_schema_extra=where(
            "kind",
            SchemaKind.PROTOBUF.value,
            of("schema_text", message={"anyOf": [_NONE, {"pattern": MESSAGE_SHAPE}]}, schema_text=_SOME),
            {"properties": {"message": _NONE}}
            | {
                "if": of("kind", kind={"not": NULL}),
                "then": of("schema_text", schema_text=_SOME),
                "else": of(schema_text=_NONE, has_registry_header={"const": False}),
            },
        )
    )

    kind: SchemaKind | None = Field(default=None, strict=False, description=_KIND, examples=[None])
    # The text is checked with the rest of it, by the schema's own library.
    schema_text: str = Field(
        default="", max_length=SCHEMA_CHARACTERS_MAX, description="the pasted schema", examples=[""]
    )
    message: str = Field(default="", max_length=1_000, description=_MESSAGE, examples=[""])
    has_registry_header: bool = Field(default=False, description=_HEADER, examples=[False])
    masked_fields: list[_Field] = Field(
        default=[], max_length=MASKED_MAX, description=_FIELDS, examples=[["email"]]
    )
    masked_headers: list[_Name] = Field(
        default=[], max_length=MASKED_MAX, description=_HEADERS, examples=[["token"]]
    )
    masks_key: bool = Field(default=False, description="whether keys are masked", examples=[False])


class DecodingView(ViewModel):
    """How messages of a topic are read."""

    kind: SchemaKind | None = Field(description=_KIND, examples=["avro"])
    schema_text: str = Field(description="the pasted schema; empty: there is none", examples=['"string"'])
    message: str = Field(description=_MESSAGE, examples=[""])
    has_registry_header: bool = Field(description=_HEADER)
    masked_fields: list[str] = Field(description=_FIELDS, examples=[["email"]])
    masked_headers: list[str] = Field(description=_HEADERS, examples=[["token"]])
    masks_key: bool = Field(description="whether keys are masked")


@router.get("/schema-registry")
async def schema_registry(plane: Plane, found: Found) -> SchemaRegistryView:
    """Where schemas of an instance's messages are. Of the password nothing is told."""
    return _registry_view(await asyncio.to_thread(plane.decodings.registry, found))


@router.put("/schema-registry")
async def set_schema_registry(
    plane: Plane, caller: Asker, found: Found, body: SchemaRegistrySet
) -> SchemaRegistryView:
    """Have messages decoded by the registry's schemas, from the next view on. What was kept of another one is
    asked for anew."""
    row = await asyncio.to_thread(
        plane.decodings.set_registry, caller, found, body.url, body.user, body.password
    )
    return _registry_view(row)


@router.delete("/schema-registry", status_code=204)
async def delete_schema_registry(plane: Plane, caller: Asker, found: Found) -> None:
    """Ask it no more, and forget its password."""
    await asyncio.to_thread(plane.decodings.remove_registry, caller, found)


@router.get("/topics/{topic}/decoding")
async def decoding(plane: Plane, found: Found, topic: Topic) -> DecodingView:
    """How messages of a topic are read, and which of their fields are masked."""
    check_name(topic)
    return _view(await asyncio.to_thread(plane.decodings.decoding, found, topic))


@router.put("/topics/{topic}/decoding")
async def set_decoding(
    plane: Plane, caller: Asker, found: Found, topic: Topic, body: DecodingSet
) -> DecodingView:
    """Read messages of a topic by a schema, and mask fields of them for all but owners. It stays with the
    topic's name, also when the topic is deleted."""
    check_name(topic)
    said = Decoding(
        kind=body.kind,
        schema=body.schema_text,
        message=body.message,
        has_registry_header=body.has_registry_header,
        masked_fields=tuple(body.masked_fields),
        masked_headers=tuple(body.masked_headers),
        masks_key=body.masks_key,
    )
    await plane.decodings.check(found, said)
    await asyncio.to_thread(plane.decodings.set_decoding, caller, found, topic, said)
    return _view(said)


@router.delete("/topics/{topic}/decoding", status_code=204)
async def delete_decoding(plane: Plane, caller: Asker, found: Found, topic: Topic) -> None:
    """Read it by the registry's schemas or as it is, with nothing masked."""
    check_name(topic)
    await asyncio.to_thread(plane.decodings.remove_decoding, caller, found, topic)


def _registry_view(row: RegistryRow | None) -> SchemaRegistryView:
    if row is None:
        return SchemaRegistryView(url=None, user="", has_password=False)
    return SchemaRegistryView(url=row.url, user=row.user, has_password=bool(row.password))


def _view(one: Decoding) -> DecodingView:
    return DecodingView(
        kind=one.kind,
        schema_text=one.schema,
        message=one.message,
        has_registry_header=one.has_registry_header,
        masked_fields=list(one.masked_fields),
        masked_headers=list(one.masked_headers),
        masks_key=one.masks_key,
    )
