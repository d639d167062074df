"""What the protocol says about transactions, on a bare connection."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.integration.broker.process import running_broker
from tests.integration.broker.raw import RawClient, batch, produce_body, request
from wire.batch import TRANSACTIONAL_BIT
from wire.codec import decode_response, duration

NewTopic = Callable[[int], str]
_TIMEOUT = duration(60_000)


def _init(raw: RawClient, transactional_id: str, version: int = 4, **more: Any) -> Any:
    values = {"producer_id": -1, "producer_epoch": -1, **more}
    wanted = request(22, version, transactional_id=transactional_id, transaction_timeout=_TIMEOUT, **values)
    return raw.call(wanted)


def _begun(raw: RawClient, transactional_id: str) -> tuple[int, int]:
    answer = _init(raw, transactional_id)
    assert answer.error_code is ErrorCode.none
    return answer.producer_id, answer.producer_epoch


def _add(raw: RawClient, transactional_id: str, producer: tuple[int, int], topic: str, *indexes: int) -> Any:
    answer = raw.call(
        request(
            24,
            3,
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[{"name": topic, "partitions": indexes or (0,)}],
        )
    )
    (found,) = answer.results_by_topic_v3_and_below
    return [one.partition_error_code for one in found.results_by_partition]


def _end(
    raw: RawClient, transactional_id: str, producer: tuple[int, int], committed: bool = True
) -> ErrorCode:
    wanted = request(
        26,
        3,
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=committed,
    )
    error: ErrorCode = raw.call(wanted).error_code
    return error


def _produce(
    raw: RawClient, transactional_id: str, producer: tuple[int, int], topic: str, sequence: int = 0
) -> ErrorCode:
    records = batch(
        b"x",
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        attributes=TRANSACTIONAL_BIT,
    )
    raw.send_frame(0, 8, produce_body(topic, 0, records, transactional_id=transactional_id))
    _, answer = decode_response(raw.receive_frame(), 0, 8)
    error: ErrorCode = answer.responses[0].partition_responses[0].error_code
    return error


def test_a_batch_is_taken_only_inside_its_transaction(raw: RawClient, new_topic: NewTopic) -> None:
    topic, producer = new_topic(1), _begun(raw, "verified")
    assert _produce(raw, "verified", producer, topic) is ErrorCode.invalid_txn_state
    assert _add(raw, "verified", producer, topic) == [ErrorCode.none]
    assert _produce(raw, "verified", producer, topic) is ErrorCode.none
    assert _produce(raw, "verified", producer, topic, 1) is ErrorCode.none
    assert _end(raw, "verified", producer) is ErrorCode.none
    assert _produce(raw, "verified", producer, topic, 2) is ErrorCode.invalid_txn_state
    stranger = (producer[0] + 100_000, 0)
    assert _produce(raw, "never-seen", stranger, topic) is ErrorCode.invalid_producer_id_mapping


def test_versions_name_a_fenced_producer_each_in_its_way(raw: RawClient, new_topic: NewTopic) -> None:
    topic, former = new_topic(1), _begun(raw, "versions")
    _begun(raw, "versions")
    by_version = {
        0: ErrorCode.invalid_producer_epoch,
        1: ErrorCode.invalid_producer_epoch,
        2: ErrorCode.producer_fenced,
        3: ErrorCode.producer_fenced,
    }
    for version, error in by_version.items():
        ids = {"transactional_id": "versions", "producer_id": former[0], "producer_epoch": former[1]}
        assert raw.call(request(25, version, group_id="g", **ids)).error_code is error
        assert raw.call(request(26, version, committed=True, **ids)).error_code is error
        old = {f"v3_and_below_{name}": value for name, value in ids.items()}
        topics = [{"name": topic, "partitions": (0,)}]
        answer = raw.call(request(24, version, v3_and_below_topics=topics, **old))
        (found,) = answer.results_by_topic_v3_and_below[0].results_by_partition
        assert found.partition_error_code is error
    expected = {"producer_id": former[0], "producer_epoch": 700}
    assert _init(raw, "versions", 3, **expected).error_code is ErrorCode.invalid_producer_epoch
    assert _init(raw, "versions", 4, **expected).error_code is ErrorCode.producer_fenced


def test_a_partition_that_does_not_exist_keeps_the_others_out(raw: RawClient, new_topic: NewTopic) -> None:
    topic, producer = new_topic(1), _begun(raw, "missing")
    assert _add(raw, "missing", producer, topic, 0, 7) == [
        ErrorCode.operation_not_attempted,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert _add(raw, "missing", producer, "__consumer_offsets") == [ErrorCode.topic_authorization_failed]
    assert _end(raw, "missing", producer) is ErrorCode.invalid_txn_state


def test_offsets_of_a_transaction_are_unstable_until_it_ends(raw: RawClient, new_topic: NewTopic) -> None:
    topic, producer = new_topic(1), _begun(raw, "offsets")
    ids = {"transactional_id": "offsets", "producer_id": producer[0], "producer_epoch": producer[1]}
    assert _commit(raw, ids, topic, 5) is ErrorCode.invalid_txn_state, "the group is not in the transaction"
    assert _commit(raw, ids, topic, 5, version=4) is ErrorCode.transaction_abortable
    assert raw.call(request(25, 3, group_id="unstable", **ids)).error_code is ErrorCode.none
    assert _commit(raw, ids, topic, 5) is ErrorCode.none
    assert _fetch(raw, topic, require_stable=True) == (ErrorCode.unstable_offset_commit, -1)
    assert _fetch(raw, topic, require_stable=False) == (ErrorCode.none, -1)
    assert _end(raw, "offsets", producer) is ErrorCode.none
    assert _fetch(raw, topic, require_stable=True) == (ErrorCode.none, 5)
    raw.call(request(25, 3, group_id="unstable", **ids))
    assert _commit(raw, ids, topic, 9) is ErrorCode.none
    assert _end(raw, "offsets", producer, committed=False) is ErrorCode.none
    assert _fetch(raw, topic, require_stable=True) == (ErrorCode.none, 5)
    raw.call(request(25, 3, group_id="unstable", **ids))
    late = ids | {"generation_id": 3, "member_id": "m"}
    assert _commit(raw, late, topic, 9) is ErrorCode.unknown_member_id


def _commit(raw: RawClient, ids: dict[str, Any], topic: str, offset: int, version: int = 3) -> ErrorCode:
    values = {"generation_id": -1, "member_id": "", "group_instance_id": None} | ids
    place = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}
    one: dict[str, Any] = {**place, "committed_metadata": "m"}
    answer = raw.call(
        request(28, version, group_id="unstable", topics=[{"name": topic, "partitions": [one]}], **values)
    )
    error: ErrorCode = answer.topics[0].partitions[0].error_code
    return error


def _fetch(raw: RawClient, topic: str, *, require_stable: bool) -> tuple[ErrorCode, int]:
    wanted = [{"name": topic, "partition_indexes": (0,)}]
    answer = raw.call(request(9, 7, group_id="unstable", topics=wanted, require_stable=require_stable))
    (found,) = answer.topics[0].partitions
    return found.error_code, found.committed_offset


def test_what_is_open_is_listed_and_described(raw: RawClient, new_topic: NewTopic) -> None:
    topic, producer = new_topic(2), _begun(raw, "described")
    began_ms = int(time.time() * 1000)
    _add(raw, "described", producer, topic, 0, 1)
    _produce(raw, "described", producer, topic)
    (state,) = raw.call(request(65, 0, transactional_ids=["described"])).transaction_states
    assert (state.transaction_state, state.producer_id) == ("Ongoing", producer[0])
    assert state.topics[0].partitions == (0, 1)
    assert abs(state.transaction_start_time - began_ms) < 10_000
    filters = {"state_filters": ["Ongoing", "Odd"], "producer_id_filters": [producer[0]]}
    answer = raw.call(request(66, 1, duration_filter=-1, **filters))
    (listed,) = answer.transaction_states
    assert answer.unknown_state_filters == ("Odd",)
    assert listed.transactional_id == "described"
    for pattern, ids, error in (
        ("desc.*ed", ["described"], ErrorCode.none),
        ("desc", [], ErrorCode.none),
        (None, ["described"], ErrorCode.none),
        ("(", [], ErrorCode.invalid_regular_expression),
        ("(a{1000}){1000}", [], ErrorCode.invalid_regular_expression),
    ):
        asked = request(66, 2, duration_filter=-1, transactional_id_pattern=pattern, **filters)
        answer = raw.call(asked)
        assert [each.transactional_id for each in answer.transaction_states] == ids
        assert answer.error_code is error
    described = raw.call(request(61, 0, topics=[{"name": topic, "partition_indexes": (0, 5)}])).topics[0]
    (active,) = described.partitions[0].active_producers
    assert (active.producer_id, active.current_txn_start_offset) == (producer[0], 0)
    assert described.partitions[1].error_code is ErrorCode.unknown_topic_or_partition
    _end(raw, "described", producer)
    (state,) = raw.call(request(65, 0, transactional_ids=["described"])).transaction_states
    assert (state.transaction_state, state.transaction_start_time) == ("CompleteCommit", -1)
    (state,) = raw.call(request(65, 0, transactional_ids=["never"])).transaction_states
    assert state.error_code is ErrorCode.transactional_id_not_found


def test_only_brokers_verify_for_others(raw: RawClient) -> None:
    answer = raw.call(request(24, 4, transactions=[]))
    assert answer.error_code is ErrorCode.cluster_authorization_failed


@pytest.mark.parametrize("version", range(5))
def test_empty_ids_and_long_timeouts_are_refused(raw: RawClient, version: int) -> None:
    assert _init(raw, "", version).error_code is ErrorCode.invalid_request
    values = {"producer_id": -1, "producer_epoch": -1}
    wanted = request(22, version, transactional_id="patient", transaction_timeout=duration(900_001), **values)
    assert raw.call(wanted).error_code is ErrorCode.invalid_transaction_timeout


def test_kill_9_in_the_middle_of_a_transaction(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        with RawClient(broker.port) as raw:
            _create(raw, "kept")
            producer = _begun(raw, "killed")
            _add(raw, "killed", producer, "kept")
            assert _produce(raw, "killed", producer, "kept") is ErrorCode.none
        broker.kill()
        broker.start()
        with RawClient(broker.port) as raw:
            assert _until_loaded(raw, "killed").transaction_state == "Ongoing"
            assert _produce(raw, "killed", producer, "kept", 1) is ErrorCode.none
            assert _end(raw, "killed", producer) is ErrorCode.none
            (state,) = raw.call(request(65, 0, transactional_ids=["killed"])).transaction_states
            assert state.transaction_state == "CompleteCommit"


def _create(raw: RawClient, topic: str) -> None:
    asked = {"name": topic, "num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
    (answer,) = raw.call(request(19, 4, topics=[asked], timeout=duration(5_000))).topics
    assert answer.error_code is ErrorCode.none


def _until_loaded(raw: RawClient, transactional_id: str) -> Any:
    deadline = time.monotonic() + 10
    while True:
        (state,) = raw.call(request(65, 0, transactional_ids=[transactional_id])).transaction_states
        if state.error_code is ErrorCode.none:
            return state
        assert time.monotonic() < deadline, state
        time.sleep(0.02)
