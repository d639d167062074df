"""What waits for a slow broker: order, and what may be merged."""

from uuid import UUID

from broker.controller.command_queue import CommandQueue
from contracts.cluster import (
    Command,
    DeletedTopic,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

T1, T2 = UUID(int=1), UUID(int=2)


def roles(*states: LeaderAndIsrPartitionState, full: bool = False, epoch: int = 1) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        controller_id=9,
        controller_epoch=epoch,
        broker_epoch=5,
        is_full=full,
        partition_states=states,
        topic_configs={state.topic: {"epoch": str(state.leader_epoch)} for state in states},
    )


def role(
    partition: int, leader_epoch: int, *, new: bool = False, topic_id: UUID = T1
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        topic="t",
        topic_id=topic_id,
        partition=partition,
        controller_epoch=1,
        leader=1,
        leader_epoch=leader_epoch,
        isr=(1,),
        partition_epoch=leader_epoch,
        replicas=(1,),
        is_new=new,
    )


def stop(partition: int, *, delete: bool, number: int = 1) -> StopReplicaRequest:
    state = StopReplicaPartitionState(
        topic="t", topic_id=T1, partition=partition, leader_epoch=3, delete_partition=delete
    )
    return StopReplicaRequest(
        controller_id=9, controller_epoch=1, broker_epoch=5, number=number, partition_states=(state,)
    )


def metadata(
    *partitions: tuple[str, int, int],
    topics: tuple[tuple[str, UUID], ...] = (),
    gone: tuple[tuple[str, UUID], ...] = (),
    full: bool = False,
    configs: dict[str, dict[str, str]] | None = None,
) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=9,
        controller_epoch=1,
        broker_epoch=5,
        is_full=full,
        topic_states=tuple(UpdateMetadataTopicState(topic=name, topic_id=each) for name, each in topics),
        deleted_topics=tuple(DeletedTopic(topic=name, topic_id=each) for name, each in gone),
        partition_states=tuple(
            UpdateMetadataPartitionState(
                topic=topic,
                partition=partition,
                controller_epoch=1,
                leader=leader,
                leader_epoch=0,
                isr=(leader,),
                partition_epoch=0,
                replicas=(leader,),
            )
            for topic, partition, leader in partitions
        ),
        broker_configs=configs,
    )


def drained(*commands: Command) -> list[Command]:
    queue = CommandQueue()
    for command in commands:
        queue.push(command)
    popped = []
    while queue:
        popped.append(queue.pop())
    return popped


def test_one_announcement_keeps_its_order() -> None:
    first, second, third = roles(role(0, 1)), metadata(("t", 0, 1)), stop(1, delete=True)
    assert drained(first, second, third) == [first, second, third]


def test_roles_are_merged_and_the_later_word_counts() -> None:
    merged = drained(roles(role(0, 1, new=True), role(1, 1)), roles(role(0, 2), role(2, 1)))
    assert len(merged) == 1
    assert isinstance(merged[0], LeaderAndIsrRequest)
    assert merged[0].partition_states == (role(0, 2, new=True), role(1, 1), role(2, 1))
    assert merged[0].topic_configs == {"t": {"epoch": "1"}}


def test_a_replica_of_another_topic_of_the_name_is_not_new_by_the_first() -> None:
    merged = drained(roles(role(0, 1, new=True)), roles(role(0, 0, topic_id=T2)))[0]
    assert isinstance(merged, LeaderAndIsrRequest)
    assert merged.partition_states == (role(0, 0, topic_id=T2),)


def test_a_full_request_replaces_what_waits() -> None:
    merged = drained(roles(role(0, 1), role(1, 1, new=True)), roles(role(1, 2), full=True))[0]
    assert isinstance(merged, LeaderAndIsrRequest)
    assert merged.is_full
    assert merged.partition_states == (role(1, 2, new=True),)


def test_what_follows_a_full_request_joins_it() -> None:
    merged = drained(roles(role(0, 1), full=True), roles(role(1, 1)))[0]
    assert isinstance(merged, LeaderAndIsrRequest)
    assert merged.is_full
    assert merged.partition_states == (role(0, 1), role(1, 1))


def test_roles_do_not_pass_a_stop() -> None:
    first, second, third = roles(role(0, 1)), stop(0, delete=True), roles(role(0, 2, new=True))
    assert drained(first, second, third) == [first, second, third]


def test_stops_are_merged_and_a_deletion_stays_one() -> None:
    merged = drained(stop(0, delete=True, number=1), stop(0, delete=False, number=2))
    assert merged == [stop(0, delete=True, number=2)]


def test_metadata_is_one_request_after_the_roles_it_tells_of() -> None:
    merged = drained(metadata(("t", 0, 1)), roles(role(0, 2)), metadata(("t", 0, 2), ("u", 0, 1)))
    assert merged == [roles(role(0, 2)), metadata(("t", 0, 2), ("u", 0, 1))]


def test_metadata_of_a_deleted_topic_is_not_told() -> None:
    merged = drained(
        metadata(("t", 0, 1), ("u", 0, 1), topics=(("t", T1), ("u", T2))),
        metadata(gone=(("t", T1),)),
    )
    assert merged == [metadata(("u", 0, 1), topics=(("u", T2),), gone=(("t", T1),))]


def test_a_name_taken_again_is_told_with_the_deletion() -> None:
    merged = drained(metadata(gone=(("t", T1),)), metadata(("t", 0, 1), topics=(("t", T2),)))
    assert merged == [metadata(("t", 0, 1), topics=(("t", T2),), gone=(("t", T1),))]


def test_full_metadata_replaces_and_is_added_to() -> None:
    full = metadata(("t", 0, 1), full=True, configs={})
    assert drained(metadata(("u", 0, 1)), full) == [full]
    assert drained(full, metadata(("u", 0, 1))) == [metadata(("t", 0, 1), ("u", 0, 1), full=True, configs={})]


def test_a_new_controller_silences_the_old_one() -> None:
    new = roles(role(0, 5), full=True, epoch=2)
    assert drained(roles(role(1, 1)), metadata(("t", 0, 1)), stop(2, delete=True), new) == [new]
