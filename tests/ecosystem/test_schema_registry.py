"""Records of Confluent's serializers, whose schemas are Apicurio's, as the console shows them."""

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from grpc_tools import protoc

from tests.ecosystem import apicurio
from tests.ecosystem.apicurio import Apicurio, token_provider
from tests.ecosystem.certificate import Part, holds
from tests.ecosystem.neighbour import beside
from tests.integration.stack import ROOT, Stack, running_stack

_TOPICS: Final = {"avro": "avro", "json": "json", "protobuf": "protobuf"}
"""Kinds of schemas by topics."""
_PROTO: Final = {
    "shop/money.proto": """syntax = "proto3"; package shop;
        message Money { string currency = 1; int64 units = 2; }""",
    "shop/invoice.proto": """syntax = "proto3"; package shop; import "shop/money.proto";
        message Nothing { int32 of = 1; }
        message Invoice {
            message Line { string item = 1; int32 count = 2; }
            string number = 1;
            Money total = 2;
        }""",
}


class _Written(NamedTuple):
    schema: int
    shown: Any


class _Tenant:
    """An instance whose topics are written with a registry's serializers."""

    def __init__(self, stack: Stack, name: str, registry: Apicurio, descriptors: Path) -> None:
        made = stack.create_instance(name)
        self.path = f"instances/{made['id']}"
        self._stack, self._bootstrap = stack, made["bootstrap_servers"]
        self._registry, self._descriptors = registry, descriptors
        self.written: dict[str, list[_Written]] = {topic: [] for topic in _TOPICS}
        for topic in _TOPICS:
            stack.api("POST", f"{self.path}/topics", {"name": topic, "partitions": 1})

    def asks(self, password: str) -> None:
        """By Portico, too."""
        body = {"url": self._registry.url, "user": apicurio.USER, "password": password}
        self._stack.api("PUT", f"{self.path}/schema-registry", body)

    def write(self, topic: str, part: str) -> None:
        """Some records, after which the registry has their schemas."""
        uv = shutil.which("uv") or str(ROOT / ".uv" / "bin" / "uv")
        lock = str(ROOT / "requirements" / "serializers.lock")
        alone = ["run", "-q", "--isolated", "--no-project", "--python", sys.executable]
        program = str(Path(__file__).with_name("serializers.py"))
        login = f"{apicurio.USER}:{apicurio.PASSWORD}"
        arguments = [self._bootstrap, self._registry.url, login, topic, part, str(self._descriptors)]
        done = subprocess.run(
            [uv, *alone, "--with-requirements", lock, "python", program, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-6000:]
        told = [json.loads(line) for line in done.stdout.splitlines()]
        assert [one["offset"] for one in told] == [len(self.written[topic]) + n for n in range(len(told))]
        self.written[topic] += [_Written(one["schema"], one["shown"]) for one in told]

    def values(self, topic: str) -> list[dict[str, Any]]:
        """As the console's API shows them."""
        seen = self._stack.api("GET", f"{self.path}/topics/{topic}/messages", offset=0, limit=100)
        assert len(seen["messages"]) == len(self.written[topic]), "none is left out"
        return [one["value"] for one in seen["messages"]]

    def sees_what_was_written(self, topic: str) -> None:
        """Each value is decoded, by the schema that its serializer had."""
        values = self.values(topic)
        assert {one["problem"] for one in values} == {""}
        assert {one["decoded_by"] for one in values} == {_TOPICS[topic]}
        found = [_Written(one["schema_id"], json.loads(one["text"])) for one in values]
        assert found == self.written[topic]

    def sees_bytes(self, topic: str, why: str) -> None:
        """Each value is shown as it was sent, with the reason."""
        values = self.values(topic)
        assert [one["schema_id"] for one in values] == [one.schema for one in self.written[topic]]
        for one in values:
            assert (one["format"], one["text"][:2]) == ("hex", "00")
            assert why in one["problem"]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    data_dir = tmp_path_factory.mktemp("registry") / "data"
    with running_stack(data_dir, "--webhook-allow", "127.0.0.0/8") as running:
        yield running


@pytest.fixture
def descriptors(tmp_path: Path) -> Path:
    """Of messages that a program has which was made from these files."""
    for name, text in _PROTO.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    out = tmp_path / "descriptors"
    arguments = [f"-I{tmp_path}", "--include_imports", f"--descriptor_set_out={out}", *_PROTO]
    assert protoc.main(["protoc", *arguments]) == 0
    out.write_bytes(base64.b64encode(out.read_bytes()))
    return out


@pytest.mark.ecosystem
@pytest.mark.timeout(600)
def test_records_are_decoded_by_a_registrys_schemas(stack: Stack, descriptors: Path, tmp_path: Path) -> None:
    """Until the registry hangs and is gone, which is told beside the bytes."""
    beside_it = stack.create_instance("beside-registry")["bootstrap_servers"]
    with (
        beside(beside_it, ("avro", "json"), "registry"),
        token_provider() as provider,
        Apicurio(tmp_path, provider=provider) as registry,
    ):
        registry.until_serving()
        shop = _Tenant(stack, "shop", registry, descriptors)
        late = _Tenant(stack, "late", registry, descriptors)
        for tenant in (shop, late):
            for topic in _TOPICS:
                tenant.write(topic, topic)
        shop.asks("another password")
        shop.sees_bytes("avro", "the schema registry answered 401 for schema")
        for tenant in (shop, late):
            tenant.asks(apicurio.PASSWORD)
            tenant.sees_what_was_written("avro")
        shop.write("avro", "avro-later")
        assert len({one.schema for one in shop.written["avro"]}) == 2, "its second version"
        for topic in _TOPICS:
            shop.sees_what_was_written(topic)
        registry.pause()
        late.sees_bytes("json", "the schema registry takes longer than")
        registry.kill()
        late.sees_bytes("protobuf", "the schema registry cannot be asked: Connection refused")
        for tenant in (shop, late):
            tenant.sees_what_was_written("avro")  # a schema that is known is not asked for
    holds(
        Part.REGISTRY,
        ran=f"Apicurio Registry {apicurio.VERSION} with basic authentication; Confluent's serializers",
        records=sum(len(found) for tenant in (shop, late) for found in tenant.written.values()),
        killed="the registry, once, after it had hung",
        held="each shown as JSON, with references and a second version; else its bytes, and why",
    )
