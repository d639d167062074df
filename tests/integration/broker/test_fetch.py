"""Fetch: long polls, limits, sessions, fencing, offsets."""

import threading
import time

from tests.integration.broker.process import BrokerProcess
from tests.integration.broker.raw import (
    RawClient,
    batch,
    create_topic,
    fetch,
    fetch_request,
    produce,
    request,
)


def test_a_long_poll_ends_the_moment_data_comes(broker: BrokerProcess, raw: RawClient) -> None:
    create_topic(raw, "poll")
    with RawClient(broker.port) as consumer:
        consumer.send(fetch_request("poll", 0, max_wait_ms=60_000))
        time.sleep(0.2)
        produce(raw, "poll", batch(b"value"))
        (partition,) = consumer.receive().responses[0].partitions  # which waits less than the poll
    assert partition.records


def test_times_of_requests_are_told_of_each_once(broker: BrokerProcess, raw: RawClient) -> None:
    """Those that are answered by their handler, and those whose answer waits for others."""
    create_topic(raw, "timed")

    def counted() -> dict[tuple[str, str], float]:
        seen = broker.metrics()
        return {
            (name, api): seen.get(f'portico_broker_request_{name}seconds_count{{api="{api}"}}', 0)
            for name in ("", "local_", "remote_")
            for api in ("produce", "fetch")
        }

    before = counted()
    for _ in range(3):
        produce(raw, "timed", batch(b"value"))
    fetch(raw, "timed", 0)
    with RawClient(broker.port) as consumer:
        consumer.send(fetch_request("timed", 3, max_wait_ms=60_000))
        time.sleep(0.2)
        produce(raw, "timed", batch(b"value"))
        consumer.receive()
    added = {key: value - before[key] for key, value in counted().items()}
    assert added["", "produce"] == added["local_", "produce"] == 4
    assert added["", "fetch"] == added["local_", "fetch"] == 2
    assert (added["remote_", "produce"], added["remote_", "fetch"]) == (0, 1)


def test_a_long_poll_waits_for_min_bytes_over_partitions(broker: BrokerProcess, raw: RawClient) -> None:
    create_topic(raw, "poll.min", 2)
    records = batch(b"x" * 100)
    with RawClient(broker.port) as consumer:
        wanted = fetch_request("poll.min", 0, max_wait_ms=60_000, min_bytes=2 * len(records))
        (topic,) = wanted.topics
        (first,) = topic.partitions
        two = (first, type(first)(**_values(first) | {"partition": 1}))
        wanted = type(wanted)(
            **_values(wanted) | {"topics": (type(topic)(**_values(topic) | {"partitions": two}),)}
        )
        consumer.send(wanted)
        produce(raw, "poll.min", records, partition=0)
        consumer.socket.settimeout(0.4)
        try:
            early = consumer.socket.recv(1)
        except TimeoutError:
            early = b""
        assert early == b"", "one batch is less than min_bytes"
        consumer.socket.settimeout(30)
        produce(raw, "poll.min", records, partition=1)
        answer = consumer.receive()
    assert [len(each.records) for each in answer.responses[0].partitions] == [len(records)] * 2


def _values(entity: object) -> dict[str, object]:
    return {
        name: getattr(entity, name)
        for name in entity.__dataclass_fields__  # type: ignore[attr-defined]
        if not name.startswith("__")
    }


def test_a_long_poll_ends_at_its_deadline(raw: RawClient) -> None:
    create_topic(raw, "poll.empty")
    started = time.monotonic()
    partition = fetch(raw, "poll.empty", 0, max_wait_ms=300)
    assert time.monotonic() - started > 0.28
    assert not partition.records


def test_a_long_poll_of_a_deleted_topic_ends(broker: BrokerProcess, raw: RawClient) -> None:
    create_topic(raw, "poll.deleted")
    with RawClient(broker.port) as consumer:
        consumer.send(fetch_request("poll.deleted", 0, max_wait_ms=30_000))
        time.sleep(0.1)
        raw.call(request(20, 1, topic_names=["poll.deleted"], timeout=_five_seconds()))
        (partition,) = consumer.receive().responses[0].partitions
    assert partition.error_code.name == "unknown_topic_or_partition"


def _five_seconds() -> object:
    import datetime

    from kio.static.primitive import i32Timedelta

    return i32Timedelta.parse(datetime.timedelta(seconds=5))


def test_a_waiting_client_that_leaves_is_forgotten(broker: BrokerProcess, raw: RawClient) -> None:
    create_topic(raw, "poll.left")
    with RawClient(broker.port) as consumer:
        consumer.send(fetch_request("poll.left", 0, max_wait_ms=600_000))
        time.sleep(0.1)
        assert broker.metrics()["portico_broker_fetches_delayed"] >= 1
    deadline = time.monotonic() + 5
    while broker.metrics()["portico_broker_fetches_delayed"] > 0 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert broker.metrics()["portico_broker_fetches_delayed"] == 0
    produce(raw, "poll.left", batch(b"nobody waits"))


def test_the_first_batch_always_fits(raw: RawClient) -> None:
    create_topic(raw, "first.batch")
    records = batch(b"x" * 5_000)
    produce(raw, "first.batch", records)
    produce(raw, "first.batch", records)
    assert len(fetch(raw, "first.batch", 0, max_bytes=10).records) == len(records)
    both = fetch(raw, "first.batch", 0, max_bytes=len(records) * 2)
    assert len(both.records) == 2 * len(records)
    assert len(fetch(raw, "first.batch", 0).records) == 2 * len(records)


def test_a_fetch_in_the_middle_of_a_batch_gets_the_batch(raw: RawClient) -> None:
    create_topic(raw, "middle")
    records = batch(b"a", b"b", b"c")
    produce(raw, "middle", records)
    assert len(fetch(raw, "middle", 2).records) == len(records)


def test_offsets_out_of_range_and_epochs(raw: RawClient) -> None:
    create_topic(raw, "range")
    produce(raw, "range", batch(b"a"))
    assert fetch(raw, "range", 2).error_code.name == "offset_out_of_range"
    assert fetch(raw, "range", 1).error_code.value == 0
    assert fetch(raw, "range", 0, partition=7).error_code.name == "unknown_topic_or_partition"
    assert fetch(raw, "range", 0, current_leader_epoch=5).error_code.name == "unknown_leader_epoch"
    assert fetch(raw, "range", 0, current_leader_epoch=0).error_code.value == 0


def test_large_answers_leave_by_sendfile_whole(raw: RawClient) -> None:
    create_topic(raw, "large.answers", max_message_bytes="3000000")
    sent = [batch(bytes([number]) * 1_000_000) for number in range(12)]
    for records in sent:
        assert produce(raw, "large.answers", records).error_code.value == 0
    found = fetch(raw, "large.answers", 0, max_bytes=50_000_000).records
    assert len(found) == sum(map(len, sent))
    at = 0
    for number, records in enumerate(sent):
        assert found[at + 61 : at + len(records)] == records[61:]
        assert int.from_bytes(found[at : at + 8], "big") == number
        at += len(records)


def test_slow_readers_get_every_byte(broker: BrokerProcess, raw: RawClient) -> None:
    """Several consumers read small pieces of a large answer: partial writes resume."""
    create_topic(raw, "slow.readers", max_message_bytes="3000000")
    records = batch(bytes(range(256)) * 8_000)
    for _ in range(8):
        produce(raw, "slow.readers", records)
    failures: list[str] = []

    def read() -> None:
        with RawClient(broker.port) as consumer:
            consumer.send(fetch_request("slow.readers", 0, max_bytes=50_000_000))
            time.sleep(0.3)
            size = int.from_bytes(consumer.socket.recv(4), "big")
            got = 0
            while got < size:
                got += len(consumer.socket.recv(50_000))
            if got != size:
                failures.append(f"{got} of {size}")
            if consumer._sent and size < 8 * len(records):
                failures.append("too short")

    readers = [threading.Thread(target=read) for _ in range(5)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(30)
    assert not failures
    assert not any(reader.is_alive() for reader in readers)


class TestSessions:
    def test_only_what_is_new_is_told(self, raw: RawClient) -> None:
        create_topic(raw, "session", 2)
        wanted = fetch_request("session", 0, session_epoch=0)
        opened = raw.call(wanted)
        assert opened.session_id > 0
        assert len(opened.responses[0].partitions) == 1
        again = raw.call(self._incremental(opened.session_id, 1))
        assert again.error_code.value == 0
        assert again.responses == ()
        produce(raw, "session", batch(b"new"))
        told = raw.call(self._incremental(opened.session_id, 2))
        assert told.responses[0].partitions[0].records
        assert told.session_id == opened.session_id

    def test_a_wrong_epoch_or_id_is_refused(self, raw: RawClient) -> None:
        create_topic(raw, "session.errors")
        opened = raw.call(fetch_request("session.errors", 0, session_epoch=0))
        wrong = raw.call(self._incremental(opened.session_id, 9))
        assert wrong.error_code.name == "invalid_fetch_session_epoch"
        missing = raw.call(self._incremental(opened.session_id ^ 1, 1))
        assert missing.error_code.name == "fetch_session_id_not_found"

    def test_forgotten_partitions_are_not_fetched(self, raw: RawClient) -> None:
        create_topic(raw, "session.forgets")
        opened = raw.call(fetch_request("session.forgets", 0, session_epoch=0))
        produce(raw, "session.forgets", batch(b"unseen"))
        forgets = [{"topic": "session.forgets", "partitions": [0]}]
        answer = raw.call(self._incremental(opened.session_id, 1, forgotten_topics_data=forgets))
        assert answer.responses == ()

    @staticmethod
    def _incremental(session_id: int, epoch: int, **changes: object) -> object:
        changes = {"topics": (), "session_id": session_id, "session_epoch": epoch} | changes
        return fetch_request("unused", 0, **changes)  # type: ignore[arg-type]
