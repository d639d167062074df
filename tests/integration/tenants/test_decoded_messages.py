"""Messages by the schemas of a registry, and masked: what clients wrote at a vip:vport, as roles see it."""

import io
import json
import struct
import uuid
from collections.abc import Iterator
from typing import Any

import fastavro
import httpx
import pytest
from confluent_kafka import Producer

from tests.integration.stack import Stack, running_stack
from tests.servers.schema_registry import PASSWORD, USER, SchemaRegistry, schema_registry

CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "fields": [{"name": "name", "type": "string"}, {"name": "email", "type": "string"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "amount", "type": "long"}, {"name": "customer", "type": "Customer"}],
}
PROTO = (
    'syntax = "proto3"; message Line { string item = 1; } message Order { int32 amount = 1; Line line = 2; }'
)
RULES = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer"}}}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with schema_registry() as server:
        reference = {"name": "Customer", "subject": "customer-value", "version": 1}
        server.subjects["/subjects/customer-value/versions/1"] = {"schema": json.dumps(CUSTOMER)}
        server.schemas[1] = {"schema": json.dumps(ORDER), "references": [reference]}
        server.schemas[2] = {"schema": PROTO, "schemaType": "PROTOBUF"}
        server.by_guid = {GUID: server.schemas[1], PROTO_GUID: server.schemas[2]}
        server.schemas[3] = {"schema": json.dumps(RULES), "schemaType": "JSON"}
        yield server


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    data_dir = tmp_path_factory.mktemp("decoded") / "data"
    with running_stack(data_dir, "--webhook-allow", "127.0.0.0/8") as running:
        yield running


@pytest.fixture(scope="module")
def instance(stack: Stack) -> dict[str, Any]:
    return stack.create_instance(f"decoded-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def path(stack: Stack, instance: dict[str, Any]) -> str:
    """Of a new topic."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    stack.api("POST", f"instances/{instance['id']}/topics", {"name": name, "partitions": 1})
    return f"instances/{instance['id']}/topics/{name}"


@pytest.fixture(scope="module")
def developer(stack: Stack) -> Iterator[httpx.Client]:
    """Sees messages, and not what is masked."""
    key = stack.api("POST", "keys", {"name": "dev", "role": "developer"})
    headers = {"Authorization": f"Bearer {key['secret']}"}
    with httpx.Client(base_url=f"{stack.console_url}/v1", headers=headers, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def owner(stack: Stack) -> Iterator[httpx.Client]:
    key = stack.api("POST", "keys", {"name": "own", "role": "owner"})
    headers = {"Authorization": f"Bearer {key['secret']}"}
    with httpx.Client(base_url=f"{stack.console_url}/v1", headers=headers, timeout=30) as client:
        yield client


GUID, PROTO_GUID = str(uuid.uuid4()), str(uuid.uuid4())


def _told(guid: str, places: bytes = b"") -> bytes:
    """As Confluent's header serializers write."""
    return b"\x01" + uuid.UUID(guid).bytes + places


def _framed(schema_id: int, data: bytes) -> bytes:
    return b"\x00" + struct.pack(">I", schema_id) + data


def _order(amount: int) -> bytes:
    named: dict[str, Any] = {}
    fastavro.parse_schema(CUSTOMER, named_schemas=named)
    parsed = fastavro.parse_schema(ORDER, named_schemas=named)
    written = io.BytesIO()
    document = {"amount": amount, "customer": {"name": "Ann", "email": "ann@example.com"}}
    fastavro.schemaless_writer(written, parsed, document)
    return _framed(1, written.getvalue())


def _write(instance: dict[str, Any], path: str, *values: bytes, **more: Any) -> None:
    producer = Producer({"bootstrap.servers": instance["bootstrap_servers"]})
    for value in values:
        producer.produce(path.rpartition("/")[2], value, **more)
    assert producer.flush(20) == 0


def _seen(client: httpx.Client, path: str, **params: Any) -> list[dict[str, Any]]:
    answer = client.get(f"{path}/messages", params={"offset": 0, **params})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["messages"]
    return found


def _connect(owner: httpx.Client, path: str, registry: SchemaRegistry, password: str = PASSWORD) -> None:
    body = {"url": registry.url, "user": USER, "password": password}
    answer = owner.put(f"{path.split('/topics')[0]}/schema-registry", json=body)
    assert answer.status_code == 200 and password not in answer.text
    assert answer.json() == {"url": registry.url, "user": USER, "has_password": True}


def test_values_are_decoded_by_the_registrys_schemas(
    instance: dict[str, Any], path: str, registry: SchemaRegistry, owner: httpx.Client
) -> None:
    _connect(owner, path, registry)
    second_message = _framed(2, b"\x02\x02" + b"\x08\x2a\x12\x06\x0a\x04book")
    _write(
        instance,
        path,
        _order(120),
        second_message,
        _framed(3, b'{"amount": 7}'),
        _framed(3, b'{"amount": "seven"}'),
        _framed(99, b"nobody knows"),
        _framed(1, b"\xff\xff\xff"),
        b"plain text",
    )
    _connect(owner, path, registry)
    seen = _seen(owner, path)
    assert [json.loads(one["value"]["text"]) for one in seen[:4]] == [
        {"amount": 120, "customer": {"name": "Ann", "email": "ann@example.com"}},
        {"amount": 42, "line": {"item": "book"}},
        {"amount": 7},
        {"amount": "seven"},
    ]
    told = [(one["value"]["decoded_by"], one["value"]["schema_id"], one["value"]["format"]) for one in seen]
    assert told == [
        ("avro", 1, "json"),
        ("protobuf", 2, "json"),
        ("json", 3, "json"),
        ("json", 3, "json"),
        (None, 99, "hex"),
        ("avro", 1, "hex"),
        (None, None, "text"),
    ]
    assert [one["value"]["problem"] for one in seen] == [
        *("", "", "", "it does not fit its JSON schema", "the schema registry has not schema 99"),
        *("it is not what its Avro schema says", ""),
    ]
    assert seen[4]["value"]["text"] == _framed(99, b"nobody knows").hex()
    assert registry.asked.count("/schemas/ids/1") == 1, "a schema is asked for once"
    found = _seen(owner, path, json="@.amount > 40 && @.amount < 130")
    assert [one["offset"] for one in found] == [0, 1]
    assert [one["offset"] for one in _seen(owner, path, text="ann@example")] == [0]
    raw = _seen(owner, path, encoding="hex", limit=1)
    assert raw[0]["value"]["text"] == _order(120).hex(), "hex is what was sent"
    lines = owner.get(f"{path}/messages/download", params={"offset": 0}).text.splitlines()
    assert json.loads(lines[0])["value_schema_id"] == 1
    assert json.loads(json.loads(lines[0])["value"])["amount"] == 120


def test_what_is_masked_is_not_found_out(
    instance: dict[str, Any],
    path: str,
    registry: SchemaRegistry,
    owner: httpx.Client,
    developer: httpx.Client,
    stack: Stack,
) -> None:
    _connect(owner, path, registry)
    body = {"masked_fields": ["customer.email", "card"], "masked_headers": ["token"], "masks_key": True}
    assert developer.put(f"{path}/decoding", json=body).status_code == 403
    assert owner.put(f"{path}/decoding", json=body).status_code == 200
    assert developer.get(f"{path}/decoding").json()["masked_fields"] == ["customer.email", "card"]
    _write(
        instance,
        path,
        _order(1),
        b'{"card": "4111", "kind": "plain"}',
        b"secret text 4111",
        _framed(1, b"\xff4111"),
        key=b"key-4111",
        headers={"token": b"tok-4111", "source": b"test"},
    )
    seen = _seen(developer, path)
    assert [one["value"]["text"] for one in seen] == [
        '{"amount":1,"customer":{"name":"Ann","email":"***"}}',
        '{"card":"***","kind":"plain"}',
        "***",
        "***",
    ]
    assert {one["key"]["text"] for one in seen} == {"***"}
    assert [header["value"]["text"] for header in seen[0]["headers"]] == ["***", "test"]
    for encoding in ("auto", "text", "hex"):
        answer = developer.get(f"{path}/messages", params={"offset": 0, "encoding": encoding}).text
        download = developer.get(
            f"{path}/messages/download", params={"offset": 0, "encoding": encoding, "format": "csv"}
        ).text
        for told in (answer, download):
            assert "4111" not in told and b"4111".hex() not in told
            assert "ann@example" not in told and b"ann@example".hex() not in told
    for guess in (
        {"text": "4111"},
        {"text": "ann@example"},
        {"key": "key-4111"},
        {"header": "token=tok-4111"},
        {"json": '@.card == "4111"'},
        {"json": '@.customer.email == "ann@example.com"'},
        {"json": "length(@.card) == 4"},
    ):
        assert _seen(developer, path, **guess) == [], guess
        assert len(_seen(owner, path, **guess)) >= 1, guess
    assert [one["offset"] for one in _seen(developer, path, json='@.kind == "plain"')] == [1]
    assert json.loads(_seen(owner, path)[0]["value"]["text"])["customer"]["email"] == "ann@example.com"
    rows = stack.api("GET", "audit")["items"]
    assert any(one["action"] == "decoding.set" and "customer.email" in one["detail"] for one in rows)
    assert PASSWORD not in json.dumps(rows)


def test_a_pasted_schema_and_what_is_none(instance: dict[str, Any], path: str, owner: httpx.Client) -> None:
    _write(instance, path, b"\x08\x05\x12\x05\x0a\x03pen", b"\xff")
    body = {"kind": "protobuf", "schema_text": PROTO, "message": "Order"}
    assert owner.put(f"{path}/decoding", json=body).status_code == 200
    first, second = _seen(owner, path)
    assert json.loads(first["value"]["text"]) == {"amount": 5, "line": {"item": "pen"}}
    assert (second["value"]["format"], second["value"]["text"]) == ("hex", "ff")
    assert second["value"]["problem"] == "it is not what its Protobuf schema says"
    refused = owner.put(f"{path}/decoding", json={**body, "schema_text": "message {"})
    assert refused.status_code == 409 and "line 1" in refused.text
    assert owner.delete(f"{path}/decoding").status_code == 204
    assert _seen(owner, path)[0]["value"]["decoded_by"] is None


def test_schemas_may_be_named_in_headers(
    instance: dict[str, Any],
    path: str,
    registry: SchemaRegistry,
    owner: httpx.Client,
    developer: httpx.Client,
) -> None:
    _connect(owner, path, registry)
    bare = _order(120)[5:]
    for header in (_told(GUID), _told(str(uuid.UUID(int=7))), _told(GUID)[:9], b""):
        _write(instance, path, bare, headers=[("__value_schema_id", header)])
    second_message = b"\x08\x2a\x12\x06\x0a\x04book"
    headers = [("__value_schema_id", b"no"), ("__value_schema_id", _told(PROTO_GUID, b"\x02\x02"))]
    _write(instance, path, second_message, key=bare, headers=[*headers, ("__key_schema_id", _told(GUID))])
    _write(instance, path, _order(7), headers=[("__value_schema_id", b"\x00\x00\x00\x00\x01")])
    avro, unknown, short, none, proto, framed = _seen(owner, path)
    whole = {"amount": 120, "customer": {"name": "Ann", "email": "ann@example.com"}}
    assert json.loads(avro["value"]["text"]) == json.loads(proto["key"]["text"]) == whole
    told = [
        (one["schema_id"], one["schema_guid"]) for one in (avro["value"], proto["value"], framed["value"])
    ]
    assert told == [(None, GUID), (None, PROTO_GUID), (1, None)]
    assert unknown["value"]["problem"] == f"the schema registry has not schema {uuid.UUID(int=7)}"
    assert {short["value"]["decoded_by"], none["value"]["decoded_by"]} == {None}
    assert json.loads(proto["value"]["text"]) == {"amount": 42, "line": {"item": "book"}}
    assert json.loads(framed["value"]["text"])["amount"] == 7
    assert registry.asked.count(f"/schemas/guids/{GUID}") == 1, "a schema is asked for once"
    assert owner.put(f"{path}/decoding", json={"masked_fields": ["email"]}).status_code == 200
    hidden = [json.loads(one["value"]["text"]) for one in _seen(developer, path)[::5]]
    assert [one["customer"]["email"] for one in hidden] == ["***", "***"]


def test_a_registry_that_may_not_be_called_or_refuses_is_told(
    instance: dict[str, Any], path: str, registry: SchemaRegistry, owner: httpx.Client
) -> None:
    _write(instance, path, _order(1))
    _connect(owner, path, registry, password="wrong-password")
    [one] = _seen(owner, path)
    assert one["value"]["problem"] == "the schema registry answered 401 for schema 1"
    for url in ("http://10.0.0.1:8081", "http://[::1]:1", "http://169.254.169.254"):
        body = {"url": url, "user": "", "password": ""}
        assert owner.put(f"{path.split('/topics')[0]}/schema-registry", json=body).status_code == 200
        [one] = _seen(owner, path)
        assert "is or has no address that may be called" in one["value"]["problem"], url
    refused = owner.put(f"{path.split('/topics')[0]}/schema-registry", json={"url": "http://u:p@h/"})
    assert refused.status_code == 422
    assert owner.delete(f"{path.split('/topics')[0]}/schema-registry").status_code == 204
