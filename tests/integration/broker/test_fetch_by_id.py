"""Fetch 13-18: topics called by their ids, with and without a session, and ids that are nobody's any more."""

import time
from typing import Any
from uuid import UUID

from tests.integration.broker.process import BrokerProcess
from tests.integration.broker.raw import (
    RawClient,
    batch,
    create_topic,
    fetch_by_id,
    fetch_request,
    produce,
    request,
    topic_id_of,
)
from wire.build import build
from wire.codec import duration, request_class

_NOBODYS = UUID(int=0xAA)


def _errors(answer: Any) -> dict[UUID, str]:
    return {topic.topic_id: topic.partitions[0].error_code.name for topic in answer.responses}


def _delete(client: RawClient, name: str) -> None:
    client.call(request(20, 1, topic_names=[name], timeout=duration(5_000)))


def test_an_unknown_id_is_told_at_once_beside_a_known_one(raw: RawClient) -> None:
    create_topic(raw, "by.id")
    produce(raw, "by.id", batch(b"value"))
    known = topic_id_of(raw, "by.id")
    answer = raw.call(fetch_by_id(17, _NOBODYS, known, UUID(int=0), max_wait_ms=60_000))
    assert answer.error_code.name == "none"
    assert _errors(answer) == {_NOBODYS: "unknown_topic_id", known: "none", None: "unknown_topic_id"}
    assert answer.responses[1].partitions[0].records


def test_a_long_poll_by_id_ends_the_moment_data_comes(broker: BrokerProcess, raw: RawClient) -> None:
    create_topic(raw, "by.id.poll")
    topic_id = topic_id_of(raw, "by.id.poll")
    with RawClient(broker.port) as consumer:
        consumer.send(fetch_by_id(18, topic_id, max_wait_ms=60_000))
        time.sleep(0.2)
        produce(raw, "by.id.poll", batch(b"value"))
        (partition,) = consumer.receive().responses[0].partitions  # which waits less than the poll
    assert partition.records


def test_a_session_by_id_tells_what_is_new(raw: RawClient) -> None:
    names = ("by.id.one", "by.id.two")
    for name in names:
        create_topic(raw, name)
    one, two = (topic_id_of(raw, name) for name in names)
    opened = raw.call(fetch_by_id(16, one, two, _NOBODYS, session=(0, 0)))
    session_id = opened.session_id
    assert session_id and len(opened.responses) == 3
    produce(raw, "by.id.two", batch(b"value"))
    went_on = raw.call(fetch_by_id(16, session=(session_id, 1)))
    assert _errors(went_on) == {two: "none", _NOBODYS: "unknown_topic_id"}
    fewer = raw.call(fetch_by_id(16, session=(session_id, 2), forgotten=(_NOBODYS,)))
    assert _errors(fewer) == {two: "none"}
    fewer = raw.call(fetch_by_id(16, session=(session_id, 3), forgotten=(two,)))
    assert _errors(fewer) == {}


def test_a_session_goes_on_as_it_began(raw: RawClient) -> None:
    create_topic(raw, "by.id.mixed")
    topic_id = topic_id_of(raw, "by.id.mixed")
    opened = raw.call(fetch_by_id(13, topic_id, session=(0, 0)))
    named = raw.call(
        fetch_request("by.id.mixed", 0, version=12, session_id=opened.session_id, session_epoch=1)
    )
    assert named.error_code.name == "fetch_session_topic_id_error"
    opened = raw.call(fetch_request("by.id.mixed", 0, version=12, session_epoch=0))
    by_id = raw.call(fetch_by_id(13, topic_id, session=(opened.session_id, 1)))
    assert by_id.error_code.name == "fetch_session_topic_id_error"


def test_a_topic_that_is_made_anew_is_another_one(broker: BrokerProcess, raw: RawClient) -> None:
    create_topic(raw, "by.id.again")
    before = topic_id_of(raw, "by.id.again")
    opened = raw.call(fetch_by_id(17, before, session=(0, 0)))
    with RawClient(broker.port) as consumer:
        consumer.send(fetch_by_id(17, before, max_wait_ms=60_000))
        time.sleep(0.1)
        _delete(raw, "by.id.again")
        assert _errors(consumer.receive()) == {before: "unknown_topic_id"}
    create_topic(raw, "by.id.again")
    produce(raw, "by.id.again", batch(b"of the second"))
    after = topic_id_of(raw, "by.id.again")
    assert after != before
    went_on = raw.call(fetch_by_id(17, session=(opened.session_id, 1)))
    assert _errors(went_on) == {before: "inconsistent_topic_id"}
    both = raw.call(fetch_by_id(17, before, after))
    assert _errors(both) == {before: "unknown_topic_id", after: "none"}


def test_nobody_fetches_as_a_replica_by_id(broker: BrokerProcess) -> None:
    with RawClient(broker.port) as client:
        state = {"replica_id": 1, "replica_epoch": 1}
        client.send(build(request_class(1, 15), {"replica_state": state}))
        assert client.is_closed()
