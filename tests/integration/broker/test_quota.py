"""The traffic point in the broker: metering, throttling, blocking, leases, and what the feed changes."""

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from contracts.specs import Deletion, FullBehaviour, InstanceState
from tests.integration.broker.fake_control import SECRET, FakeControl, running_control, spec, wait_until
from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.broker.raw import (
    RawClient,
    batch,
    create_topic,
    fetch_request,
    produce_body,
    request,
)
from wire.codec import decode_response

MB = 1_000_000


@pytest.fixture(scope="module")
def control() -> Iterator[FakeControl]:
    with running_control() as running:
        yield running


@pytest.fixture(scope="module")
def governed(tmp_path_factory: pytest.TempPathFactory, control: FakeControl) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("governed")
    secret = directory / "internal.key"
    secret.write_text(SECRET)
    arguments = ("--control", control.url, "--secret-file", str(secret), "--flush-interval-ms", "100")
    with running_broker(directory, *arguments) as running:
        wait_until(lambda: control.reports)
        yield running


def _connect(broker: BrokerProcess, authorization_id: str = "") -> RawClient:
    client = RawClient(broker.port)
    assert client.call(request(17, 1, mechanism="PLAIN")).error_code.value == 0
    token = f"{authorization_id}\0portico\0{SECRET}".encode()
    assert client.call(request(36, 1, auth_bytes=token)).error_code.value == 0
    return client


def _serve(control: FakeControl, governed: BrokerProcess, instance_id: str, **changes: Any) -> str:
    """An instance with a topic; returns when the broker holds it to its rates."""
    control.set(spec(instance_id, **changes))
    wait_until(lambda: control.applied_revision == control.revision)
    topic = f"{instance_id}.topic"
    with _connect(governed) as client:
        create_topic(client, topic, 1)
    return topic


def _produce(client: RawClient, topic: str, records: bytes, version: int = 8) -> tuple[Any, int]:
    client.send_frame(0, version, produce_body(topic, 0, records))
    _, response = decode_response(client.receive_frame(), 0, version)
    throttle_ms = round(response.throttle_time.total_seconds() * 1000)
    return response.responses[0].partition_responses[0], throttle_ms


class TestAuthentication:
    def test_the_secret_opens_the_broker(self, governed: BrokerProcess) -> None:
        with _connect(governed, "192.0.2.7:5555") as client:
            assert client.call(request(3, 1, topics=())).topics == ()

    def test_nothing_else_is_served_before(self, governed: BrokerProcess) -> None:
        with RawClient(governed.port) as client:
            assert client.call(request(18, 3, client_software_name="x", client_software_version="1"))
            client.send(request(3, 1, topics=()))
            assert client.is_closed()
        assert governed.closed_by("not_authenticated") >= 1

    def test_a_wrong_secret_is_answered_then_closed(self, governed: BrokerProcess) -> None:
        with RawClient(governed.port) as client:
            client.call(request(17, 1, mechanism="PLAIN"))
            answer = client.call(request(36, 1, auth_bytes=b"\0portico\0wrong"))
            assert answer.error_code.name == "sasl_authentication_failed"
            assert client.is_closed()

    def test_other_mechanisms_are_refused(self, governed: BrokerProcess) -> None:
        with RawClient(governed.port) as client:
            answer = client.call(request(17, 1, mechanism="SCRAM-SHA-256"))
            assert answer.error_code.name == "unsupported_sasl_mechanism"
            assert answer.mechanisms == ("PLAIN",)
            answer = client.call(request(36, 1, auth_bytes=f"\0portico\0{SECRET}".encode()))
            assert answer.error_code.name == "illegal_sasl_state"

    def test_a_bare_token_after_handshake_v0(self, governed: BrokerProcess) -> None:
        with RawClient(governed.port) as client:
            client.call(request(17, 0, mechanism="PLAIN"))
            token = f"\0portico\0{SECRET}".encode()
            client.socket.sendall(len(token).to_bytes(4, "big") + token)
            assert client.receive_frame() == b""
            assert client.call(request(3, 1, topics=())).topics == ()

    def test_pipelined_ahead_of_the_first_request(self, governed: BrokerProcess) -> None:
        with RawClient(governed.port) as client:
            client.send(request(17, 1, mechanism="PLAIN"))
            client.send(request(36, 1, auth_bytes=f"\0portico\0{SECRET}".encode()))
            client.send(request(3, 1, topics=()))
            assert client.receive().error_code.value == 0
            assert client.receive().error_code.value == 0
            assert client.receive().topics == ()

    def test_large_frames_are_refused_before(self, governed: BrokerProcess) -> None:
        with RawClient(governed.port) as client:
            client.socket.sendall((600_000).to_bytes(4, "big"))
            assert client.is_closed()


def test_the_address_is_registered(control: FakeControl, governed: BrokerProcess) -> None:
    assert (control.addresses[-1].port, control.addresses[-1].node_id) == (governed.port, 1)


def test_frame_bytes_are_metered(control: FakeControl, governed: BrokerProcess) -> None:
    topic = _serve(control, governed, "iaaaaaaaaaaa")
    records = batch(b"x" * 10_000)
    with _connect(governed) as client:
        body = produce_body(topic, 0, records)
        frame_bytes = 4 + 10 + len(body)
        assert _produce(client, topic, records)[0].error_code.value == 0
        wait_until(lambda: (told := control.traffic_of("iaaaaaaaaaaa")) and told.produce.used == frame_bytes)
        client.send(fetch_request(topic, 0))
        answer_bytes = 4 + len(client.receive_frame())
        wait_until(lambda: (told := control.traffic_of("iaaaaaaaaaaa")) and told.consume.used == answer_bytes)
    found = control.traffic_of("iaaaaaaaaaaa")
    assert (found.partitions_led, found.stored_bytes) == (1, len(records))


def _must_be_held_to(rate: int, carried: int, elapsed_s: float, frame_bytes: int) -> None:
    """The bucket's own bound: what time has earned, what it held when full, and the request that emptied it.

    From below: nobody is held back for longer than was owed, so a client that always asks gets its rate.
    """
    assert carried <= rate * elapsed_s + rate // 4 + frame_bytes
    assert carried >= 0.9 * rate * elapsed_s - frame_bytes


def test_produce_is_throttled_to_its_rate(control: FakeControl, governed: BrokerProcess) -> None:
    rate = 2 * MB
    topic = _serve(control, governed, "ibbbbbbbbbbb", produce_rate_bytes_per_s=rate)
    records = batch(b"x" * 100_000)
    with _connect(governed) as client:
        started = time.monotonic()
        carried, throttled = 0, 0
        while time.monotonic() - started < 3:
            carried += len(records)
            throttled += _produce(client, topic, records)[1]
        elapsed_s = time.monotonic() - started
    assert throttled > 0
    _must_be_held_to(rate, carried, elapsed_s, len(records))


def test_consume_is_throttled_and_answers_are_capped(control: FakeControl, governed: BrokerProcess) -> None:
    rate = 2 * MB
    topic = _serve(control, governed, "iccccccccccc", consume_rate_bytes_per_s=rate)
    records = batch(b"x" * 100_000)
    with _connect(governed) as client:
        for _ in range(20):
            _produce(client, topic, records)
        started = time.monotonic()
        carried = 0
        while time.monotonic() - started < 3:
            client.send(fetch_request(topic, 0, max_bytes=50 * MB))
            answer = client.receive()
            size = len(answer.responses[0].partitions[0].records)
            assert size <= 0.25 * rate
            carried += size
        elapsed_s = time.monotonic() - started
    _must_be_held_to(rate, carried, elapsed_s, rate // 4)


def test_a_higher_rate_ends_a_long_mute(control: FakeControl, governed: BrokerProcess) -> None:
    topic = _serve(control, governed, "iddddddddddd", produce_rate_bytes_per_s=100_000)
    with _connect(governed) as client:
        _, throttle_ms = _produce(client, topic, batch(b"x" * 1_000_000))
        assert 5_000 < throttle_ms <= 30_000
        control.set(spec("iddddddddddd", produce_rate_bytes_per_s=100 * MB))
        started = time.monotonic()
        assert client.call(request(18, 0)).error_code.value == 0
        assert time.monotonic() - started < throttle_ms / 1000 / 2


def test_a_full_instance_is_refused_and_comes_back(control: FakeControl, governed: BrokerProcess) -> None:
    instance_id = "ieeeeeeeeeee"
    topic = _serve(control, governed, instance_id, capacity_bytes=1 * MB)
    records = batch(b"x" * 300_000)
    with _connect(governed) as client:
        answers = [_produce(client, topic, records)[0] for _ in range(5)]
        refused = answers[-1]
        assert refused.error_code.name == "policy_violation"
        assert refused.error_message.startswith(f"instance {instance_id} is full: ")
        assert [each.error_code.value for each in answers[:4]] == [0] * 4, "the overshoot is one request"
        client.send(fetch_request(topic, 0))
        assert client.receive().responses[0].partitions[0].records, "consume goes on"
        client.send_frame(0, 8, produce_body(topic, 0, records, acks=0))
        assert client.is_closed()
    wait_until(lambda: (told := control.traffic_of(instance_id)) and told.blocked)
    with _connect(governed) as client:
        topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": -1}]}]
        import datetime

        from kio.static.primitive import i32Timedelta

        timeout = i32Timedelta.parse(datetime.timedelta(seconds=5))
        client.call(request(21, 1, topics=topics, timeout=timeout))
        assert _produce(client, topic, records)[0].error_code.value == 0, "at once, by the broker's own check"


def test_a_full_instance_that_stalls(control: FakeControl, governed: BrokerProcess) -> None:
    topic = _serve(
        control, governed, "ifffffffffff", capacity_bytes=100_000, full_behaviour=FullBehaviour.STALL
    )
    with _connect(governed) as client:
        _produce(client, topic, batch(b"x" * 200_000))
        started = time.monotonic()
        answer, _ = _produce(client, topic, batch(b"y"))  # request timeout 5 s
        assert answer.error_code.name == "request_timed_out"
        assert 2.3 < time.monotonic() - started < 4.8
        client.send(fetch_request(topic, 0))
        assert client.receive().responses[0].partitions[0].high_watermark == 1, "nothing was appended"


def test_a_request_over_two_instances_charges_each_its_part(
    control: FakeControl, governed: BrokerProcess
) -> None:
    first = _serve(control, governed, "igggggggggg2")
    second = _serve(control, governed, "ihhhhhhhhhh2")
    small, large = batch(b"x" * 1_000), batch(b"y" * 50_000)
    one = produce_body(first, 0, small)
    other = produce_body(second, 0, large)
    body = one[:8] + (2).to_bytes(4, "big") + one[12:] + other[12:]
    with _connect(governed) as client:
        client.send_frame(0, 8, body)
        client.receive_frame()
    wait_until(lambda: (told := control.traffic_of("ihhhhhhhhhh2")) and told.produce.used == len(large))
    wait_until(
        lambda: (
            (told := control.traffic_of("igggggggggg2")) and told.produce.used == 14 + len(body) - len(large)
        )
    )


def test_a_deleted_instance_is_kept_until_it_is_purged(control: FakeControl, governed: BrokerProcess) -> None:
    topic = _serve(control, governed, "ijjjjjjjjjj2")
    partition = governed.data_dir / "logs" / f"{topic}-0"
    deletion = Deletion(deleted_at_ms=1, purge_after_ms=2, lineage="fake")
    with _connect(governed) as client:
        _produce(client, topic, batch(b"x"))
        tenant = _connect(governed, "ijjjjjjjjjj2/192.0.2.7:5555")
        control.set(spec("ijjjjjjjjjj2", state=InstanceState.DELETED, deletion=deletion))
        wait_until(lambda: control.applied_revision == control.revision)
        assert tenant.is_closed(), "whatever a gateway still serves, its broker does not"
        with RawClient(governed.port) as again:
            again.call(request(17, 1, mechanism="PLAIN"))
            token = f"ijjjjjjjjjj2/192.0.2.7:5556\0portico\0{SECRET}".encode()
            again.send(request(36, 1, auth_bytes=token))
            assert again.is_closed()
        assert governed.closed_by("instance_not_served") == 2
        with _connect(governed, "illllllllll2/192.0.2.7:5555") as neighbour:
            assert neighbour.call(request(3, 1, topics=())).topics == ()
        elsewhere = msgspec.structs.replace(deletion, lineage="another feed")
        control.set(spec("ijjjjjjjjjj2", state=InstanceState.PURGED, deletion=elsewhere))
        wait_until(lambda: control.applied_revision == control.revision)
        assert partition.is_dir(), "deleted is kept, and another feed's order is none"
        control.set(spec("ijjjjjjjjjj2", state=InstanceState.PURGED, deletion=deletion))

        def gone() -> bool:
            answer = client.call(request(3, 1, topics=[{"name": topic}]))
            return bool(answer.topics[0].error_code.name == "unknown_topic_or_partition")

        wait_until(gone)
    wait_until(lambda: not list((governed.data_dir / "logs").glob("ijjjjjjjjjj2*")))


def test_data_of_nobody_is_told_of_kept_and_served_to_nobody(
    control: FakeControl, governed: BrokerProcess
) -> None:
    with _connect(governed) as client:
        create_topic(client, "istrayaaaaa2.topic", 2)
        _produce(client, "istrayaaaaa2.topic", batch(b"x" * 1_000))
        wait_until(lambda: control.holdings is not None and control.holdings.holdings, within_s=60)
        assert control.holdings is not None
        [told] = control.holdings.holdings
        assert (told.instance_id, told.partitions, told.has_spec) == ("istrayaaaaa2", 2, False)
        assert told.stored_bytes > 1_000 and told.absent_since_ms is not None
        _, throttle_ms = _produce(client, "istrayaaaaa2.topic", batch(b"x" * 1_000))
        assert throttle_ms > 500, "never unlimited"
        with RawClient(governed.port) as tenant:
            tenant.call(request(17, 1, mechanism="PLAIN"))
            token = f"istrayaaaaa2/192.0.2.7:5556\0portico\0{SECRET}".encode()
            tenant.send(request(36, 1, auth_bytes=token))
            assert tenant.is_closed()
        control.set(spec("istrayaaaaa2"))
        wait_until(lambda: not (control.holdings and control.holdings.holdings), within_s=60)


def test_specs_and_leases_outlive_the_control_plane(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("alone")
    secret = directory / "internal.key"
    secret.write_text(SECRET)
    with running_control() as control:
        broker = BrokerProcess(directory, "--control", control.url, "--secret-file", str(secret))
        broker.start()
        topic = _serve(control, broker, "ikkkkkkkkkk2", produce_rate_bytes_per_s=200_000)
        time.sleep(1.5)
        broker.kill()
    broker.start()
    try:
        with _connect(broker) as client:
            _, throttle_ms = _produce(client, topic, batch(b"x" * 500_000))
            assert throttle_ms > 500, "held to its share without a master"
    finally:
        broker.stop()
