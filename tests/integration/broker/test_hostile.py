"""Whatever bytes arrive, one connection gets its error or its end, with a cause that is counted."""

import os
import random
import socket
import struct
import time

import pytest

from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.broker.raw import (
    RawClient,
    batch,
    create_topic,
    fetch,
    fetch_request,
    produce,
    produce_body,
    request,
)


def _serves(broker: BrokerProcess) -> None:
    with RawClient(broker.port) as client:
        assert client.call(request(18, 0)).error_code.value == 0


@pytest.mark.parametrize(
    ("size", "cause"),
    [(-1, "frame_size_negative"), (-(2**31), "frame_size_negative"), (7, "frame_too_small"),
     (100 * 1024 * 1024 + 1, "frame_too_large"), (2**31 - 1, "frame_too_large")],
)  # fmt: skip
def test_impossible_frame_sizes(broker: BrokerProcess, raw: RawClient, size: int, cause: str) -> None:
    before = broker.closed_by(cause)
    raw.socket.sendall(struct.pack(">i", size))
    assert raw.is_closed()
    assert broker.closed_by(cause) == before + 1
    _serves(broker)


def test_random_bytes_behind_every_header(broker: BrokerProcess) -> None:
    draw = random.Random(7)
    for api_key in [0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 23, 32, 33, 35, 36, 37,
                    42, 44, 47, 60]:  # fmt: skip
        for version in (0, 1, 2, 4, 5, 7, 8):
            with RawClient(broker.port) as client:
                client.send_frame(api_key, version, draw.randbytes(draw.randrange(0, 60)))
                client.socket.shutdown(socket.SHUT_WR)
                client.socket.settimeout(30)
                while client.socket.recv(65536):
                    pass
    _serves(broker)
    assert broker.closed_by("internal_error") == 0


def test_truncated_requests_of_a_good_one(broker: BrokerProcess) -> None:
    with RawClient(broker.port) as client:
        create_topic(client, "truncated")
    body = produce_body("truncated", 0, batch(b"value"))
    for end in range(len(body) - 1):
        with RawClient(broker.port) as client:
            client.send_frame(0, 8, body[:end])
            assert client.is_closed()
    assert broker.closed_by("internal_error") == 0
    with RawClient(broker.port) as client:
        assert fetch(client, "truncated", 0).high_watermark == 0


def test_absurd_array_counts(broker: BrokerProcess) -> None:
    for api_key, version, body in [
        (0, 8, struct.pack(">hhii", -1, 1, 1000, 2**31 - 1)),
        (0, 8, struct.pack(">hhii", -1, 1, 1000, -7)),
        (1, 11, struct.pack(">iiiibiii", -1, 0, 0, 0, 0, 0, -1, 2**31 - 1)),
        (3, 1, struct.pack(">i", 2**31 - 1)),
        (2, 1, struct.pack(">ii", -1, 2**30)),
        (19, 2, struct.pack(">i", 2**31 - 1)),
    ]:
        with RawClient(broker.port) as client:
            client.send_frame(api_key, version, body)
            assert client.is_closed(), (api_key, version)
    _serves(broker)


def test_one_byte_at_a_time_is_still_a_request(raw: RawClient) -> None:
    frame = struct.pack(">ihhih", 10, 18, 0, 77, -1)
    for byte in frame:
        raw.socket.sendall(bytes([byte]))
        time.sleep(0.002)
    assert raw.receive_frame()[:4] == struct.pack(">i", 77)


def test_pipelined_requests_are_answered_in_order(raw: RawClient) -> None:
    frame = b"".join(struct.pack(">ihhih", 10, 18, 0, number, -1) for number in range(500))
    raw.socket.sendall(frame)
    for number in range(500):
        assert raw.receive_frame()[:4] == struct.pack(">i", number)


def test_a_batch_with_a_wrong_crc_magic_or_length(raw: RawClient) -> None:
    create_topic(raw, "corrupt")
    good = batch(b"value")
    flipped = bytearray(good)
    flipped[-1] ^= 1
    assert produce(raw, "corrupt", bytes(flipped)).error_code.name == "corrupt_message"
    old = bytearray(good)
    old[16] = 1
    assert produce(raw, "corrupt", bytes(old)).error_code.value != 0
    short = bytearray(good)
    struct.pack_into(">i", short, 8, len(good) + 100)
    assert produce(raw, "corrupt", bytes(short)).error_code.value != 0
    assert produce(raw, "corrupt", b"").error_code.value != 0
    assert produce(raw, "corrupt", good[:40]).error_code.value != 0
    assert produce(raw, "corrupt", good).base_offset == 0, "nothing of all that is in the log"


def test_a_batch_above_max_message_bytes(raw: RawClient) -> None:
    create_topic(raw, "small.batches", max_message_bytes="1000")
    answer = produce(raw, "small.batches", batch(os.urandom(2000)))
    assert answer.error_code.name == "message_too_large"
    assert answer.error_message


def test_acks_0_with_an_error_closes(broker: BrokerProcess, raw: RawClient) -> None:
    before = broker.closed_by("acks_zero_refused")
    raw.send_frame(0, 8, produce_body("does.not.exist", 0, batch(b"v"), acks=0))
    assert raw.is_closed()
    assert broker.closed_by("acks_zero_refused") == before + 1


def test_acks_0_is_not_answered(raw: RawClient) -> None:
    create_topic(raw, "acks.none")
    raw.send_frame(0, 8, produce_body("acks.none", 0, batch(b"v"), acks=0))
    assert raw.call(request(18, 0)).error_code.value == 0, "the next answer is the next request's"
    assert fetch(raw, "acks.none", 0).high_watermark == 1


def test_acks_0_behind_a_waiting_request_outlives_the_end_of_the_stream(
    broker: BrokerProcess, raw: RawClient
) -> None:
    create_topic(raw, "acks.none.end")
    with RawClient(broker.port) as leaving:
        leaving.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # all of it in one segment
        leaving.send(fetch_request("acks.none.end", 0, max_wait_ms=500))
        for _ in range(3):
            leaving.send_frame(0, 8, produce_body("acks.none.end", 0, batch(b"v"), acks=0))
        leaving.socket.shutdown(socket.SHUT_WR)
        assert not leaving.receive().responses[0].partitions[0].records
        assert leaving.is_closed()
    assert fetch(raw, "acks.none.end", 0).high_watermark == 3


def test_slow_and_stalled_frames_are_closed(tmp_path_factory: pytest.TempPathFactory) -> None:
    arguments = ("--frame-progress-timeout-ms", "2500")
    with (
        running_broker(tmp_path_factory.mktemp("slow"), *arguments) as broker,
        RawClient(broker.port) as stalled,
        RawClient(broker.port) as slow,
        RawClient(broker.port) as idle,
    ):
        stalled.socket.sendall(struct.pack(">ih", 1000, 18))
        slow.socket.sendall(struct.pack(">ih", 1000, 18))
        deadline = time.monotonic() + 10
        while broker.closed_by("frame_too_slow") == 0 and time.monotonic() < deadline:
            try:
                slow.socket.sendall(b"\0")
            except OSError:
                break
            time.sleep(0.3)
        assert stalled.is_closed()
        assert broker.closed_by("frame_stalled") == 1
        assert broker.closed_by("frame_too_slow") == 1
        assert idle.call(request(18, 0)).error_code.value == 0, "silence between frames is no fault"


def test_a_thousand_idle_connections_cost_little(broker: BrokerProcess) -> None:
    before = _rss_bytes(broker.pid)
    sockets = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(1000)]
    try:
        _serves(broker)
        assert (_rss_bytes(broker.pid) - before) / 1000 < 20_000
    finally:
        for each in sockets:
            each.close()


def _rss_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:  # noqa: PTH123 - a pseudo file
        return int(file.read().split()[1]) * 4096


def test_frames_beyond_the_memory_budget_wait_their_turn(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Eight frames of 8 MiB through a budget of one: all are served, one after the other."""
    budget = 100 * 1024 * 1024
    directory = tmp_path_factory.mktemp("budget")
    with running_broker(directory, "--request-memory-bytes", str(budget)) as broker:
        with RawClient(broker.port) as admin:
            create_topic(admin, "large", 8, max_message_bytes="50000000")
        clients = [RawClient(broker.port, timeout_s=60) for _ in range(8)]
        records = batch(os.urandom(40_000_000))
        frames = []
        for number in range(8):
            body = produce_body("large", number, records)
            head = struct.pack(">hhih", 0, 8, number, -1)
            frames.append(struct.pack(">i", len(head) + len(body)) + head + body)
        sent = [0] * 8
        for client in clients:
            client.socket.setblocking(False)
        pending = set(range(8))
        deadline = time.monotonic() + 60
        while pending and time.monotonic() < deadline:
            for number in list(pending):
                try:
                    view = memoryview(frames[number])[sent[number] : sent[number] + 262_144]
                    sent[number] += clients[number].socket.send(view)
                except BlockingIOError:
                    continue
                if sent[number] == len(frames[number]):
                    pending.discard(number)
            assert broker.pid
        assert not pending
        for client in clients:
            client.socket.setblocking(True)
            client.socket.settimeout(30)
            assert client.receive_frame()
        assert _rss_bytes(broker.pid) < budget * 2 + 200 * 1024 * 1024
        for client in clients:
            client.socket.close()
