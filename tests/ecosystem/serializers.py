"""Writes records by Confluent's own serializers, which register their schemas: a program of its own, as they
need more than the tests' environment holds (`requirements/serializers.lock`).

`python serializers.py BOOTSTRAP REGISTRY USER:PASSWORD TOPIC PART DESCRIPTORS`: each record
that was written is a line of its standard output: its offset, the id of its schema, and what readers see.
"""

import json
import sys
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from confluent_kafka import Message, Producer
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

_EACH: Final = 20
"""Records of each kind of message."""
_CUSTOMER: Final = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [{"name": "name", "type": "string"}, {"name": "email", "type": ["null", "string"]}],
}
_LINE: Final = {
    "type": "record",
    "name": "Line",
    "namespace": "shop",
    "fields": [{"name": "item", "type": "string"}, {"name": "count", "type": "int"}],
}
_ORDER: Final = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "shop.Customer"},
        {"name": "lines", "type": {"type": "array", "items": _LINE}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
    ],
}
_LATER: Final = _ORDER | {
    "fields": [*_ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}]
}
_ADDRESS_RULES: Final = {
    "$id": "https://shop.example.com/address.json",
    "type": "object",
    "required": ["city"],
    "properties": {"city": {"type": "string", "pattern": "^[A-Z]"}},
}
_PARCEL_RULES: Final = {
    "$id": "https://shop.example.com/parcel.json",
    "title": "Parcel",
    "type": "object",
    "required": ["to"],
    "properties": {"to": {"$ref": "https://shop.example.com/address.json"}, "grams": {"type": "integer"}},
}


class Written(NamedTuple):
    """A record to write."""

    serialize: Callable[[Any, SerializationContext], bytes | None]
    document: Any
    """What the serializer is given."""
    shown: Any
    """What readers see."""


def _registered(client: SchemaRegistryClient, subject: str, kind: str, document: Any) -> SchemaReference:
    schema = Schema(json.dumps(document), kind)
    client.register_schema(subject, schema)
    version = client.lookup_schema(subject, schema).version
    name = document.get("$id") or f"{document['namespace']}.{document['name']}"
    return SchemaReference(name, subject, version)


def _avro(client: SchemaRegistryClient, order: dict[str, Any], more: dict[str, Any]) -> Iterator[Written]:
    customer = _registered(client, "shop.Customer", "AVRO", _CUSTOMER)
    serializer = AvroSerializer(client, Schema(json.dumps(order), "AVRO", references=[customer]))
    for number in range(_EACH):
        document = {
            "id": number,
            "customer": {"name": "Ann", "email": None if number % 2 else "ann@example.com"},
            "lines": [{"item": "book", "count": 1}, {"item": "pen", "count": 7}],
            "state": "PAID",
            **more,
        }
        yield Written(serializer, document, document)


def _json(client: SchemaRegistryClient) -> Iterator[Written]:
    address = _registered(client, "address.json", "JSON", _ADDRESS_RULES)
    serializer = JSONSerializer(Schema(json.dumps(_PARCEL_RULES), "JSON", references=[address]), client)
    for number in range(_EACH):
        document = {"to": {"city": "Shenzhen"}, "grams": number}
        yield Written(serializer, document, document)


def _protobuf(client: SchemaRegistryClient, descriptors: Path) -> Iterator[Written]:
    """A message, and one that stands within another: both of a file that imports a file."""
    pool = descriptor_pool.DescriptorPool()
    for one in descriptor_pb2.FileDescriptorSet.FromString(b64decode(descriptors.read_text())).file:
        pool.AddSerializedFile(one.SerializeToString())
    for name, document in (
        ("shop.Invoice", {"number": "i-1", "total": {"currency": "EUR", "units": "12"}}),
        ("shop.Invoice.Line", {"item": "book", "count": 2}),
    ):
        made = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        serializer = ProtobufSerializer(made, client, {"use.deprecated.format": False})
        for _ in range(_EACH):
            yield Written(serializer, json_format.ParseDict(document, made()), document)


def _main(bootstrap: str, registry: str, login: str, topic: str, part: str, descriptors: str) -> None:
    client = SchemaRegistryClient({"url": registry, "basic.auth.user.info": login})
    producer = Producer({"bootstrap.servers": bootstrap})
    parts: dict[str, Callable[[], Iterator[Written]]] = {
        "avro": lambda: _avro(client, _ORDER, {}),
        "avro-later": lambda: _avro(client, _LATER, {"note": "in a hurry"}),
        "json": lambda: _json(client),
        "protobuf": lambda: _protobuf(client, Path(descriptors)),
    }

    def told(one: Written, value: bytes) -> Callable[[Any, Message], None]:
        def say(error: Any, message: Message) -> None:
            assert error is None, error
            line = {
                "offset": message.offset(),
                "schema": int.from_bytes(value[1:5]),
                "shown": one.shown,
            }
            sys.stdout.write(json.dumps(line) + "\n")

        return say

    for one in parts[part]():
        value = one.serialize(one.document, SerializationContext(topic, MessageField.VALUE))
        assert value is not None, "no document is None"
        producer.produce(topic, value, on_delivery=told(one, value))
        assert producer.flush(30) == 0


if __name__ == "__main__":
    _main(*sys.argv[1:])
