"""Records that cost a lot to look at: by whom they are looked at, and what the neighbour notices."""

import os
import select
import signal
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from tests.integration.broker.process import BrokerProcess
from tests.integration.broker.raw import RawClient, create_topic, fetch, produce, produce_body, request
from tests.unit.wire.malformed import NOW_MS, batch_of, record
from wire.batch import Record, build_batch, encode_records
from wire.codec import decode_response, duration
from wire.compression import compress
from wire.legacy.message_set import write_message

GREEDY, POLITE = "igreedyaaaaa", "ipoliteaaaaa"
_COUNT = 60_000
LARGEST = -3
"""What ListOffsets asks with for the record with the largest timestamp."""


def _scanners(broker: BrokerProcess) -> list[int]:
    """The scanning processes of this broker."""
    threads = Path(f"/proc/{broker.pid}/task").iterdir()
    children = [pid for thread in threads for pid in (thread / "children").read_text().split()]
    return [
        int(pid) for pid in children if "broker.scanning.process" in Path(f"/proc/{pid}/cmdline").read_text()
    ]


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _large(count: int = _COUNT, codec: int = 4) -> bytes:
    """A right batch, small on the wire, that nobody may look at on the event loop."""
    rows = [Record(0, NOW_MS, b"key", b"v")] * count
    return bytes(build_batch(rows, attributes=codec, payload=compress(encode_records(rows), codec)))


def _warm(client: RawClient, topic: str) -> None:
    """Have the scanning process running."""
    assert produce(client, topic, _large(1_000)).error_code.name == "none"


def _send(client: RawClient, topic: str, records: bytes) -> None:
    client.send_frame(0, 8, produce_body(topic, 0, records))


def _answer(client: RawClient) -> tuple[str, int]:
    _, response = decode_response(client.receive_frame(), 0, 8)
    (answer,) = response.responses[0].partition_responses
    return answer.error_code.name, answer.base_offset


def test_a_bomb_is_refused_by_its_header(broker: BrokerProcess, raw: RawClient) -> None:
    """342 bytes that claim millions of records: neither the loop nor the scanning process sees them."""
    topic = f"{GREEDY}.bombs"
    create_topic(raw, topic, cleanup_policy="compact")
    payload = record(0) * 4_000_000
    before = broker.metrics()["portico_broker_scans_total"]
    for codec in (1, 2, 3, 4):
        bomb = batch_of(payload, 4_000_000, codec=codec)
        answer = produce(raw, topic, bomb) if len(bomb) < 1_000_000 else None
        if answer is not None:
            assert answer.error_code.name in ("invalid_record", "message_too_large")
    assert broker.metrics()["portico_broker_scans_total"] == before


def test_a_payload_that_decompresses_to_too_much(raw: RawClient) -> None:
    create_topic(raw, f"{GREEDY}.zeros", cleanup_policy="compact", max_message_bytes="100000")
    for codec in (1, 3, 4):
        bomb = batch_of(bytes(8_000_000), 100, codec=codec)
        assert produce(raw, f"{GREEDY}.zeros", bomb).error_code.name == "message_too_large"


def test_very_many_uncompressed_records_are_looked_at_elsewhere(
    broker: BrokerProcess, raw: RawClient
) -> None:
    topic = f"{GREEDY}.tiny"
    create_topic(raw, topic)
    payload = b"".join(map(record, range(_COUNT)))
    before = broker.metrics()["portico_broker_scans_total"]
    assert produce(raw, topic, batch_of(payload, _COUNT)).base_offset == 0
    for count in (_COUNT - 1, _COUNT + 1):
        assert produce(raw, topic, batch_of(payload, count)).error_code.name == "invalid_record"
    assert produce(raw, topic, batch_of(payload, _COUNT)).base_offset == _COUNT
    assert broker.metrics()["portico_broker_scans_total"] == before + 4
    assert produce(raw, topic, batch_of(record(0), 1)).base_offset == 2 * _COUNT
    assert broker.metrics()["portico_broker_scans_total"] == before + 4


def test_others_are_served_while_records_are_looked_at(broker: BrokerProcess, raw: RawClient) -> None:
    """The one who looks stands still: whoever was not served by the loop alone would wait for ever."""
    create_topic(raw, f"{GREEDY}.compacted", cleanup_policy="compact")
    create_topic(raw, f"{POLITE}.compacted", cleanup_policy="compact")
    create_topic(raw, f"{POLITE}.plain")
    _warm(raw, f"{GREEDY}.compacted")
    (scanner,) = _scanners(broker)
    with RawClient(broker.port, 60) as greedy, RawClient(broker.port, 60) as polite:
        with _stopped(scanner):
            _send(greedy, f"{GREEDY}.compacted", _large())
            small = bytes(build_batch([Record(0, NOW_MS, b"k", b"v")] * 100))
            for number in range(50):
                assert produce(polite, f"{POLITE}.compacted", small).base_offset == 100 * number
                assert produce(polite, f"{POLITE}.plain", small).base_offset == 100 * number
            assert fetch(polite, f"{POLITE}.plain", 0).high_watermark == 5_000
            assert broker.metrics()["portico_broker_scans_waiting"] == 1
            assert not select.select([greedy.socket], [], [], 0)[0]
        assert _answer(greedy) == ("none", 1_000)


def test_requests_of_a_connection_keep_their_order(broker: BrokerProcess, raw: RawClient) -> None:
    topic = f"{GREEDY}.order"
    create_topic(raw, topic, cleanup_policy="compact")
    _warm(raw, topic)
    expected = 1_000
    for _ in range(5):
        for batch in (_large(), bytes(build_batch([Record(0, NOW_MS, b"k", b"v")])), _large(2_000, 3)):
            _send(raw, topic, batch)
    for _ in range(5):
        for count in (_COUNT, 1, 2_000):
            assert _answer(raw) == ("none", expected)
            expected += count


def test_a_scanning_process_that_is_killed_costs_nobody_anything(
    broker: BrokerProcess, raw: RawClient
) -> None:
    topic = f"{GREEDY}.killed"
    create_topic(raw, topic, cleanup_policy="compact")
    _warm(raw, topic)
    (scanner,) = _scanners(broker)
    os.kill(scanner, signal.SIGSTOP)
    _send(raw, topic, _large())
    assert produce_elsewhere(broker, f"{POLITE}.meanwhile") == 0
    os.kill(scanner, signal.SIGKILL)
    assert _answer(raw) == ("none", 1_000)
    assert _scanners(broker) != [scanner]


def produce_elsewhere(broker: BrokerProcess, topic: str) -> int:
    with RawClient(broker.port) as client:
        create_topic(client, topic)
        return int(produce(client, topic, bytes(build_batch([Record(0, NOW_MS, None, b"v")]))).base_offset)


def test_a_client_that_leaves_while_its_records_are_looked_at(broker: BrokerProcess, raw: RawClient) -> None:
    topic = f"{GREEDY}.leaves"
    create_topic(raw, topic, cleanup_policy="compact")
    _warm(raw, topic)
    (scanner,) = _scanners(broker)
    with _stopped(scanner), RawClient(broker.port) as greedy:
        _send(greedy, topic, _large())
        assert produce_elsewhere(broker, f"{POLITE}.leaves") == 0
    assert produce(raw, topic, _large(600)).base_offset == 1_000, "what nobody waits for is not appended"
    assert broker.closed_by("internal_error") == 0
    assert broker.metrics()["portico_broker_receive_memory_bytes"] < 8 * 2**20


def test_a_request_of_many_partitions_takes_turns(broker: BrokerProcess, raw: RawClient) -> None:
    """Five thousand batches for one partition: all are appended, in order; the frame outlives the turns."""
    topic = f"{GREEDY}.many"
    create_topic(raw, topic)
    batch = bytes(build_batch([Record(0, NOW_MS, None, b"v")]))
    one = struct.pack(">ii", 0, len(batch)) + batch
    name = struct.pack(">h", len(topic)) + topic.encode()
    for count in (255, 256, 257, 5_000):
        body = struct.pack(">hhii", -1, -1, 5_000, 1) + name + struct.pack(">i", count) + one * count
        start = fetch(raw, topic, 0).high_watermark
        raw.send_frame(0, 8, body)
        _, response = decode_response(raw.receive_frame(), 0, 8)
        answers = response.responses[0].partition_responses
        assert [answer.base_offset for answer in answers] == list(range(start, start + count))


def test_librdkafka_fills_a_compacted_topic(broker: BrokerProcess, raw: RawClient) -> None:
    topic = f"{POLITE}.librdkafka"
    create_topic(raw, topic, cleanup_policy="compact")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer(
            {
                "bootstrap.servers": broker.address,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 50,
            }
        )
        for number in range(10_000):
            producer.produce(topic, b"value", key=b"%d" % number)
        assert producer.flush(60) == 0
    assert fetch(raw, topic, 0).high_watermark == 50_000


def _list_offsets(topic: str, *timestamps: int, version: int = 5) -> object:
    partitions = [
        {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp} for timestamp in timestamps
    ]
    topics = [{"name": topic, "partitions": partitions}]
    return request(2, version, replica_id=-1, isolation_level=0, topics=topics, timeout=duration(1_000))


def test_others_are_served_while_a_time_is_looked_for(broker: BrokerProcess, raw: RawClient) -> None:
    """A batch of a few hundred bytes that decompresses to much: it is opened by the scanning process."""
    create_topic(raw, f"{GREEDY}.times")
    create_topic(raw, f"{POLITE}.times")
    rows = [Record(0, NOW_MS + (number == _COUNT - 1), None, b"v") for number in range(_COUNT)]
    large = bytes(build_batch(rows, attributes=4, payload=compress(encode_records(rows), 4)))
    assert produce(raw, f"{GREEDY}.times", large).base_offset == 0
    polite_batch = bytes(build_batch([Record(0, NOW_MS + number, None, b"v") for number in range(100)]))
    assert produce(raw, f"{POLITE}.times", polite_batch).base_offset == 0
    (scanner,) = _scanners(broker)
    with RawClient(broker.port, 60) as greedy, RawClient(broker.port, 60) as polite:
        with _stopped(scanner):
            greedy.send(_list_offsets(f"{GREEDY}.times", NOW_MS + 1))
            greedy.send(_list_offsets(f"{GREEDY}.times", LARGEST, version=7))
            for number in range(100):
                found = polite.call(_list_offsets(f"{POLITE}.times", NOW_MS + number))
                assert found.topics[0].partitions[0].offset == number
            assert broker.metrics()["portico_broker_scans_waiting"] == 1
            assert not select.select([greedy.socket], [], [], 0)[0]
        for _ in range(2):
            (answer,) = greedy.receive().topics[0].partitions
            assert (answer.error_code.name, answer.offset, answer.leader_epoch) == ("none", _COUNT - 1, 0)


def test_kinds_of_offsets_are_known_from_a_version_on(raw: RawClient) -> None:
    topic = f"{POLITE}.kinds"
    create_topic(raw, topic)
    for number in (5, 9, 9, 2):
        produce(raw, topic, bytes(build_batch([Record(0, NOW_MS + number, None, b"v")])))

    def asked(timestamp: int, version: int) -> tuple[str, int, int]:
        (answer,) = raw.call(_list_offsets(topic, timestamp, version=version)).topics[0].partitions
        return answer.error_code.name, answer.timestamp, answer.offset

    for timestamp, since, found in (
        (LARGEST, 7, (NOW_MS + 9, 1)),
        (-4, 8, (-1, 0)),
        (-5, 9, (-1, -1)),
        (-6, 11, (-1, -1)),
    ):
        assert asked(timestamp, since - 1) == ("unsupported_version", -1, -1)
        assert asked(timestamp, since) == asked(timestamp, 11) == ("none", *found)


def test_a_partition_is_looked_up_once_per_request(broker: BrokerProcess, raw: RawClient) -> None:
    topic = f"{GREEDY}.repeated"
    create_topic(raw, topic)
    assert produce(raw, topic, _large(2_000)).base_offset == 0
    before = broker.metrics()["portico_broker_scans_total"]
    answers = raw.call(_list_offsets(topic, *[NOW_MS] * 1_000)).topics[0].partitions
    assert {answer.error_code.name for answer in answers} == {"invalid_request"}
    assert len(answers) == 1_000
    assert broker.metrics()["portico_broker_scans_total"] == before


def test_a_lookup_that_loses_its_process(broker: BrokerProcess, raw: RawClient) -> None:
    topic = f"{GREEDY}.lost"
    create_topic(raw, topic)
    rows = [Record(0, NOW_MS + number, None, b"v") for number in range(2_000)]
    compressed = bytes(build_batch(rows, attributes=4, payload=compress(encode_records(rows), 4)))
    assert produce(raw, topic, compressed).base_offset == 0
    (scanner,) = _scanners(broker)
    os.kill(scanner, signal.SIGSTOP)
    raw.send(_list_offsets(topic, NOW_MS + 1_500))
    assert produce_elsewhere(broker, f"{POLITE}.lost") == 0
    os.kill(scanner, signal.SIGKILL)
    assert raw.receive().topics[0].partitions[0].offset == 1_500


def test_others_are_served_while_messages_of_old_clients_are_converted(
    broker: BrokerProcess, raw: RawClient
) -> None:
    """Produce 0-2: fifty thousand messages in a few kB would take a quarter of a second."""
    topic = f"{GREEDY}.old"
    create_topic(raw, topic)
    inner = write_message(1, 0, NOW_MS, None, b"v") * 50_000
    wrapped = bytearray(write_message(1, 0, NOW_MS, None, compress(inner, 1)))
    wrapped[17] = 1  # the codec
    struct.pack_into(">I", wrapped, 12, zlib.crc32(wrapped[16:]))
    body = struct.pack(">hii", 1, 5_000, 1) + struct.pack(">h", len(topic)) + topic.encode()
    body += struct.pack(">iii", 1, 0, len(wrapped)) + wrapped
    create_topic(raw, f"{GREEDY}.old.warm", cleanup_policy="compact")
    _warm(raw, f"{GREEDY}.old.warm")
    (scanner,) = _scanners(broker)
    with RawClient(broker.port, 60) as greedy:
        with _stopped(scanner):
            greedy.send_frame(0, 2, body)
            assert produce_elsewhere(broker, f"{POLITE}.old") == 0
            assert broker.metrics()["portico_broker_scans_waiting"] == 1
        assert greedy.receive_frame()
    assert fetch(raw, topic, 0).high_watermark == 50_000
