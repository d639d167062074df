"""Bytes through the gateway: streaming, order, back-pressure, ends of life. Real sockets, a fake broker."""

import asyncio
import os
import random
import socket
import struct
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from contracts.names import physical_name
from gateway.config import Timeouts
from tests.scenarios.fake_broker import FakeBroker, Received
from tests.scenarios.harness import A, FrameClient, RunningGateway, instance_spec, running_gateway, until
from wire.api_table import ApiKey
from wire.build import build, response
from wire.codec import decode_response, framed_request, framed_response, request_class


def produce(records: list[tuple[str, bytes]], *, acks: int = -1, version: int = 7) -> Any:
    topics = [{"name": name, "partition_data": [{"index": 0, "records": data}]} for name, data in records]
    return build(request_class(ApiKey.PRODUCE, version), {"acks": acks, "topic_data": topics})


def fetch(topic: str = "orders", **known: Any) -> Any:
    partition = {"partition": 0, "partition_max_bytes": 2**30}
    topics = [{"topic": topic, "partitions": [partition]}]
    return build(request_class(ApiKey.FETCH, 11), {"topics": topics, "session_epoch": -1, **known})


def produced(received: Received) -> list[tuple[str, bytes]]:
    return [(t.name, t.partition_data[0].records) for t in received.request.topic_data]


@pytest.mark.parametrize("size", [100, 70_000, 1_048_576, 5_000_000])
async def test_produce_arrives_byte_for_byte(broker: FakeBroker, gateway: RunningGateway, size: int) -> None:
    data = [("orders", os.urandom(size)), ("payments", os.urandom(size // 2))]
    client = await gateway.client(A)
    await client.call(produce(data))
    (one,) = broker.of(ApiKey.PRODUCE)
    assert produced(one) == [(physical_name(A, name), records) for name, records in data]


@pytest.mark.parametrize("size", [100, 1_048_576, 5_000_000])
async def test_fetch_arrives_byte_for_byte(broker: FakeBroker, gateway: RunningGateway, size: int) -> None:
    records = os.urandom(size)
    entry = {"topic": physical_name(A, "orders"), "partitions": [{"partition_index": 0, "records": records}]}
    broker.intercept(ApiKey.FETCH, lambda one: response(ApiKey.FETCH, one.api_version, responses=[entry]))
    client = await gateway.client(A)
    answer = await client.call(fetch())
    assert answer.responses[0].topic == "orders"
    assert answer.responses[0].partitions[0].records == records


async def test_any_cut_of_the_stream_gives_the_same_requests(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    requests = [
        produce([("orders", b"x" * 300), ("b", b"y")]),
        fetch(),
        produce([("orders", b"z" * 50)]),
        build(request_class(ApiKey.METADATA, 9), {"topics": [{"name": "orders"}]}),
    ]
    stream = b"".join(framed_request(one, number, "c") for number, one in enumerate(requests))
    cuts = random.Random(7)
    for _ in range(5):
        client = await gateway.client(A)
        sock: socket.socket = client.writer.get_extra_info("socket")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        at = 0
        while at < len(stream):
            size = cuts.choice([1, 2, 3, 7, 20, 200])
            client.writer.write(stream[at : at + size])
            await client.writer.drain()
            await asyncio.sleep(0)
            at += size
        for number, one in enumerate(requests):
            correlation_id, _ = decode_response(await client.frame(), one.__api_key__, one.__version__)
            assert correlation_id == number
        client.close()
    assert produced(broker.of(ApiKey.PRODUCE)[0])[0] == (physical_name(A, "orders"), b"x" * 300)
    assert len(broker.of(ApiKey.PRODUCE)) == 10 and len(broker.of(ApiKey.METADATA)) == 5


async def test_local_answers_wait_for_older_requests(broker: FakeBroker, gateway: RunningGateway) -> None:
    release = asyncio.Event()
    frames: list[Received] = []
    broker.intercept(ApiKey.METADATA, frames.append)
    client = await gateway.client(A)
    client.send(build(request_class(ApiKey.METADATA, 1), {"topics": [{"name": "slow"}]}))
    client.send(build(request_class(ApiKey.API_VERSIONS, 0), {}))
    client.send(build(request_class(ApiKey.SASL_HANDSHAKE, 1), {"mechanism": "PLAIN"}))
    with pytest.raises(TimeoutError):
        await client.frame(timeout_s=0.3)
    assert not release.is_set()
    (connection,) = gateway.gateway.worker.served[A].connections
    assert len(connection.session.queue) == 3
    held = framed_response(response(ApiKey.METADATA, 1), frames[0].correlation_id)
    broker.push(held)
    order = [struct.unpack_from(">i", await client.frame())[0] for _ in range(3)]
    assert order == [1, 2, 3]


async def test_acks_0_has_no_reply_and_blocks_nothing(broker: FakeBroker, gateway: RunningGateway) -> None:
    client = await gateway.client(A)
    for _ in range(600):
        client.send(produce([("orders", b"x" * 2000)], acks=0))
    await client.call(build(request_class(ApiKey.METADATA, 1), {"topics": None}))
    assert len(broker.of(ApiKey.PRODUCE)) == 600


async def test_acks_0_data_of_a_client_that_hangs_up_at_once_arrives(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    client = await gateway.client(A)
    client.send(produce([("orders", b"x" * 3_000_000)], acks=0))
    await client.writer.drain()
    client.close()
    await until(lambda: bool(broker.of(ApiKey.PRODUCE)) and not gateway.connections(A))
    assert len(produced(broker.of(ApiKey.PRODUCE)[0])[0][1]) == 3_000_000
    assert gateway.closed(A) == {"client_closed": 1}


async def test_acks_0_data_of_clients_that_hang_up_at_once_outlives_the_login(
    broker: FakeBroker, tmp_path: Any
) -> None:
    """The login's replies are on their way when the client is gone: closing then would reset the data."""
    secret = tmp_path / "internal.key"
    secret.write_text("s3cret\n")
    async with running_gateway(broker.port, instance_spec(A), secret_file=secret) as gateway:
        for _ in range(30):
            client = await gateway.client(A)
            client.send(produce([("orders", b"x" * 200)], acks=0))
            client.close()
        await until(lambda: gateway.closed(A) == {"client_closed": 30})
    assert len(broker.of(ApiKey.PRODUCE)) == 30
    assert broker.resets == 0


async def test_a_client_that_does_not_read_stops_being_read(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    records = os.urandom(4_000_000)
    entry = {"topic": physical_name(A, "orders"), "partitions": [{"partition_index": 0, "records": records}]}
    broker.intercept(ApiKey.FETCH, lambda one: response(ApiKey.FETCH, one.api_version, responses=[entry]))
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    sock.connect(("127.0.0.1", gateway.port(A)))
    for number in range(50):
        sock.sendall(framed_request(fetch(), number, "c"))
    await asyncio.sleep(1)
    worker = gateway.gateway.worker
    (connection,) = worker.served[A].connections
    assert worker.buffer.backlog_bytes <= 2 * 1024 * 1024
    assert not connection.replies.reading and not connection.requests.reading
    sock.setblocking(False)
    client = FrameClient(*await asyncio.open_connection(sock=sock))
    for number in range(50):
        correlation_id, answer = decode_response(await client.frame(), ApiKey.FETCH, 11)
        assert correlation_id == number and answer.responses[0].partitions[0].records == records
    assert worker.buffer.backlog_bytes == 0
    client.close()


async def test_a_flood_of_local_requests_without_reading_is_bounded(gateway: RunningGateway) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port(A), limit=1024)
    frame = framed_request(build(request_class(ApiKey.API_VERSIONS, 0), {}), 1, "c")
    del reader
    writer.write(frame * 200_000)
    await asyncio.sleep(1)
    assert gateway.gateway.worker.buffer.backlog_bytes < 32 * 1024 * 1024
    (connection,) = gateway.gateway.worker.served[A].connections
    assert not connection.requests.reading
    writer.transport.abort()


async def test_fetch_sessions_belong_to_their_connection(broker: FakeBroker, gateway: RunningGateway) -> None:
    def answer(one: Received) -> Any:
        epoch = one.request.session_epoch
        if epoch > 0 and not one.request.session_id:
            return response(ApiKey.FETCH, one.api_version, error_code=ErrorCode.fetch_session_id_not_found)
        return response(ApiKey.FETCH, one.api_version, session_id=99 if epoch >= 0 else 0)

    broker.intercept(ApiKey.FETCH, answer)
    mine, other = await gateway.client(A), await gateway.client(A)
    assert (await mine.call(fetch(session_epoch=0))).session_id == 99
    assert (await mine.call(fetch(session_id=99, session_epoch=1))).error_code is ErrorCode.none
    refused = await other.call(fetch(session_id=99, session_epoch=1))
    assert refused.error_code is ErrorCode.fetch_session_id_not_found
    await mine.call(fetch(session_id=99, session_epoch=-1))
    refused = await mine.call(fetch(session_id=99, session_epoch=2))
    assert refused.error_code is ErrorCode.fetch_session_id_not_found
    assert [one.request.session_id for one in broker.of(ApiKey.FETCH)] == [0, 99, 0, 99, 0]


async def test_the_list_for_an_unknown_api_versions_version_is_whole_from_the_first_request(
    gateway: RunningGateway,
) -> None:
    """franz-go sends version 5 and goes by the list in the refusal."""
    client = await gateway.client(A)
    client.writer.write(struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 5, 7, -1))
    refused = decode_response(await client.frame(), ApiKey.API_VERSIONS, 0)[1]
    assert refused.error_code is ErrorCode.unsupported_version
    usual = await client.call(build(request_class(ApiKey.API_VERSIONS, 0), {}))
    assert refused.api_keys == usual.api_keys
    assert len(refused.api_keys) > 25


async def test_a_lost_backend_closes_with_its_cause(broker: FakeBroker, gateway: RunningGateway) -> None:
    client = await gateway.client(A)
    await client.call(build(request_class(ApiKey.METADATA, 1), {"topics": None}))
    broker.drop_connections()
    assert await client.ended()
    assert gateway.closed(A) == {"upstream_closed": 1}


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.API_VERSIONS])
async def test_requests_wait_for_a_backend_that_restarts(
    broker: FakeBroker, gateway: RunningGateway, key: ApiKey
) -> None:
    await broker.stop()
    client = await gateway.client(A)
    client.send(build(request_class(key, 1), {"topics": None} if key is ApiKey.METADATA else {}))
    await asyncio.sleep(0.5)
    assert gateway.closed(A) == {}
    await broker.start()
    assert await client.frame()


@pytest.mark.parametrize("key", [ApiKey.METADATA, ApiKey.API_VERSIONS])
async def test_a_backend_that_stays_away_is_given_up(broker: FakeBroker, key: ApiKey) -> None:
    impatient = Timeouts(connect_ms=700)
    async with running_gateway(broker.port, instance_spec(A), timeouts=impatient) as gateway:
        await broker.stop()
        client = await gateway.client(A)
        client.send(build(request_class(key, 1), {"topics": None} if key is ApiKey.METADATA else {}))
        assert await client.ended()
        assert gateway.closed(A) == {"upstream_unreachable": 1}


async def test_replies_nobody_asked_for_close_both_sides(broker: FakeBroker, gateway: RunningGateway) -> None:
    client = await gateway.client(A)
    await client.call(build(request_class(ApiKey.METADATA, 1), {"topics": None}))
    broker.push(framed_response(response(ApiKey.METADATA, 1), 77))
    assert await client.ended()
    assert gateway.closed(A) == {"upstream_malformed": 1}


async def test_a_foreign_name_in_a_reply_never_reaches_the_client(
    broker: FakeBroker, gateway: RunningGateway
) -> None:
    entry = {"topic": "ibbbbbbbbbbb.orders", "partitions": [{"partition_index": 0, "records": b"secret"}]}
    broker.intercept(ApiKey.FETCH, lambda one: response(ApiKey.FETCH, one.api_version, responses=[entry]))
    client = await gateway.client(A)
    client.send(fetch())
    with pytest.raises(asyncio.IncompleteReadError):
        await client.frame()
    assert gateway.closed(A) == {"upstream_malformed": 1}


async def test_the_login_goes_up_first_and_says_who_pays_and_the_clients_address(
    broker: FakeBroker, tmp_path: Any
) -> None:
    secret = tmp_path / "internal.key"
    secret.write_text("s3cret\n")
    async with running_gateway(broker.port, instance_spec(A), secret_file=secret) as gateway:
        client = await gateway.client(A)
        await client.call(produce([("orders", b"abc")]))
        host, port = client.writer.get_extra_info("sockname")
    authenticated = [one for one in broker.received if one.api_key == ApiKey.SASL_AUTHENTICATE]
    assert authenticated[-1].request.auth_bytes == f"{A}/{host}:{port}\0portico\0s3cret".encode()
    assert [one.api_key for one in broker.received][-3:] == [17, 36, 0]


async def test_a_refused_login_closes_with_its_cause(broker: FakeBroker, tmp_path: Any) -> None:
    secret = tmp_path / "internal.key"
    secret.write_text("wrong")
    broker.intercept_own(
        ApiKey.SASL_AUTHENTICATE,
        lambda one: response(one.api_key, one.api_version, error_code=ErrorCode.sasl_authentication_failed),
    )
    async with running_gateway(broker.port, instance_spec(A), secret_file=secret) as gateway:
        client = await gateway.client(A)
        client.send(produce([("orders", b"abc")]))
        assert await client.ended()
        assert gateway.closed(A) == {"upstream_login_refused": 1}
