"""Bad input ends with an enumerated cause, and others notice nothing."""

import asyncio
import random
import resource
import struct
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from contracts.specs import Limits
from gateway.config import Timeouts
from tests.scenarios.fake_broker import FakeBroker
from tests.scenarios.harness import A, B, FrameClient, RunningGateway, instance_spec, running_gateway, until
from wire.api_table import ApiKey
from wire.build import build
from wire.codec import framed_request, request_class


def metadata() -> Any:
    return build(request_class(ApiKey.METADATA, 1), {"topics": None})


def head(api_key: int, api_version: int, body: bytes = b"", *, size: int | None = None) -> bytes:
    content = struct.pack(">hhih", api_key, api_version, 1, -1) + body
    return struct.pack(">i", len(content) if size is None else size) + content


PRODUCE_9 = b"\0\0" + struct.pack(">hi", 1, 1)
"""No tagged fields in the header, no transactional id, acks, timeout."""
FETCH_12 = b"\0" + struct.pack(">iiiibii", -1, 1, 1, 1, 0, 0, -1)
FETCH_15 = b"\0" + struct.pack(">iiibii", 1, 1, 1, 0, 0, -1)
NEVER_ENDS = b"\xff" * 30
TWO_TO_31 = b"\x81\x80\x80\x80\x08"
LARGEST = b"\xff\xff\xff\xff\x7f"
THOUSANDS_OF_TAGS = b"\x90\x4e" + b"\5\0" * 10_000
COMPACT = {
    f"{name} {what}": (
        head(key, version, start + bytes_),
        "request_too_large" if "partitions" in what else "malformed_request",
    )
    for name, key, version, start in (
        ("Produce 9", ApiKey.PRODUCE, 9, PRODUCE_9),
        ("Produce 12", ApiKey.PRODUCE, 12, PRODUCE_9),
        ("Fetch 12", ApiKey.FETCH, 12, FETCH_12),
    )
    for what, bytes_ in {
        "cut short": b"",
        "with a varint without end": NEVER_ENDS,
        "with 2^31 topics": TWO_TO_31,
        "with the largest count": LARGEST,
        "with a name of 2^31 bytes": b"\2" + TWO_TO_31,
        "with a name of the largest size": b"\2" + LARGEST,
        "with a null name": b"\2\0",
        "with 2^31 partitions": b"\2\2o" + TWO_TO_31,
        "with the largest number of partitions": b"\2\2o" + LARGEST,
        "with thousands of tags of a topic": b"\2\2o\1" + THOUSANDS_OF_TAGS,
        "with a tag beyond the frame": b"\2\2o\1\1\5" + TWO_TO_31,
        "with a tag without size": b"\2\2o\1\1\5",
    }.items()
} | {
    "Produce 9 with thousands of tags in the header": (
        head(ApiKey.PRODUCE, 9, THOUSANDS_OF_TAGS),
        "malformed_request",
    ),
    "Fetch 12 with a tag of the header beyond the frame": (
        head(ApiKey.FETCH, 12, b"\1\1" + LARGEST),
        "malformed_request",
    ),
    "Produce 9 with records beyond the frame": (
        head(ApiKey.PRODUCE, 9, PRODUCE_9 + b"\2\2o\2" + bytes(4) + TWO_TO_31),
        "malformed_request",
    ),
    "streamed Produce 9 with a tag beyond the frame": (
        head(ApiKey.PRODUCE, 9, PRODUCE_9 + b"\2\2o\2" + bytes(4) + b"\1\1\5" + LARGEST, size=3_000_000)
        + bytes(3_000_000),
        "malformed_request",
    ),
    "streamed Produce 9 of two topics, cut short": (
        head(ApiKey.PRODUCE, 9, PRODUCE_9 + b"\3\2o\1\0\2o\1\0", size=300_000) + bytes(300_000),
        "malformed_request",
    ),
}

BY_ID = {
    f"Fetch {version} {what}": (
        head(ApiKey.FETCH, version, start + bytes_),
        "request_too_large" if "number of partitions" in what else "malformed_request",
    )
    for version, start in ((13, FETCH_12), (15, FETCH_15), (18, FETCH_15))
    for what, bytes_ in {
        "with an id cut short": b"\2" + bytes(15),
        "with 2^31 topics": TWO_TO_31,
        "with a null list of topics": b"\0",
        "with the largest number of partitions": b"\2" + bytes(16) + LARGEST,
        "with thousands of tags of a topic": b"\2" + bytes(16) + b"\1" + THOUSANDS_OF_TAGS,
        "with a tag beyond the frame": b"\2" + bytes(16) + b"\1\1\5" + TWO_TO_31,
        "that forgets an id cut short": b"\1\2" + bytes(15),
        "with a replica's tag": b"\1\1\1" + b"\1\1\x0d" + bytes(13),
    }.items()
    if version > 13 or "replica" not in what
} | {
    f"Produce 13 {what}": (
        head(ApiKey.PRODUCE, 13, PRODUCE_9 + bytes_),
        "request_too_large" if "number of partitions" in what else "malformed_request",
    )
    for what, bytes_ in {
        "with an id cut short": b"\2" + bytes(15),
        "with 2^31 topics": TWO_TO_31,
        "with a null list of topics": b"\0",
        "with the largest number of partitions": b"\2" + bytes(16) + LARGEST,
        "with thousands of tags of a topic": b"\2" + bytes(16) + b"\1" + THOUSANDS_OF_TAGS,
        "with a tag beyond the frame": b"\2" + bytes(16) + b"\1\1\5" + TWO_TO_31,
        "with records beyond the frame": b"\2" + bytes(16) + b"\2" + bytes(4) + TWO_TO_31,
    }.items()
}

FRAMES = {
    "negative length": (struct.pack(">i", -1) + bytes(20), "bad_frame_length"),
    "most negative length": (struct.pack(">i", -(2**31)) + bytes(20), "bad_frame_length"),
    "zero length": (bytes(16), "bad_frame_length"),
    "too short for a header": (struct.pack(">i", 9) + bytes(20), "bad_frame_length"),
    "oversize": (struct.pack(">i", 2**31 - 1) + bytes(20), "request_too_large"),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "request_too_large"),
    "TLS": (bytes.fromhex("16030100c8010000c40303") + bytes(20), "tls_to_plain"),
    "unknown API": (head(999, 0), "unsupported_api"),
    "negative API": (head(-1, 0), "unsupported_api"),
    "controller API": (head(4, 0), "unsupported_api"),
    "Produce 2": (head(ApiKey.PRODUCE, 2), "unsupported_version"),
    "Produce 14": (head(ApiKey.PRODUCE, 14), "unsupported_version"),
    "Fetch 19": (head(ApiKey.FETCH, 19), "unsupported_version"),
    **COMPACT,
    **BY_ID,
    "negative version": (head(ApiKey.METADATA, -1), "unsupported_version"),
    "empty Metadata": (head(ApiKey.METADATA, 1), "malformed_request"),
    "client id past the end": (
        struct.pack(">ihhih", 10, ApiKey.METADATA, 1, 1, 500),
        "malformed_request",
    ),
    "client id of length -2": (
        struct.pack(">ihhih", 14, ApiKey.METADATA, 1, 1, -2) + b"\xff\xff\xff\xff",
        "malformed_request",
    ),
    "absurd array": (head(ApiKey.METADATA, 1, struct.pack(">i", 2**31 - 1)), "request_too_large"),
    "absurd compact array": (head(ApiKey.METADATA, 9, b"\0\xff\xff\xff\xff\x07"), "request_too_large"),
    "endless varint": (head(ApiKey.METADATA, 9, b"\xff" * 30), "malformed_request"),
    "Produce with absurd topics": (
        head(ApiKey.PRODUCE, 7, struct.pack(">hhii", -1, 1, 1, 2**31 - 1)),
        "malformed_request",
    ),
    "Produce with negative topics": (
        head(ApiKey.PRODUCE, 7, struct.pack(">hhii", -1, 1, 1, -5)),
        "malformed_request",
    ),
    "Produce cut short": (
        head(ApiKey.PRODUCE, 7, struct.pack(">hhiih", -1, 1, 1, 1, 6) + b"ord"),
        "malformed_request",
    ),
    "Produce with records past the end": (
        head(
            ApiKey.PRODUCE, 7, struct.pack(">hhiih", -1, 1, 1, 1, 1) + b"o" + struct.pack(">iii", 1, 0, 2**30)
        ),
        "malformed_request",
    ),
    "Fetch cut short": (head(ApiKey.FETCH, 11, bytes(10)), "malformed_request"),
    "name too long": (
        framed_request(build(request_class(3, 1), {"topics": [{"name": "x" * 32760}]}), 1, "c"),
        "malformed_request",
    ),
    "streamed Produce with a wrong size": (
        head(
            ApiKey.PRODUCE,
            7,
            struct.pack(">hhiih", -1, 1, 1, 1, 1) + b"o" + struct.pack(">iii", 1, 0, 10),
            size=3_000_000,
        )
        + bytes(3_000_000),
        "malformed_request",
    ),
}


@pytest.mark.parametrize("name", FRAMES)
async def test_bad_frames(gateway: RunningGateway, name: str) -> None:
    data, cause = FRAMES[name]
    neighbour = await gateway.client(B)
    await neighbour.call(metadata())
    client = await gateway.client(A)
    client.writer.write(data)
    assert await client.ended(), name
    assert gateway.closed(A) == {cause: 1}
    await neighbour.call(metadata())
    assert gateway.closed(B) == {}


async def test_random_bytes_never_harm(broker: FakeBroker, gateway: RunningGateway) -> None:
    source = random.Random(11)
    for turn in range(150):
        client = await gateway.client(A)
        body = source.randbytes(source.choice([0, 5, 40, 300]))
        if turn % 3 == 0:
            client.writer.write(source.randbytes(64))
        else:
            client.writer.write(head(source.randrange(62), source.randrange(0, 9), body))
        client.writer.write_eof()
        assert await client.ended()
    assert "internal_error" not in gateway.closed(A)
    assert sum(gateway.closed(A).values()) == 150 and gateway.connections(A) == 0
    await (await gateway.client(B)).call(metadata())


async def test_mutated_requests_never_harm(broker: FakeBroker, gateway: RunningGateway) -> None:
    source = random.Random(5)
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": b"x" * 50}]}]
    seeds = [
        framed_request(build(request_class(key, version), known), 1, "c")
        for key, version, known in (
            (ApiKey.PRODUCE, 7, {"acks": -1, "topic_data": topics}),
            (ApiKey.PRODUCE, 9, {"acks": -1, "topic_data": topics}),
            (ApiKey.FETCH, 12, {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}),
            (ApiKey.FETCH, 11, {"topics": [{"topic": "orders", "partitions": [{"partition": 0}]}]}),
            (ApiKey.METADATA, 9, {"topics": [{"name": "orders"}]}),
            (
                ApiKey.JOIN_GROUP,
                5,
                {"group_id": "g", "protocol_type": "consumer", "protocols": [{"name": "r"}]},
            ),
            (ApiKey.CREATE_TOPICS, 5, {"topics": [{"name": "orders", "num_partitions": 1}]}),
        )
    ]
    for _ in range(200):
        frame = bytearray(source.choice(seeds))
        for _ in range(source.randrange(1, 4)):
            frame[source.randrange(4, len(frame))] = source.randrange(256)
        client = await gateway.client(A)
        client.writer.write(bytes(frame))
        client.writer.write_eof()
        assert await client.ended()
    assert "internal_error" not in gateway.closed(A) and "upstream_malformed" not in gateway.closed(A)


QUICK = Timeouts(first_byte_ms=600, frame_ms=600, frame_progress_bytes=64, idle_ms=60_000)


async def test_silence_and_slowness_end_with_their_causes(broker: FakeBroker) -> None:
    async with running_gateway(broker.port, instance_spec(A), timeouts=QUICK) as gateway:
        silent = await gateway.client(A)
        slow_head, slow_frame = await gateway.client(A), await gateway.client(A)
        patient = await gateway.client(A)
        await patient.call(metadata())
        slow_frame.writer.write(head(ApiKey.METADATA, 1, size=500))

        async def drip(client: FrameClient, data: bytes) -> None:
            for at in range(len(data)):
                client.writer.write(data[at : at + 1])
                await asyncio.sleep(0.2)

        slow = ((slow_head, head(ApiKey.METADATA, 1)), (slow_frame, bytes(30)))
        drips = [asyncio.create_task(drip(client, data)) for client, data in slow]
        assert await silent.ended(5) and await slow_head.ended(5) and await slow_frame.ended(5)
        await patient.call(metadata())
        for task in drips:
            task.cancel()
        assert gateway.closed(A) == {"first_byte_timeout": 2, "frame_timeout": 1}


@pytest.mark.parametrize("size", [*range(10), -1, -(2**31), 2**31 - 1])
async def test_a_length_alone_ends_a_connection(gateway: RunningGateway, size: int) -> None:
    """Behind an empty frame nothing more may ever come: it is refused when its length is here."""
    neighbour = await gateway.client(B)
    for before in (b"", framed_request(metadata(), 1, "c")):
        client = await gateway.client(A)
        client.writer.write(before + struct.pack(">i", size))
        assert await client.ended()
        await neighbour.call(metadata())
    cause = "request_too_large" if size > 0 and size >= 10 else "bad_frame_length"
    assert gateway.closed(A) == {cause: 2} and gateway.closed(B) == {}


@pytest.mark.parametrize(
    ("api_key", "size", "cause"),
    [
        (ApiKey.METADATA, 2_000_000, "request_too_large"),
        (ApiKey.DESCRIBE_CONFIGS, 1_100_000, "request_too_large"),
        (ApiKey.SYNC_GROUP, 9_000_000, "request_too_large"),
    ],
)
async def test_a_frame_beyond_its_apis_bound_is_refused_by_its_head(
    gateway: RunningGateway, api_key: int, size: int, cause: str
) -> None:
    neighbour = await gateway.client(B)
    client = await gateway.client(A)
    client.writer.write(head(api_key, 1, size=size))
    assert await client.ended()
    await neighbour.call(metadata())
    assert gateway.closed(A) == {cause: 1} and gateway.closed(B) == {}


@pytest.mark.parametrize(
    ("api_key", "known"),
    [
        (ApiKey.METADATA, {"topics": [{"name": "x"}] * 10_001}),
        (ApiKey.FETCH, {"replica_id": -1, "topics": [{"topic": "x"}] * 6_501}),
        (ApiKey.PRODUCE, {"acks": 1, "topic_data": [{"name": "x"}] * 8_001}),
        (ApiKey.DESCRIBE_CONFIGS, {"resources": [{"resource_type": 4}] * 10_501}),
        (
            ApiKey.JOIN_GROUP,
            {
                "group_id": "g",
                "protocol_type": "consumer",
                "protocols": [{"name": "r", "metadata": struct.pack(">hi", 0, 20_000) + bytes(40_004)}],
            },
        ),
    ],
)
async def test_more_entries_than_a_turn_has_time_for_are_refused(
    broker: FakeBroker, gateway: RunningGateway, api_key: int, known: dict[str, Any]
) -> None:
    """The same bounds hold in the broker, and lower ones for what a gateway asks for in portions."""
    neighbour = await gateway.client(B)
    client = await gateway.client(A)
    client.send(build(request_class(api_key, 4), known))
    assert await client.ended()
    await neighbour.call(metadata())
    assert gateway.closed(A) == {"request_too_large": 1} and gateway.closed(B) == {}
    assert not broker.of(api_key) or api_key == ApiKey.METADATA


async def test_half_received_requests_have_a_budget_per_instance(gateway: RunningGateway) -> None:
    part = head(ApiKey.SYNC_GROUP, 0, size=8_000_000)
    clients = [await gateway.client(A) for _ in range(10)]
    for client in clients:
        client.writer.write(part + bytes(7_500_000))
    await until(lambda: bool(gateway.closed(A)))
    assert set(gateway.closed(A)) == {"buffer_budget"}
    await (await gateway.client(B)).call(metadata())
    for client in clients:
        client.close()
    await asyncio.sleep(0.2)
    gateway.gateway.worker.served[A].collect(64 * 1024 * 1024)  # all of it was given back


async def test_requests_that_were_read_and_wait_are_counted_and_then_read_in_pieces(
    gateway: RunningGateway, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    soft, piece = 1024 * 1024, 64 * 1024
    monkeypatch.setattr("gateway.connection.WAITING_BYTES_SOFT", soft)
    broker.intercept(
        ApiKey.HEARTBEAT, lambda _: None
    )  # which answers nothing: 512 wait for it, then the rest
    beat = build(request_class(ApiKey.HEARTBEAT, 0), {"group_id": "g", "member_id": "m", "generation_id": 1})
    requests = framed_request(beat, 1, "c") * 40_000
    clients = [await gateway.client(A) for _ in range(48)]
    for client in clients:
        client.writer.write(requests)
    served = gateway.gateway.worker.served[A]
    await until(lambda: len(broker.of(ApiKey.HEARTBEAT)) == len(clients) * 512, 60)
    assert soft < served.waiting_bytes < soft + 4 * piece + len(clients) * piece
    await (await gateway.client(B)).call(metadata())
    broker.drop_connections()
    await until(lambda: not served.connections, 60)
    assert served.waiting_bytes == 0


async def test_requests_up_to_the_limit_pass_and_no_further(broker: FakeBroker) -> None:
    spec = instance_spec(A, limits=Limits(request_bytes_max=100_000))
    async with running_gateway(broker.port, spec) as gateway:
        topics = [{"name": "orders", "partition_data": [{"index": 0, "records": bytes(99_000)}]}]
        client = await gateway.client(A)
        await client.call(build(request_class(ApiKey.PRODUCE, 7), {"acks": 1, "topic_data": topics}))
        topics[0]["partition_data"] = [{"index": 0, "records": bytes(100_000)}]
        client.send(build(request_class(ApiKey.PRODUCE, 7), {"acks": 1, "topic_data": topics}))
        assert await client.ended()
        assert gateway.closed(A) == {"request_too_large": 1}


IDLE = 2000
IDLE_BYTES_MAX = 4096
"""Of our own objects, for each idle connection; a socket and its buffers are the kernel's."""


@pytest.fixture
async def patient_gateway(broker: FakeBroker) -> AsyncIterator[RunningGateway]:
    """One that does not cut the first connections of many while the last ones come."""
    timeouts = Timeouts(first_byte_ms=600_000)
    async with running_gateway(broker.port, instance_spec(A), instance_spec(B), timeouts=timeouts) as running:
        yield running


async def test_two_thousand_idle_connections_cost_little(
    patient_gateway: RunningGateway, broker: FakeBroker
) -> None:
    """Bytes that the gateway's own code holds, and not one connection to a broker before a request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    dialled = broker.connections
    ours = (tracemalloc.Filter(True, "*/gateway/*"), tracemalloc.Filter(True, "*/runtime/*"))
    writers: list[asyncio.StreamWriter] = []
    tracemalloc.start()
    try:
        before = sum(
            one.size for one in tracemalloc.take_snapshot().filter_traces(ours).statistics("filename")
        )
        for _ in range(IDLE):
            writers.append((await asyncio.open_connection("127.0.0.1", patient_gateway.port(A)))[1])
        await until(lambda: patient_gateway.connections(A) == IDLE, 180)
        held = (
            sum(one.size for one in tracemalloc.take_snapshot().filter_traces(ours).statistics("filename"))
            - before
        )
        assert held < IDLE * IDLE_BYTES_MAX, f"{held / IDLE:.0f} bytes each"
        assert broker.connections == dialled
        await (await patient_gateway.client(B)).call(metadata())
        for writer in writers:
            writer.transport.abort()
        await until(lambda: patient_gateway.connections(A) == 0, 180)
    finally:
        tracemalloc.stop()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_flood_beyond_the_limit_leaves_the_others_alone(gateway: RunningGateway) -> None:
    gateway.change(A, limits=Limits(connections_max=20))

    over = asyncio.Event()

    async def knock() -> None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port(A))
        except ConnectionError:
            return
        await over.wait()
        writer.close()

    flood = [asyncio.create_task(knock()) for _ in range(300)]
    neighbour = await gateway.client(B)
    for _ in range(20):
        await neighbour.call(metadata())
    async with asyncio.timeout(20):
        while gateway.closed(A).get("connections_max", 0) < 280:
            await asyncio.sleep(0.01)
    over.set()
    await asyncio.gather(*flood)
    assert gateway.closed(B) == {}
