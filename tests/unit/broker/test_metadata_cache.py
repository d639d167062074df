"""The cluster as UpdateMetadata tells it."""

from typing import Any
from uuid import UUID, uuid4

from broker.metadata.metadata_cache import MetadataCache, MetadataChange
from contracts.cluster import (
    DeletedTopic,
    LiveBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

_TENANTS = "iabcdefghijk.orders"


def _broker(broker_id: int, epoch: int = 1, **changes: Any) -> LiveBroker:
    return LiveBroker(broker_id=broker_id, host="h", port=9000 + broker_id, broker_epoch=epoch, **changes)


def _partition(topic: str, index: int = 0, **changes: Any) -> UpdateMetadataPartitionState:
    values: dict[str, Any] = {
        "controller_epoch": 1,
        "leader": 1,
        "leader_epoch": 0,
        "isr": (1, 2),
        "partition_epoch": 0,
        "replicas": (1, 2),
    }
    return UpdateMetadataPartitionState(topic=topic, partition=index, **(values | changes))


def _update(
    *, epoch: int = 1, brokers: tuple[LiveBroker, ...] = (_broker(1), _broker(2)), **changes: Any
) -> Any:
    return UpdateMetadataRequest(
        controller_id=1, controller_epoch=epoch, broker_epoch=1, live_brokers=brokers, **changes
    )


def _topic(name: str, topic_id: UUID, **configs: str) -> UpdateMetadataTopicState:
    return UpdateMetadataTopicState(topic=name, topic_id=topic_id, configs=configs)


def _with_topic(name: str = "t") -> tuple[MetadataCache, UUID]:
    cache, topic_id = MetadataCache(), uuid4()
    cache.apply(_update(topic_states=(_topic(name, topic_id),), partition_states=(_partition(name),)))
    return cache, topic_id


def test_nothing_is_known_before_a_controller_spoke() -> None:
    cache = MetadataCache()
    assert not cache.is_known
    assert cache.live_controller_id == -1
    cache.apply(_update())
    assert cache.is_known
    assert cache.live_controller_id == 1


def test_topics_are_found_by_name_id_and_instance() -> None:
    cache, topic_id = _with_topic(_TENANTS)
    topic = cache.topic(_TENANTS)
    assert topic is not None
    assert cache.topic_by_id(topic_id) is topic
    assert cache.of_instance("iabcdefghijk") == [topic]
    assert (len(cache), cache.partition_count, topic.replicas) == (1, 1, 2)
    assert cache.partition(_TENANTS, 0) is not None
    assert cache.partition(_TENANTS, 1) is None
    assert cache.partition("other", 0) is None


def test_a_partial_update_keeps_the_rest() -> None:
    cache, _ = _with_topic()
    topic = cache.topic("t")
    assert topic is not None
    topic.encoded[1] = b"x"
    cache.apply(_update(topic_states=(_topic("u", uuid4()),), partition_states=(_partition("u"),)))
    assert topic.encoded == {1: b"x"}, "nothing about it changed"
    cache.apply(_update(partition_states=(_partition("t", leader=2, leader_epoch=1),)))
    assert topic.encoded == {}
    state = cache.partition("t", 0)
    assert state is not None
    assert state.leader == 2
    assert len(cache) == 2


def test_who_is_alive_shows_in_every_topic() -> None:
    cache, _ = _with_topic()
    topic = cache.topic("t")
    assert topic is not None
    topic.encoded[1] = b"x"
    cache.apply(_update(brokers=(_broker(2),)))
    assert topic.encoded == {}
    assert cache.live_controller_id == -1, "the controller itself is gone"
    assert not cache.is_live(1)


def test_deleted_topics_go_by_id() -> None:
    cache, topic_id = _with_topic(_TENANTS)
    gone: list[str] = []
    cache.on_deleted(lambda topic: gone.append(topic.name))
    cache.apply(_update(deleted_topics=(DeletedTopic(topic=_TENANTS, topic_id=uuid4()),)))
    assert gone == [], "another topic of that name, long gone"
    cache.apply(_update(deleted_topics=(DeletedTopic(topic=_TENANTS, topic_id=topic_id),)))
    assert gone == [_TENANTS]
    assert (len(cache), cache.partition_count) == (0, 0)
    assert cache.of_instance("iabcdefghijk") == []


def test_a_name_taken_again_is_another_topic() -> None:
    cache, _ = _with_topic()
    gone: list[str] = []
    cache.on_deleted(lambda topic: gone.append(topic.name))
    again = uuid4()
    cache.apply(_update(topic_states=(_topic("t", again),), partition_states=(_partition("t"),)))
    assert gone == ["t"]
    topic = cache.topic("t")
    assert topic is not None
    assert topic.topic_id == again


def test_a_full_update_replaces_everything() -> None:
    cache, _ = _with_topic()
    other = uuid4()
    cache.apply(
        _update(is_full=True, topic_states=(_topic("u", other),), partition_states=(_partition("u"),))
    )
    assert [topic.name for topic in cache] == ["u"]


def test_what_changed_is_told() -> None:
    cache, topic_id = _with_topic()
    told: list[MetadataChange] = []
    cache.on_change(told.append)
    cache.apply(_update(topic_states=(_topic("t", topic_id, **{"retention.ms": "1"}),)))
    cache.apply(_update(broker_configs={"": {"log.retention.ms": "5"}}))
    cache.apply(_update(broker_configs={"": {"log.retention.ms": "5"}}))
    cache.apply(_update(brokers=(_broker(1),)))
    assert [(list(each.configs), each.broker_configs, each.brokers) for each in told] == [
        (["t"], False, False),
        ([], True, False),
        ([], False, False),
        ([], False, True),
    ]
    assert cache.configs("t") == {"retention.ms": "1"}
    assert cache.configs("missing") == {}


def test_only_the_registered_life_of_a_broker_that_stays_may_join_an_isr() -> None:
    cache = MetadataCache()
    cache.apply(_update(brokers=(_broker(1, epoch=7), _broker(2, in_controlled_shutdown=True))))
    assert cache.may_join_isr(1, 7)
    assert not cache.may_join_isr(1, 6)
    assert not cache.may_join_isr(2, 1)
    assert not cache.may_join_isr(3, 1)


def test_who_leaves_is_noted_ahead_of_the_next_update() -> None:
    cache = MetadataCache()
    cache.apply(_update(brokers=(_broker(1, epoch=7), _broker(2))))
    cache.note_shutdowns([_broker(1, epoch=6, in_controlled_shutdown=True), _broker(3)])
    assert cache.may_join_isr(1, 7), "that was an earlier life"
    assert not cache.is_live(3)
    cache.note_shutdowns([_broker(1, epoch=7, in_controlled_shutdown=True), _broker(2)])
    assert not cache.may_join_isr(1, 7)
    assert cache.may_join_isr(2, 1)
