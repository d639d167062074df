"""Transactions of version 2 (KIP-890): partitions join by themselves, each has an epoch of its own; a client
of version 1 beside, and a broker that is killed between the steps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.integration.broker.process import BrokerProcess, running_broker
from tests.integration.broker.raw import RawClient, create_topic, request, topic_id_of
from tests.integration.cluster.brokers import eventually
from tests.integration.transactions.clients import producer, read, write
from tests.integration.transactions.own_epochs import Writer

NewTopic = Callable[[int], str]
NOBODYS = UUID(int=0xAA)


def _config(broker: BrokerProcess) -> dict[str, Any]:
    return {"bootstrap.servers": broker.address}


@pytest.mark.parametrize("by_id", [False, True])
def test_partitions_join_by_themselves(
    broker: BrokerProcess, raw: RawClient, new_topic: NewTopic, by_id: bool
) -> None:
    name = new_topic(3)
    topic = topic_id_of(raw, name) if by_id else name
    writer = Writer(raw, f"joins-{by_id}")
    writer.begin()
    assert writer.produce(topic, b"a", indexes=(0, 1, 2)) == [ErrorCode.none] * 3
    assert writer.produce(topic, b"b", sequence=1) == [ErrorCode.none]
    first = writer.epoch
    writer.end(commit=True)
    assert writer.epoch == (first.producer_id, first.producer_epoch + 1)
    assert writer.produce(topic, b"late", sequence=2, epoch=first) == [ErrorCode.invalid_producer_epoch]
    writer.write(topic, b"not seen")
    writer.end(commit=False)
    writer.write(topic, b"c")
    writer.end(commit=True)
    assert sorted(read(_config(broker), name, 5, partitions=3)) == ["a", "a", "a", "b", "c"]


def test_a_lost_answer_is_given_again(raw: RawClient, new_topic: NewTopic) -> None:
    topic, writer = new_topic(1), Writer(raw, "lost-answer")
    writer.begin()
    writer.write(topic, b"a")
    former = writer.epoch
    writer.end(commit=True)
    again = eventually(
        lambda: writer.end_once(commit=True, epoch=former),
        lambda found: found[0] is not ErrorCode.concurrent_transactions,
    )
    assert again == (ErrorCode.none, writer.epoch)
    assert writer.end_once(commit=False, epoch=former)[0] is ErrorCode.invalid_txn_state
    writer.write(topic, b"b")
    assert writer.end_once(commit=True, epoch=former)[0] is ErrorCode.producer_fenced
    writer.end(commit=True)


def test_nothing_can_be_aborted_but_not_committed(raw: RawClient) -> None:
    writer = Writer(raw, "nothing")
    writer.begin()
    former = writer.epoch
    assert writer.end_once(commit=True)[0] is ErrorCode.invalid_txn_state
    writer.end(commit=False)
    assert writer.epoch == (former.producer_id, former.producer_epoch + 1)


def test_what_comes_first_is_first(raw: RawClient, new_topic: NewTopic) -> None:
    """A batch that is lost in front of others is not left out in silence."""
    topic, writer = new_topic(1), Writer(raw, "in-order")
    writer.begin()
    assert writer.produce(topic, b"second", sequence=1) == [ErrorCode.out_of_order_sequence_number]
    assert writer.produce(topic, b"first") == [ErrorCode.none]
    assert writer.produce(topic, b"second", sequence=1) == [ErrorCode.none]
    writer.end(commit=True)


def test_an_id_that_no_topic_has(raw: RawClient) -> None:
    writer = Writer(raw, "no-topic")
    writer.begin()
    assert writer.produce(NOBODYS, b"a", indexes=(0, 1)) == [ErrorCode.unknown_topic_id] * 2


def test_offsets_join_by_themselves(raw: RawClient, new_topic: NewTopic) -> None:
    topic, writer = new_topic(1), Writer(raw, "offsets-join")
    writer.begin()
    for offset, commit, expected in ((5, True, 5), (9, False, 5), (7, True, 7)):
        error = eventually(
            lambda at=offset: writer.commit_offset("joined", topic, at),  # type: ignore[misc]
            lambda found: found is not ErrorCode.coordinator_load_in_progress,
        )
        assert error is ErrorCode.none
        writer.end(commit=commit)
        wanted = request(
            9,
            7,
            group_id="joined",
            topics=[{"name": topic, "partition_indexes": (0,)}],
            require_stable=True,
        )
        found = eventually(
            lambda: raw.call(wanted).topics[0].partitions[0],  # noqa: B023
            lambda one: one.error_code is not ErrorCode.unstable_offset_commit,
        )
        assert found.committed_offset == expected


def test_a_client_of_version_1_beside_and_behind(
    broker: BrokerProcess, raw: RawClient, new_topic: NewTopic
) -> None:
    """Both use one topic at the same time, and each takes over the other's transactional id."""
    topic, config = new_topic(1), _config(broker)
    older, newer = producer(config, "beside"), Writer(raw, "beside-2")
    newer.begin()
    older.begin_transaction()
    older.produce(topic, b"older")
    older.flush(20)
    newer.write(topic, b"newer")
    older.commit_transaction(20)
    newer.end(commit=True)
    takes_over = Writer(raw, "beside")
    takes_over.begin()
    takes_over.write(topic, b"newer takes over")
    takes_over.end(commit=True)
    write(producer(config, "beside-2"), topic, ["older takes over"], commit=True)
    assert newer.produce(topic, b"fenced") == [ErrorCode.invalid_producer_epoch]
    values = ["older", "newer", "newer takes over", "older takes over"]
    assert sorted(read(config, topic, 4)) == sorted(values)


@pytest.mark.parametrize("commit", [True, pytest.param(False, marks=pytest.mark.long)])
def test_kill_9_between_the_steps(tmp_path: Path, commit: bool) -> None:
    """The leader and coordinator is killed behind what it took in, and behind the decision."""
    with running_broker(tmp_path) as broker:
        with RawClient(broker.port) as raw:
            create_topic(raw, "kept", 2)
            writer = Writer(raw, "killed")
            writer.begin()
            writer.write("kept", b"kept", indexes=(0, 1))
        broker.kill()
        broker.start()
        with RawClient(broker.port) as raw:
            writer.raw = raw
            writer.write("kept", b"more", sequence=1)
            former = writer.epoch
            writer.end(commit=commit)
        broker.kill()
        broker.start()
        with RawClient(broker.port) as raw:
            writer.raw = raw
            again = eventually(
                lambda: writer.end_once(commit=commit, epoch=former),
                lambda found: found[0] in (ErrorCode.none, ErrorCode.invalid_txn_state),
            )
            assert again == (ErrorCode.none, writer.epoch)
            writer.write("kept", b"next")
            writer.end(commit=True)
        seen = ["kept", "kept", "more", "next"] if commit else ["next"]
        assert sorted(read(_config(broker), "kept", len(seen), partitions=2)) == seen
