"""What a tenant's schema registry may do to us: each lie costs the tenant its decoding, and nobody else.

The registry is a socket that says what a scenario has; clients of it are those that the console has.
"""

import asyncio
import gzip
import json
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Final

import pytest
import pytest_asyncio

from contracts.registered_schemas import SchemaText
from runtime.schema_registry import REFERENCES_MAX
from tenants.decoding import decoder as decoders
from tenants.decoding import registry as registries
from tenants.decoding.decoder import Decoder
from tenants.decoding.reading import Reading
from tenants.decoding.registry import ASKING_MS_MAX, Asks, Registry, Schemas
from tenants.rules.decoding import PLAIN, Read
from tenants.rules.lifecycle import State
from tenants.rules.model import Instance
from tenants.tenant_http import TenantHttp
from wire.record_views import RecordView

BRIEFLY_MS: Final = 700
"""Asked of who is late, instead of some seconds, which would be a test's."""
LATE: Final = "the schema registry takes longer than 3 s"
SPENT: Final = "it takes more time or memory than there is for one"
DEEP: Final = 10_000
GOOD: Final = {"schema": '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'}
Pieces = Iterator[bytes]
"""What is said, piece by piece."""


@dataclass(frozen=True, kw_only=True)
class Lie:
    """What a registry says, and what its tenant is told of that. None: its values are decoded."""

    told: str | None
    says: Callable[[str], Pieces]
    """By the path that it is asked for."""
    data: bytes = b"\x02"
    """Of the record, behind its schema's id."""
    pause_s: float = 0.0
    """Between pieces."""
    asked_max: int = 1


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """Of HTTP."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def plain(*pieces: bytes) -> Callable[[str], Pieces]:
    """The same, whatever it is asked for."""
    return lambda _: iter(pieces)


def schema(text: str, kind: str = "AVRO", **more: Any) -> Callable[[str], Pieces]:
    """This one, whatever it is asked for."""
    return plain(answer(json.dumps({"schema": text, "schemaType": kind, **more}).encode()))


def proto(text: str) -> Callable[[str], Pieces]:
    """A file of proto3."""
    return schema(f'syntax = "proto3"; {text}', "PROTOBUF")


def rules(document: Any) -> Callable[[str], Pieces]:
    """A JSON schema."""
    return schema(json.dumps(document), "JSON")


def forever(head: bytes, piece: bytes) -> Callable[[str], Pieces]:
    """A head, and then the same without an end."""

    def says(_: str) -> Pieces:
        yield head
        while True:
            yield piece

    return says


def references(of: Callable[[str], list[str]], text: str = GOOD["schema"]) -> Callable[[str], Pieces]:
    """Schemas that refer to others by what they are asked for."""

    def says(path: str) -> Pieces:
        told = [{"name": one, "subject": one, "version": 1} for one in of(path)]
        yield answer(json.dumps({"schema": text, "references": told}).encode())

    return says


def _next(path: str) -> list[str]:
    """Of a chain of subjects."""
    return [f"s{int(path.split('/')[2].removeprefix('s')) + 1}" if "/subjects/" in path else "s0"]


def _twofold(depth: int) -> dict[str, Any]:
    """A JSON schema that is looked at 2^depth times."""
    twice = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]}
        for n in range(depth)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**twice, f"d{depth}": {"type": "object"}}}


CHUNKED: Final = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TOO_LARGE: Final = "the answer is larger than 524288 bytes"
MANY: Final = f"its schema refers to more than {REFERENCES_MAX} others"
UNUSABLE: Final = "its schema cannot be used"
LIES: Final[Mapping[str, Lie]] = {
    # --- answers ---
    "huge": Lie(
        says=forever(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b" " * 65536), told=TOO_LARGE
    ),
    "huge-in-chunks": Lie(says=forever(CHUNKED, b"1000\r\n" + b" " * 4096 + b"\r\n"), told=TOO_LARGE),
    "chunks-of-nothing-but-frame": Lie(
        says=forever(CHUNKED, b"1;" + b"x" * 8000 + b"\r\n \r\n"), told=TOO_LARGE
    ),
    "endless-trailers": Lie(says=forever(CHUNKED + b"0\r\n", b"X-Y: z\r\n"), told="cannot be asked"),
    "huge-head": Lie(says=forever(b"HTTP/1.1 200 OK\r\n", b"X-Y: z\r\n" * 100), told="head of the answer"),
    "endless-interim-answers": Lie(
        says=forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), told="head of the answer"
    ),
    "silent": Lie(says=forever(b"", b""), pause_s=0.05, told=LATE),
    "drip": Lie(
        says=forever(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "), pause_s=0.02, told=LATE
    ),
    "drip-of-a-head": Lie(says=forever(b"", b"H"), pause_s=0.02, told=LATE),
    "never-ends": Lie(
        says=forever(b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n{}", b""), pause_s=0.05, told=LATE
    ),
    "more-behind-it": Lie(
        says=forever(answer(json.dumps(GOOD).encode()), b"x" * 65536), told=None, asked_max=1
    ),
    "cut-off": Lie(says=plain(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), told="cannot be asked"),
    "closes": Lie(says=plain(), told="without an answer"),
    "no-http": Lie(says=plain(b"\x15\x03\x01\x00\x02\x02\x28" * 10), told="cannot be asked"),
    "to-metadata": Lie(
        says=plain(answer(b"", "302 Found", "Location: http://169.254.169.254/latest/meta-data/")),
        told="the schema registry answered 302 for schema 1",
    ),
    "to-loopback": Lie(
        says=plain(answer(b"", "307 Temporary Redirect", "Location: http://127.0.0.1:22/")),
        told="the schema registry answered 307 for schema 1",
    ),
    "another-type": Lie(
        says=plain(answer(json.dumps(GOOD).encode(), "200 OK", "Content-Type: text/html")), told=None
    ),
    "a-page": Lie(
        says=plain(answer(b"<html><script>alert(1)</script></html>", "200 OK", "Content-Type: text/html")),
        told="the schema registry's answer is no schema 1",
    ),
    "gzip-bomb": Lie(
        says=plain(answer(gzip.compress(b" " * 10_000_000), "200 OK", "Content-Encoding: gzip")),
        told="the schema registry's answer is no schema 1",
    ),
    "deep-json": Lie(says=plain(answer(b"[" * DEEP * 10)), told="answer is no schema 1"),
    "deep-json-unread": Lie(
        says=plain(answer(b'{"x": ' + b"[" * DEEP * 10 + b'], "schema": "1"}')), told="answer is no schema 1"
    ),
    "half-a-character": Lie(
        says=references(lambda _: ["\ud800"] if _.startswith("/schemas") else []), told="is no schema 1"
    ),
    "a-version-without-end": Lie(
        says=plain(
            answer(
                b'{"schema": "1", "references": [{"name": "a", "subject": "a", "version": '
                + b"9" * 9999
                + b"}]}"
            )
        ),
        told="answer is no schema 1",
    ),
    "unknown-type": Lie(says=schema("1", "X" * 1000), told="schema 1 is of a type that is not known here"),
    # --- references ---
    "to-itself": Lie(says=references(lambda _: ["s0"]), told=None, asked_max=2),
    "in-a-circle": Lie(says=references(lambda path: [f"s{int('s0' in path)}"]), told=None, asked_max=3),
    "by-the-thousand": Lie(
        says=references(lambda path: [f"s{n}" for n in range(1000)] if "ids" in path else []),
        told=MANY,
        asked_max=REFERENCES_MAX + 1,
    ),
    "chain-without-end": Lie(says=references(_next), told=MANY, asked_max=REFERENCES_MAX + 2),
    "tree-without-end": Lie(
        says=references(lambda path: [f"{path.strip('/').split('/')[1]}{n}" for n in range(9)]),
        told=MANY,
        asked_max=REFERENCES_MAX + 2,
    ),
    "large-together": Lie(
        says=references(
            lambda path: [f"s{n}" for n in range(20)] if "ids" in path else [], '"' + "x" * 400_000 + '"'
        ),
        told="what its schema refers to is larger than",
        asked_max=8,
    ),
    # --- schemas ---
    "deep-avro": Lie(says=schema('{"type": "array", "items": ' * DEEP + '"int"' + "}" * DEEP), told=UNUSABLE),
    "deep-rules": Lie(says=schema('{"not": ' * DEEP + "{}" + "}" * DEEP, "JSON"), data=b"{}", told=UNUSABLE),
    "deep-proto": Lie(says=proto("message A {" * DEEP + "}" * DEEP), told=UNUSABLE),
    "avro-of-itself": Lie(
        says=schema('{"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}'),
        told=SPENT,
    ),
    "rules-of-themselves": Lie(says=rules({"$ref": "#"}), data=b"{}", told=None),
    "rules-without-end": Lie(says=rules(_twofold(40)), data=b"{}", told=SPENT),
    "slow-pattern": Lie(
        says=rules({"type": "string", "pattern": "^(a+)+$"}),
        data=b'"' + b"a" * 50_000 + b'!"',
        told="it does not fit its JSON schema",
    ),
    "pattern-that-looks-back": Lie(
        says=rules({"type": "string", "pattern": r"^(?=(a+)+$)(a|a?)+\1$"}),
        data=b'"' + b"a" * 50_000 + b'!"',
        told=UNUSABLE,
    ),
    "large-pattern": Lie(says=rules({"pattern": "(x{1,999}){1,999}"}), data=b'"x"', told=UNUSABLE),
    # --- what explodes when it is decoded ---
    "two-thousand-million-nulls": Lie(
        says=schema('{"type": "array", "items": "null"}'),
        data=b"\x80\x80\x80\x80\x10\x00",  # 2^31 of no bytes each
        told=SPENT,
    ),
    "nulls-of-negative-count": Lie(
        says=schema('{"type": "array", "items": "null"}'), data=b"\xff\xff\xff\xff\x0f\x00\x00", told=SPENT
    ),
    "records-of-nothing": Lie(
        says=schema(
            '{"type": "array", "items": {"type": "record", "name": "N", "fields":'
            ' [{"name": "a", "type": {"type": "fixed", "size": 0, "name": "F"}}]}}'
        ),
        data=b"\x80\x80\x80\x80\x10\x00",
        told=SPENT,
    ),
    "proto-of-itself": Lie(
        says=proto("message A { A a = 1; }"),
        data=b"\x00" + b"\x0b" * DEEP,
        told="it is not what its Protobuf schema says",
    ),
    "proto-deep": Lie(
        says=proto("message A { A a = 1; }"),
        data=b"\x00" + b"".join(b"\x0a" + bytes([n & 127 | 128, n >> 7]) for n in range(6000, 0, -3)),
        told="it is not what its Protobuf schema says",
    ),
}


class HostileRegistry:
    """On loopback, as long as it is needed."""

    def __init__(self, lie: Lie) -> None:
        self._lie = lie
        self._talks: set[asyncio.Task[None] | None] = set()
        self._is_over = False
        self.asked: list[str] = []
        self.port = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator["HostileRegistry"]:
        """Whoever it still talks to is hung up on at the end."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self._is_over = True
            server.close()
            await asyncio.gather(*filter(None, self._talks))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._talks.add(asyncio.current_task())
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        self.asked.append(path)
        with suppress(ConnectionError):  # it was hung up on
            for piece in self._lie.says(path):
                if self._is_over:
                    break
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(self._lie.pause_s)
        writer.close()


def instance(name: str, tenant: str) -> Instance:
    return Instance(
        id=name,
        tenant=tenant,
        name=name,
        state=State.RUNNING,
        cluster_id="c",
        produce_rate_bytes_per_s=1,
        consume_rate_bytes_per_s=1,
        capacity_bytes=1,
        created_at_ms=0,
        updated_at_ms=0,
    )


def record(data: bytes, schema_id: int = 1) -> RecordView:
    value = memoryview(b"\x00" + struct.pack(">I", schema_id) + data)
    return RecordView(0, 0, None, value, (), 0, len(value))


@pytest_asyncio.fixture
async def decoder() -> AsyncIterator[Decoder]:
    made = Decoder()
    yield made
    made.close()


@pytest.fixture
def schemas() -> Schemas:
    return Schemas(TenantHttp([ip_network("127.0.0.0/8")]))


async def view(
    decoder: Decoder,
    schemas: Schemas,
    whose: str,
    port: int,
    *records: RecordView,
    asking_ms: float = ASKING_MS_MAX,
) -> list[Read]:
    """As a tenant's owner sees its records, whose registry is at a port."""
    registry = Registry(f"{whose}-1", whose, f"http://127.0.0.1:{port}")
    mine = instance(f"{whose}-1", whose)
    reading = Reading(decoder, schemas, mine, PLAIN, registry, asks=Asks(left_ms=asking_ms), is_masked=False)
    return await reading.read(records)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
async def test_who_lies_is_told_so_and_nobody_else_notices(
    decoder: Decoder, schemas: Schemas, lie: Lie
) -> None:
    honest = Lie(says=schema(GOOD["schema"]), told=None)
    sent = record(lie.data)
    asking_ms = BRIEFLY_MS if lie.told == LATE else ASKING_MS_MAX
    async with (
        asyncio.timeout(60),
        HostileRegistry(lie).running() as hostile,
        HostileRegistry(honest).running() as other,
    ):
        [seen], [others] = await asyncio.gather(
            view(decoder, schemas, "offender", hostile.port, sent, asking_ms=asking_ms),
            view(decoder, schemas, "neighbour", other.port, record(b"\x02")),
        )
        [again] = await view(decoder, schemas, "offender", hostile.port, sent, asking_ms=asking_ms)
    assert others.value.problem == ""
    assert others.record.value is not None and json.loads(bytes(others.record.value)) == {"a": 1}
    assert len(hostile.asked) <= lie.asked_max, "what was told, or not had, is not asked for at once again"
    assert all(path.startswith(("/schemas/ids/1", "/subjects/")) for path in hostile.asked)
    for one in (seen, again):
        if lie.told is None:
            assert (one.value.problem, one.value.is_raw) == ("", False)
        else:
            assert lie.told in one.value.problem and one.value.problem
            shown = bytes(sent.value or b"")[0 if one.value.is_raw else 5 :]
            assert bytes(one.record.value or b"") == shown, "it is shown as it was sent"
            assert "127.0.0.1" not in one.value.problem


async def test_a_registry_that_is_slow_takes_no_more_than_its_share_of_a_view(
    decoder: Decoder, schemas: Schemas
) -> None:
    slow = Lie(says=forever(b"", b""), pause_s=0.05, told=LATE)
    sent = [record(b"\x02", number) for number in (1, 2, 3)]
    async with asyncio.timeout(60), HostileRegistry(slow).running() as hostile:
        for views in (1, 2):
            seen = await view(decoder, schemas, "offender", hostile.port, *sent, asking_ms=BRIEFLY_MS)
            assert [one.value.problem for one in seen] == [LATE] * 3
            assert hostile.asked == [f"/schemas/ids/{number}" for number in range(1, views + 1)]


async def test_schemas_of_one_drive_out_none_of_others(
    decoder: Decoder, schemas: Schemas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries, "KEPT_IN_ALL_BYTES_MAX", 300_000)
    monkeypatch.setattr(registries, "KEPT_IN_ALL_MAX", 8)
    honest = Lie(says=schema(GOOD["schema"]), told=None)
    for size in (100_000, 1):  # too many bytes, too many schemas
        large = Lie(says=schema(GOOD["schema"] + " " * size), told=None)
        async with HostileRegistry(large).running() as hostile, HostileRegistry(honest).running() as other:
            await view(decoder, schemas, f"neighbour{size}", other.port, record(b"\x02"))
            many = [record(b"\x02", number) for number in range(12)]
            seen = await view(decoder, schemas, "offender", hostile.port, *many)
            assert {one.value.problem for one in seen} == {""}
            await view(decoder, schemas, f"neighbour{size}", other.port, record(b"\x02"))
        assert len(other.asked) == 1, "what its registry told is still known"
        assert len(hostile.asked) == len(many)


async def test_one_tenants_instances_leave_processes_to_others(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, hold = decoders._started, asyncio.Event()
    begun: list[None] = []

    async def held() -> decoders._Process:
        begun.append(None)
        if len(begun) <= decoders.PROCESSES_MAX_PER_TENANT:
            await hold.wait()
        return await started()

    monkeypatch.setattr(decoders, "_started", held)
    text = SchemaText("avro", GOOD["schema"])
    async with asyncio.timeout(60):
        busy = [
            asyncio.create_task(decoder.check("offender", f"o-{number}", text))
            for number in range(3 * decoders.PROCESSES_MAX)
        ]
        while len(begun) < decoders.PROCESSES_MAX_PER_TENANT:
            await asyncio.sleep(0)
        assert await decoder.check("neighbour", "n-1", text) is None
        assert len(begun) == decoders.PROCESSES_MAX_PER_TENANT + 1, "of the offender no more work"
        hold.set()
        assert await asyncio.gather(*busy) == [None] * len(busy)
