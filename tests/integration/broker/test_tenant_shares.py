"""One tenant's timestamps and producer ids, on a real broker, next to another tenant."""

import struct
import time
from collections.abc import Iterator

import pytest

from broker.coordinators.producer_id_rates import IDS_AT_ONCE
from tests.integration.broker.fake_control import SECRET
from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.broker.raw import RawClient, create_topic, fetch, produce, request
from wire.batch import Record, build_batch
from wire.codec import duration

MINE, OTHERS = "iaaaaaaaaaaa.t", "ibbbbbbbbbbb.t"
PRODUCERS_MAX = 200
YEAR_MS = 365 * 24 * 3_600_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    arguments = ("--producers-per-instance-max", str(PRODUCERS_MAX), "--flush-interval-ms", "100")
    with running_broker(tmp_path_factory.mktemp("shares"), *arguments) as running:
        yield running


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[RawClient]:
    with RawClient(broker.port, timeout_s=60) as connected:
        yield connected


def _one(at_ms: int, value: bytes = b"v") -> bytes:
    return bytes(build_batch([Record(0, at_ms, None, value)]))


def _idempotent(producer_id: int, sequence: int) -> bytes:
    now_ms = int(time.time() * 1000)
    records = [Record(0, now_ms, None, b"v")]
    return bytes(build_batch(records, producer_id=producer_id, producer_epoch=0, base_sequence=sequence))


def test_leaping_timestamps_make_no_files(broker: BrokerProcess, client: RawClient) -> None:
    create_topic(client, MINE, segment_ms="600000")
    create_topic(client, OTHERS)
    now_ms = int(time.time() * 1000)
    segments = broker.metrics()["portico_broker_log_segments"]
    for number in range(1_500):
        answer = produce(client, MINE, _one(now_ms - (number % 2) * YEAR_MS), acks=1)
        assert answer.error_code.value == 0
    directory = broker.data_dir / "logs" / f"{MINE}-0"
    assert len(list(directory.iterdir())) <= 8
    assert broker.metrics()["portico_broker_log_segments"] == segments
    assert produce(client, OTHERS, _one(now_ms)).base_offset == 0
    assert fetch(client, MINE, 1_499).high_watermark == 1_500
    broker.kill()
    broker.start()
    with RawClient(broker.port) as again:
        assert fetch(again, MINE, 1_499).high_watermark == 1_500
    assert len(list(directory.iterdir())) <= 8


def test_producer_ids_of_one_tenant_are_bounded_and_cost_no_other_one_its_own(
    broker: BrokerProcess,
) -> None:
    mine, others = "iaaaaaaaaaaa.ids", "ibbbbbbbbbbb.ids"
    with RawClient(broker.port, timeout_s=60) as client:
        create_topic(client, mine, 4)
        create_topic(client, others)
        assert produce(client, others, _idempotent(7, 0)).base_offset == 0
        assert produce(client, others, _idempotent(7, 1)).base_offset == 1
        assert produce(client, mine, _idempotent(7, 0)).error_code.value == 0
        for number in range(10 * PRODUCERS_MAX):
            answer = produce(client, mine, _idempotent(1_000 + number, 0), partition=number % 4, acks=1)
            assert answer.error_code.value == 0
        metrics = broker.metrics()
        assert metrics["portico_broker_producers"] <= PRODUCERS_MAX + 1
        assert metrics["portico_broker_producers_forgotten_total"] >= 9 * PRODUCERS_MAX
        assert produce(client, others, _idempotent(7, 0)).base_offset == 0, "a repetition, and known as one"
        assert produce(client, others, _idempotent(7, 2)).base_offset == 2
        end = fetch(client, mine, 0).high_watermark
        assert produce(client, mine, _idempotent(7, 1)).base_offset == end, "it goes on as after its expiry"
        gap = produce(client, mine, _idempotent(7, 5))
        assert gap.error_code.name == "out_of_order_sequence_number"
    (entries,) = {
        struct.unpack_from(">hIi", path.read_bytes())[2] <= PRODUCERS_MAX
        for path in (broker.data_dir / "logs").glob("*/*.snapshot")
    } or {True}
    assert entries, "nor do snapshots on the disk grow"


def _init(client: RawClient) -> str:
    timeout = duration(5_000)
    values = {
        "transactional_id": None,
        "transaction_timeout": timeout,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    return str(client.call(request(22, 4, **values)).error_code.name)


def _connected(broker: BrokerProcess, instance_id: str) -> RawClient:
    client = RawClient(broker.port, timeout_s=60)
    client.call(request(17, 1, mechanism="PLAIN"))
    token = f"{instance_id}/192.0.2.7:5555\0portico\0{SECRET}".encode()
    assert client.call(request(36, 1, auth_bytes=token)).error_code.value == 0
    return client


def test_a_flood_of_producer_ids_is_put_off_and_holds_up_nobody_else(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("ids")
    secret = directory / "internal.key"
    secret.write_text(SECRET)
    with (
        running_broker(directory, "--secret-file", str(secret)) as broker,
        _connected(broker, MINE[:12]) as mine,
        _connected(broker, OTHERS[:12]) as others,
    ):
        drawn = 0
        while (answer := _init(mine)) == "none":
            drawn += 1
            assert drawn < 20 * IDS_AT_ONCE
        assert answer == "coordinator_load_in_progress"
        assert drawn >= IDS_AT_ONCE
        assert _init(others) == "none"
        with _connected(broker, MINE[:12]) as again:
            assert "coordinator_load_in_progress" in {_init(again) for _ in range(200)}, (
                "nor does it reconnect"
            )
